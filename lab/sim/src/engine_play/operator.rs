//! Operators: resolve prompts, several at once if necessary, cancel, take over, prune, pin and delete.

use std::sync::Arc;
use std::time::Duration;

use recount_engine::{Engine, ListQuery, Policy, Pruned};
use recount_event::{Code, Json, RunId};
use recount_run::{CancelledBy, Command, PromptKind};

use super::{CallFailure, EnginePlay};
use crate::dice::Dice;
use crate::trace::Check;

pub(super) async fn operate(engine_play: Arc<EnginePlay>, n: u64) {
    let operator = Operator {
        dice: engine_play.dice.fork(&format!("operator {n}")),
        name: format!("o{n}"),
        engine_play,
    };
    while operator.engine_play.is_working() {
        operator.engine_play.sleep(20 + operator.dice.below(500)).await;
        if operator.engine_play.setting.retains && operator.dice.permille(200) {
            operator.retain().await;
        }
        match operator.dice.below(10) {
            0..=5 => operator.answer_approval().await,
            6..=8 => operator.answer_other().await,
            _ if operator.dice.permille(400) => operator.cancel().await,
            _ => operator.take_over().await,
        }
    }
}

struct Operator {
    engine_play: Arc<EnginePlay>,
    dice: Dice,
    name: String,
}

impl Operator {
    async fn answer_approval(&self) {
        let query = ListQuery { limit: 5, status: Some("pending".into()), ..ListQuery::default() };
        let ask =
            |engine: Engine| async move { engine.read().list_prompts(PromptKind::Approval, &query).await };
        let Ok(listed) = self.engine_play.call("list_approvals", ask).await else { return };
        let Some(row) = self.dice.pick(&listed.items) else { return };
        let run = row.run_id();
        let command = Command::ResolveApproval {
            approval_id: row.id().clone(),
            approve: self.dice.permille(700),
            by: self.name.clone(),
            comment: None,
            remember: None,
        };
        // Without a response the client repeats the request.
        for _ in 0..3 {
            let command = command.clone();
            match self.submit(run, command).await {
                Ok(Some(sequence)) => {
                    let answer = (run, sequence, self.name.clone());
                    let mut answers = self
                        .engine_play
                        .client_record()
                        .answers
                        .get(row.id().as_str())
                        .cloned()
                        .unwrap_or_default();
                    answers.push(answer);
                    self.engine_play.client_record().answers.insert(row.id().to_string(), answers.clone());
                    // The id of a request that was pruned is free again, and that of a run whose deletion was requested.
                    answers.retain(|(run, sequence, _)| {
                        !self.engine_play.may_be_removed(*run, *sequence)
                            && !self.engine_play.is_deletion_requested(*run)
                    });
                    if answers.len() > 1 {
                        let wrong = format!("{} was answered more than once: {answers:?}", row.id());
                        self.engine_play.trace.wrong(Check::Answers, wrong);
                    }
                    return;
                }
                Err(CallFailure::Failed | CallFailure::Lost) => {
                    self.engine_play.sleep(self.dice.below(200)).await
                }
                Ok(None) => {
                    self.engine_play
                        .trace
                        .wrong(Check::Answers, format_args!("{} was answered with nothing", row.id()));
                    return;
                }
                Err(CallFailure::Rejected(rejection)) => {
                    let may_be = rejection.code == Code::ApprovalNotPending;
                    if !may_be && !self.engine_play.is_erased_run(run, &rejection) {
                        let wrong = format!("{} is listed and answered with {rejection}", row.id());
                        self.engine_play.trace.wrong(Check::Answers, wrong);
                    }
                    return;
                }
            }
        }
    }

    async fn answer_other(&self) {
        if self.dice.permille(500) {
            return self.answer_listed().await;
        }
        let Some(run) = self.some_run() else { return };
        let Some(belief) = self.engine_play.look_at(run).await else { return };
        let question = self.dice.pick(&belief.open(PromptKind::Clarification)).cloned();
        let handoff = self.dice.pick(&belief.open(PromptKind::Handoff)).cloned();
        let by = self.name.clone();
        let command = match (question, handoff) {
            (Some(clarification_id), _) => {
                let response = Json::of(&self.name).expect("a name is JSON");
                Command::AnswerClarification { clarification_id, response, by, blocks: None, config: None }
            }
            (None, Some(handoff_id)) if self.dice.permille(500) => {
                Command::AcknowledgeHandoff { handoff_id, by, comment: None }
            }
            (None, Some(handoff_id)) => Command::RejectHandoff { handoff_id, by, reason: None },
            (None, None) => return,
        };
        // Another client may have been first, which is allowed.
        drop(self.submit(run, command).await);
    }

