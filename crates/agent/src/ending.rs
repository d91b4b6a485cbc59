//! Starts and ends runs: reports `run.started` with the request of the user, and exactly one ending.
//!
//! It must not know how turns and calls run. Start with [`Worker::start`] and [`Worker::conclude`].

use recount_engine::{Error, WorkerExit, WorkerSession};
use recount_event::family::run::{BranchedFrom, Cancelled, Failed, Finished, RunKind, Started};
use recount_event::family::turn::StopReason;
use recount_event::family::user::{Attachment, Message};
use recount_event::{Draft, Payload, time};
use recount_run::{CancelledBy, Totals};

use crate::budget::BUDGET_EXCEEDED;
use crate::worker::{CallEnd, WorkResult, Worker};

impl Worker {
    /// Starts a run that no worker has claimed. A run of a single call also executes the call.
    pub(crate) async fn start(&mut self) -> WorkResult<()> {
        let is_loop = self.worker_session.state().kind() == RunKind::AgentLoop;
        if self.worker_session.state().claim().is_none() {
            let mut drafts = vec![self.started()];
            drafts.extend(self.branched_from());
            if is_loop {
                if let Err(missing) = self.add_request(&mut drafts).await? {
                    drafts.push(self.failed("attachment_missing", missing, false));
                } else if !self.lacks_workspace() {
                    // Nothing external happens before the turn starts, so one append holds both.
                    return self.turn(drafts).await;
                }
            }
            self.report(drafts).await?;
        }
        match is_loop {
            true => Ok(()),
            false if self.is_for_patches() => self.patch_call().await,
            false => self.start_single_call().await,
        }
    }

    /// The event that names the run from which this one branches, if branches are logged.
    fn branched_from(&self) -> Option<Draft> {
        let reason = self.config.branch.clone().filter(|_| self.agent.settings.experimental.branches)?;
        let (run, sequence) = self.resumed?;
        let branched = BranchedFrom::new(run.to_string(), sequence, reason);
        Some(Payload::RunBranchedFrom(Box::new(branched)).into())
    }

    fn started(&self) -> Draft {
        let mut started = Started::new();
        started.worker_id = Some(self.worker_session.worker_id().to_owned());
        started.lease_until = Some(time::format_ms(self.worker_session.lease_until_ms()));
        Payload::RunStarted(Box::new(started)).into()
    }

    /// Adds the request of the user with its attachments, which belong to the run from now on. `Err`: an attachment is
    /// missing.
    async fn add_request(&self, drafts: &mut Vec<Draft>) -> WorkResult<Result<(), String>> {
        let text = self.queued.request_text.clone().unwrap_or_default();
        let blocks = self.config.blocks.clone();
        if !text.is_empty() || !blocks.is_empty() {
            let mut message = Message::new(text);
            message.blocks = (!blocks.is_empty()).then_some(blocks);
            message.message_id = Some(self.worker_session.mint("msg_"));
            drafts.push(Payload::UserMessage(Box::new(message)).into());
        }
        for attached in &self.config.attachments {
            let id = attached.artifact_id.clone();
            match self.worker_session.write().attach_artifact(self.worker_session.run(), &id).await {
                Ok(stored) => drafts.push(stored.created),
                Err(Error::Rejected(missing)) => {
                    return Ok(Err(format!("an attachment is not available: {missing}")));
                }
                Err(failed) => return Err(failed.into()),
            }
            let kind = if attached.mime.starts_with("image/") { "image" } else { "file" };
            let attachment = Attachment::new(kind.to_owned(), attached.mime.clone(), id);
            drafts.push(Payload::UserAttachment(Box::new(attachment)).into());
        }
        Ok(Ok(()))
    }

    /// Reports the ending of a run without outstanding work.
    pub(crate) async fn conclude(&mut self) -> WorkResult<()> {
        if self.worker_session.state().budget_exceeded() {
            let message = "the task's budget is exhausted; raise it and run again".to_owned();
            return self.fail(BUDGET_EXCEEDED, message, false).await;
        }
        match self.worker_session.state().kind() {
            RunKind::AgentLoop | RunKind::External => {
                let finished = self.finished("completed");
                self.report(vec![finished]).await
            }
            RunKind::Shell | RunKind::Git | RunKind::File => self.conclude_call().await,
        }
    }

