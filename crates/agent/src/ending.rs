//! How runs begin and end: `run.started` with what was asked for, and one truthful ending.

use recount_engine::{Desk, Error, Left};
use recount_event::family::run::{BranchedFrom, Cancelled, Failed, Finished, RunKind, Started};
use recount_event::family::turn::StopReason;
use recount_event::family::user::{Attachment, Message};
use recount_event::{Draft, Payload, time};
use recount_run::{CancelledBy, Totals};

use crate::budget::BUDGET_EXCEEDED;
use crate::worker::{CallEnd, Done, Worker};

impl Worker {
    /// Claims a run that no worker has started, or goes on with one that is one call.
    pub(crate) async fn start(&mut self) -> Done<()> {
        let is_loop = self.desk.state().kind() == RunKind::AgentLoop;
        if self.desk.state().claim().is_none() {
            let mut drafts = vec![self.started()];
            drafts.extend(self.branched_from());
            if is_loop {
                if let Err(missing) = self.request(&mut drafts).await? {
                    drafts.push(self.failed("attachment_missing", missing, false));
                } else if !self.lacks_workspace() {
                    // Nothing happens outside before the model is asked, so that one append tells of both.
                    return self.turn(drafts).await;
                }
            }
            self.report(drafts).await?;
        }
        match is_loop {
            true => Ok(()),
            false if self.is_for_patches() => self.patch_call().await,
            false => self.only_call().await,
        }
    }

    /// That the run is a branch of the one that it goes on from, where that is logged.
    fn branched_from(&self) -> Option<Draft> {
        let reason = self.order.branch.clone().filter(|_| self.agent.settings.experimental.branches)?;
        let (run, sequence) = self.resumed?;
        let branched = BranchedFrom::new(run.to_string(), sequence, reason);
        Some(Payload::RunBranchedFrom(Box::new(branched)).into())
    }

    fn started(&self) -> Draft {
        let mut started = Started::new();
        started.worker_id = Some(self.desk.worker_id().to_owned());
        started.lease_until = Some(time::format_ms(self.desk.lease_until_ms()));
        Payload::RunStarted(Box::new(started)).into()
    }

    /// What a person asked for, and what came with it, which belongs to the run from now on. `Err`: some of it is not
    /// there any more.
    async fn request(&self, drafts: &mut Vec<Draft>) -> Done<Result<(), String>> {
        let text = self.queued.request_text.clone().unwrap_or_default();
        let blocks = self.order.blocks.clone();
        if !text.is_empty() || !blocks.is_empty() {
            let mut message = Message::new(text);
            message.blocks = (!blocks.is_empty()).then_some(blocks);
            message.message_id = Some(self.desk.mint("msg_"));
            drafts.push(Payload::UserMessage(Box::new(message)).into());
        }
        for attached in &self.order.attachments {
            let id = attached.artifact_id.clone();
            match self.desk.write().attach(self.desk.run(), &id).await {
                Ok(kept) => drafts.push(kept.created),
                Err(Error::Rejected(gone)) => {
                    return Ok(Err(format!("what was attached cannot be had: {gone}")));
                }
                Err(failed) => return Err(failed.into()),
            }
            let kind = if attached.mime.starts_with("image/") { "image" } else { "file" };
            let attachment = Attachment::new(kind.to_owned(), attached.mime.clone(), id);
            drafts.push(Payload::UserAttachment(Box::new(attachment)).into());
        }
        Ok(Ok(()))
    }

    /// Writes the ending when nothing is left to do.
    pub(crate) async fn conclude(&mut self) -> Done<()> {
        if self.desk.state().budget_exceeded() {
            let message = "the task's budget is used up; raise it and run again".to_owned();
            return self.fail(BUDGET_EXCEEDED, message, false).await;
        }
        match self.desk.state().kind() {
            RunKind::AgentLoop | RunKind::External => {
                let finished = self.finished("completed");
                self.report(vec![finished]).await
            }
            RunKind::Shell | RunKind::Git | RunKind::File => self.conclude_call().await,
        }
    }

    async fn conclude_call(&mut self) -> Done<()> {
        let Some(last) = self.last_call.take() else {
            return self.fail("tool_failed", "nothing is known of how the call ended".to_owned(), true).await;
        };
        self.settle_files(&last.ended).await?;
        match last.ended {
            CallEnd::Well => match last.exit_code {
                Some(code) if code != 0 => {
                    self.fail("exit_status", format!("the command ended with status {code}"), false).await
                }
                _ => {
                    let finished = self.finished("completed");
                    self.report(vec![finished]).await
                }
            },
            CallEnd::Badly { code, error } => {
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

    /// The figures as they are with what is reported together with the ending: turns that were completed, and what the
    /// open turn has used.
    fn figures_after(&self, turns: u64, spent: Totals) -> (Option<u64>, Option<u64>, Option<u64>) {
        let state = self.desk.state();
        let (completed, cost, duration) = self.figures();
        let total = state.totals_of_closed_turns().plus(spent).cost_micros_usd;
        let cost = cost.map(|_| total.saturating_sub(state.totals_before().cost_micros_usd));
        (completed.map(|completed| completed + turns), cost, duration)
    }

    pub(crate) fn figures(&self) -> (Option<u64>, Option<u64>, Option<u64>) {
        self.desk.state().figures(self.desk.world().clock.now_ms())
    }

    fn finished(&self, final_status: &str) -> Draft {
        let mut ending = Finished::new(final_status.to_owned());
        (ending.turns, ending.cost_micros_usd, ending.duration_ms) = self.figures();
        Payload::RunFinished(Box::new(ending)).into()
    }

    /// The ending behind a turn that is reported with it: one turn more, and what it used.
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

    /// The same behind a turn that is reported with it.
    pub(crate) fn failed_after(
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

    pub(crate) async fn fail(&mut self, code: &str, message: String, retriable: bool) -> Done<()> {
        let failed = self.failed(code, message, retriable);
        self.report(vec![failed]).await
    }

    /// The same where something is to be reported first.
    pub(crate) async fn fail_behind(&mut self, opening: Vec<Draft>, code: &str, message: String) -> Done<()> {
        if !opening.is_empty() {
            self.report(opening).await?;
        }
        self.fail(code, message, false).await
    }

    /// Fails a run that this server cannot go on with.
    pub(crate) async fn give_up(mut desk: Desk, message: &str) -> Option<Desk> {
        match desk.fail("internal", message.to_owned(), false).await {
            Ok(()) | Err(Left::Ended | Left::TakenOver) => Some(desk),
            Err(left) => {
                tracing::warn!(run = %desk.run(), %left, "the run cannot be failed, and is tried again");
                None
            }
        }
    }
}