    /// Resolves a question or a handoff that is listed as open.
    async fn answer_listed(&self) {
        let query = ListQuery { limit: 5, status: Some("pending".into()), ..ListQuery::default() };
        let by = self.name.clone();
        let (id, run, command) = if self.dice.permille(600) {
            let ask = |engine: Engine| async move {
                engine.read().list_prompts(PromptKind::Clarification, &query).await
            };
            let Ok(listed) = self.engine_play.call("list_clarifications", ask).await else { return };
            let Some(row) = self.dice.pick(&listed.items) else { return };
            let response = Json::of(&self.name).expect("a name is JSON");
            let clarification_id = row.id().clone();
            let command =
                Command::AnswerClarification { clarification_id, response, by, blocks: None, config: None };
            (row.id().clone(), row.run_id(), command)
        } else {
            let ask =
                |engine: Engine| async move { engine.read().list_prompts(PromptKind::Handoff, &query).await };
            let Ok(listed) = self.engine_play.call("list_handoffs", ask).await else { return };
            let Some(row) = self.dice.pick(&listed.items) else { return };
            let handoff_id = row.id().clone();
            let command = Command::AcknowledgeHandoff { handoff_id, by, comment: None };
            (row.id().clone(), row.run_id(), command)
        };
        let Err(CallFailure::Rejected(rejection)) = self.submit(run, command).await else { return };
        let too_late = matches!(rejection.code, Code::ClarificationNotPending | Code::HandoffNotPending);
        // The question may have been pruned since the list was read.
        let pruned = self.engine_play.tail_of(run).is_some_and(|tail| tail.first_sequence > 0);
        if !too_late && !pruned && !self.engine_play.is_erased_run(run, &rejection) {
            let wrong = format!("{id} is listed and answered with {rejection}");
            self.engine_play.trace.wrong(Check::Answers, wrong);
        }
    }

    async fn cancel(&self) {
        let Some(run) = self.some_run() else { return };
        let command = Command::Cancel { by: CancelledBy::Operator, reason: format!("{} said so", self.name) };
        if let Err(CallFailure::Rejected(rejection)) = self.submit(run, command).await
            && rejection.code != Code::RunEnded
            && !self.engine_play.is_erased_run(run, &rejection)
        {
            self.engine_play.trace.wrong(Check::Endings, format_args!("a cancel is refused: {rejection}"));
        }
    }

    async fn take_over(&self) {
        let Some(run) = self.some_run() else { return };
        let (worker_id, reason) = (self.name.clone(), "the worker was lost".to_owned());
        let command = Command::TakeOver { worker_id, lease_until_ms: None, reason };
        drop(self.submit(run, command).await);
    }

    /// Prunes, deletes or pins.
    async fn retain(&self) {
        match self.dice.below(20) {
            0..=8 => self.prune().await,
            9..=12 => self.sweep().await,
            13..=16 => self.hold().await,
            _ => self.delete().await,
        }
    }

    async fn prune(&self) {
        let Some(run) = self.some_run() else { return };
        let before = self.dice.permille(500).then(|| self.dice.below(30));
        let ask = |engine: Engine| async move { engine.admin().prune(run, before, "operator").await };
        match self.engine_play.call("prune", ask).await {
            Ok(pruned) => self.pruned(run, pruned),
            Err(CallFailure::Failed | CallFailure::Lost) => {}
            Err(CallFailure::Rejected(rejection)) => {
                let fair = match rejection.code {
                    Code::RunActive => true,
                    Code::RunPinned => self.engine_play.client_record().ever_pinned.contains(&run),
                    _ => self.engine_play.is_erased_run(run, &rejection),
                };
                if !fair {
                    self.engine_play
                        .trace
                        .wrong(Check::Gaps, format_args!("{run} is not pruned: {rejection}"));
                }
            }
        }
    }

    fn pruned(&self, run: RunId, pruned: Pruned) {
        let Pruned { first_sequence, events, receipt } = pruned;
        self.engine_play
            .trace
            .log(format_args!("{} pruned {events} of {run}, up to {first_sequence}", self.name));
        self.engine_play.trace.count(|counts| counts.prunes += u64::from(events > 0));
        if let Some(receipt) = receipt {
            self.engine_play.acknowledge(run, receipt, &[]);
        }
        let mut client_record = self.engine_play.client_record();
        let first_left = client_record.pruned.entry(run).or_default();
        *first_left = first_sequence.max(*first_left);
    }