    async fn conclude_call(&mut self) -> WorkResult<()> {
        let Some(last) = self.last_call.take() else {
            return self.fail("tool_failed", "the outcome of the call is unknown".to_owned(), true).await;
        };
        self.settle_files(&last.ended).await?;
        match last.ended {
            CallEnd::Succeeded => match last.exit_code {
                Some(code) if code != 0 => {
                    self.fail("exit_status", format!("the command ended with status {code}"), false).await
                }
                _ => {
                    let finished = self.finished("completed");
                    self.report(vec![finished]).await
                }
            },
            CallEnd::Failed { code, error } => {
                let retriable = !matches!(
                    code.as_str(),
                    "invalid_input" | "output_cap" | "signal" | "vetoed" | "patch_drift" | "patch_unusable"
                );
                self.fail(&code, error, retriable).await
            }
            CallEnd::Refused { code, message } if code == "denied" => {
                let mut cancelled = Cancelled::new(CancelledBy::Operator.as_str().to_owned(), message);
                (cancelled.turns, cancelled.cost_micros_usd, cancelled.duration_ms) = self.figures();
                self.report(vec![Payload::RunCancelled(Box::new(cancelled)).into()]).await
            }
            CallEnd::Refused { code, message } => self.fail(&code, message, false).await,
        }
    }

    /// The figures for an ending that is reported together with a turn: `turns` more completed turns, and the usage of
    /// the open turn.
    fn figures_after(&self, turns: u64, spent: Totals) -> (Option<u64>, Option<u64>, Option<u64>) {
        let state = self.worker_session.state();
        let (completed, cost, duration) = self.figures();
        let total = state.totals_of_closed_turns().plus(spent).cost_micros_usd;
        let cost = cost.map(|_| total.saturating_sub(state.totals_before().cost_micros_usd));
        (completed.map(|completed| completed + turns), cost, duration)
    }

    pub(crate) fn figures(&self) -> (Option<u64>, Option<u64>, Option<u64>) {
        self.worker_session.state().figures(self.worker_session.world().clock.now_ms())
    }

    fn finished(&self, final_status: &str) -> Draft {
        let mut ending = Finished::new(final_status.to_owned());
        (ending.turns, ending.cost_micros_usd, ending.duration_ms) = self.figures();
        Payload::RunFinished(Box::new(ending)).into()
    }

    /// The ending of a run that is reported together with its last turn.
    pub(crate) fn finished_with_turn(&self, stop: StopReason, spent: Totals) -> Draft {
        let final_status = match stop {
            StopReason::MaxTokens => "truncated",
            StopReason::Refusal => "refused",
            StopReason::EndTurn | StopReason::ToolUse | StopReason::Error => "completed",
        };
        let mut ending = Finished::new(final_status.to_owned());
        (ending.turns, ending.cost_micros_usd, ending.duration_ms) = self.figures_after(1, spent);
        Payload::RunFinished(Box::new(ending)).into()
    }

    pub(crate) fn failed(&self, code: &str, message: String, retriable: bool) -> Draft {
        let mut failed = Failed::new(code.to_owned(), message, retriable);
        (failed.turns, failed.cost_micros_usd, failed.duration_ms) = self.figures();
        failed.by = Some("system".to_owned());
        Payload::RunFailed(Box::new(failed)).into()
    }

    /// The failure of a run that is reported together with its last turn.
    pub(crate) fn failed_with_turn(
        &self,
        turns: u64,
        spent: Totals,
        code: &str,
        message: String,
        retriable: bool,
    ) -> Draft {
        let mut failed = Failed::new(code.to_owned(), message, retriable);
        (failed.turns, failed.cost_micros_usd, failed.duration_ms) = self.figures_after(turns, spent);
        failed.by = Some("system".to_owned());
        Payload::RunFailed(Box::new(failed)).into()
    }

    pub(crate) async fn fail(&mut self, code: &str, message: String, retriable: bool) -> WorkResult<()> {
        let failed = self.failed(code, message, retriable);
        self.report(vec![failed]).await
    }

    /// Reports `opening`, then the failure of the run.
    pub(crate) async fn fail_after(
        &mut self,
        opening: Vec<Draft>,
        code: &str,
        message: String,
    ) -> WorkResult<()> {
        if !opening.is_empty() {
            self.report(opening).await?;
        }
        self.fail(code, message, false).await
    }

    /// Fails a run that this server cannot continue.
    pub(crate) async fn give_up(mut worker_session: WorkerSession, message: &str) -> Option<WorkerSession> {
        match worker_session.fail("internal", message.to_owned(), false).await {
            Ok(()) | Err(WorkerExit::Ended | WorkerExit::TakenOver) => Some(worker_session),
            Err(left) => {
                tracing::warn!(run = %worker_session.run(), %left, "the run's failure could not be recorded; retrying");
                None
            }
        }
    }
}