    async fn sweep(&self) {
        let mut policy = Policy::default();
        match self.dice.below(3) {
            0 => policy.max_age = Some(Duration::from_secs(self.dice.below(90))),
            1 => policy.max_events = Some(self.dice.below(500)),
            _ => policy.max_bytes = Some(self.dice.below(100_000)),
        }
        let ask = |engine: Engine| async move { engine.admin().sweep(&policy).await };
        match self.engine_play.call("sweep", ask).await {
            Ok(swept) => {
                self.engine_play.trace.log(format_args!("{} swept {} runs", self.name, swept.runs));
                self.engine_play.trace.count(|counts| counts.prunes += swept.runs);
            }
            Err(CallFailure::Failed | CallFailure::Lost) => {}
            Err(CallFailure::Rejected(rejection)) => {
                self.engine_play.trace.wrong(Check::Gaps, format_args!("a sweep is refused: {rejection}"));
            }
        }
    }

    /// Pins a run for a while. No client can prune it then.
    async fn hold(&self) {
        let Some(run) = self.some_run().filter(|run| self.engine_play.client_record().held.insert(*run))
        else {
            return;
        };
        self.engine_play.client_record().ever_pinned.insert(run);
        let by = self.name.clone();
        let ask = |engine: Engine| async move { engine.admin().pin(run, &by).await };
        match self.engine_play.call("pin", ask).await {
            Ok(_) => {}
            Err(CallFailure::Failed | CallFailure::Lost) => return,
            Err(CallFailure::Rejected(rejection)) => {
                if !self.engine_play.is_erased_run(run, &rejection) {
                    self.engine_play
                        .trace
                        .wrong(Check::Gaps, format_args!("{run} is not pinned: {rejection}"));
                }
                return;
            }
        }
        let first = |engine_play: &EnginePlay| engine_play.tail_of(run).map(|tail| tail.first_sequence);
        let pinned_at = first(&self.engine_play);
        self.engine_play.trace.count(|counts| counts.pins += 1);
        self.engine_play.sleep(self.dice.below(4000)).await;
        if first(&self.engine_play) != pinned_at && !self.engine_play.is_erased(run) {
            self.engine_play.trace.wrong(Check::Gaps, format_args!("{run} was pruned while it was pinned"));
        }
        for _ in 0..5 {
            let ask = |engine: Engine| async move { engine.admin().unpin(run).await };
            match self.engine_play.call("unpin", ask).await {
                Ok(()) => drop(self.engine_play.client_record().held.remove(&run)),
                Err(CallFailure::Failed | CallFailure::Lost) => {
                    self.engine_play.sleep(self.dice.below(300)).await;
                    continue;
                }
                Err(CallFailure::Rejected(rejection)) => {
                    let _is_erased = self.engine_play.is_erased_run(run, &rejection);
                }
            }
            return;
        }
    }

    async fn delete(&self) {
        let Some(task) = self.dice.pick(&self.engine_play.client_record().tasks).copied() else { return };
        self.engine_play.client_record().deletions.entry(task).or_insert(false);
        // Without a response the client retries, or leaves it to the next engine.
        for _ in 0..1 + self.dice.below(3) {
            let by = self.name.clone();
            let ask = |engine: Engine| async move { engine.admin().delete_task(task, &by).await };
            match self.engine_play.call("delete_task", ask).await {
                Ok(runs) => {
                    self.engine_play.trace.log(format_args!("{} deleted {task}, {runs} runs", self.name));
                    self.engine_play.trace.count(|counts| counts.deletions += 1);
                    self.engine_play.client_record().deletions.insert(task, true);
                    return;
                }
                Err(CallFailure::Rejected(rejection)) => {
                    if rejection.code != Code::TaskErased {
                        let wrong = format!("{task} is not deleted: {rejection}");
                        self.engine_play.trace.wrong(Check::Erased, wrong);
                    }
                    return;
                }
                Err(CallFailure::Failed | CallFailure::Lost) => {
                    self.engine_play.sleep(self.dice.below(300)).await
                }
            }
        }
    }

    fn some_run(&self) -> Option<RunId> {
        let client_record = self.engine_play.client_record();
        self.dice.pick(&client_record.runs).copied()
    }

    /// Returns the sequence of the first resulting event.
    async fn submit(&self, run: RunId, command: Command) -> Result<Option<u64>, CallFailure> {
        let ask = |engine: Engine| async move { engine.write().submit(run, command).await };
        let receipt = self.engine_play.call("submit", ask).await?;
        self.engine_play.trace.count(|counts| counts.answers += 1);
        if let Some(receipt) = receipt {
            self.engine_play
                .trace
                .log(format_args!("{} acts on {run} at {}", self.name, receipt.first_sequence));
            self.engine_play.acknowledge(run, receipt, &[]);
        }
        Ok(receipt.map(|receipt| receipt.first_sequence))
    }
}
