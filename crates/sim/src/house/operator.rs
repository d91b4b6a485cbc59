//! People: they answer what is asked, all at once if need be, cancel, take over, prune, pin and delete.

use std::sync::Arc;
use std::time::Duration;

use recount_engine::{Engine, ListQuery, Policy, Pruned};
use recount_event::{Code, Json, RunId};
use recount_run::{CancelledBy, Command, PromptKind};

use super::{House, Trouble};
use crate::dice::Dice;
use crate::trace::Check;

pub(super) async fn operate(house: Arc<House>, n: u64) {
    let operator = Operator { dice: house.dice.fork(&format!("operator {n}")), name: format!("o{n}"), house };
    while operator.house.is_working() {
        operator.house.sleep(20 + operator.dice.below(500)).await;
        if operator.house.setting.retains && operator.dice.permille(200) {
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
    house: Arc<House>,
    dice: Dice,
    name: String,
}

impl Operator {
    async fn answer_approval(&self) {
        let query = ListQuery { limit: 5, status: Some("pending".into()), ..ListQuery::default() };
        let ask = |engine: Engine| async move { engine.read().list_approvals(&query).await };
        let Ok(listed) = self.house.call("list_approvals", ask).await else { return };
        let Some(row) = self.dice.pick(&listed.items) else { return };
        let run = row.run_id;
        let command = Command::ResolveApproval {
            approval_id: row.id.clone(),
            approve: self.dice.permille(700),
            by: self.name.clone(),
            comment: None,
            remember: None,
        };
        // Who is not answered asks again, with the same words.
        for _ in 0..3 {
            let command = command.clone();
            match self.submit(run, command).await {
                Ok(Some(sequence)) => {
                    let answer = (run, sequence, self.name.clone());
                    let mut answers =
                        self.house.book().answers.get(row.id.as_str()).cloned().unwrap_or_default();
                    answers.push(answer);
                    self.house.book().answers.insert(row.id.to_string(), answers.clone());
                    // The id of a request that was pruned is free again.
                    answers.retain(|(run, sequence, _)| !self.house.may_be_gone(*run, *sequence));
                    if answers.len() > 1 {
                        let wrong = format!("{} was answered more than once: {answers:?}", row.id);
                        self.house.trace.wrong(Check::Answers, wrong);
                    }
                    return;
                }
                Err(Trouble::Failed | Trouble::Lost) => self.house.sleep(self.dice.below(200)).await,
                Ok(None) => {
                    self.house
                        .trace
                        .wrong(Check::Answers, format_args!("{} was answered with nothing", row.id));
                    return;
                }
                Err(Trouble::Rejected(rejection)) => {
                    let may_be = rejection.code == Code::ApprovalNotPending;
                    if !may_be && !self.house.is_gone(run, &rejection) {
                        let wrong = format!("{} is listed and answered with {rejection}", row.id);
                        self.house.trace.wrong(Check::Answers, wrong);
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
        let Some(belief) = self.house.look_at(run).await else { return };
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
        // Somebody else may have been quicker, and nobody minds.
        drop(self.submit(run, command).await);
    }

    /// Answers a question or a handoff that is listed as open.
    async fn answer_listed(&self) {
        let query = ListQuery { limit: 5, status: Some("pending".into()), ..ListQuery::default() };
        let by = self.name.clone();
        let (id, run, command) = if self.dice.permille(600) {
            let ask = |engine: Engine| async move { engine.read().list_clarifications(&query).await };
            let Ok(listed) = self.house.call("list_clarifications", ask).await else { return };
            let Some(row) = self.dice.pick(&listed.items) else { return };
            let response = Json::of(&self.name).expect("a name is JSON");
            let clarification_id = row.id.clone();
            let command =
                Command::AnswerClarification { clarification_id, response, by, blocks: None, config: None };
            (row.id.clone(), row.run_id, command)
        } else {
            let ask = |engine: Engine| async move { engine.read().list_handoffs(&query).await };
            let Ok(listed) = self.house.call("list_handoffs", ask).await else { return };
            let Some(row) = self.dice.pick(&listed.items) else { return };
            let handoff_id = row.id.clone();
            let command = Command::AcknowledgeHandoff { handoff_id, by, comment: None };
            (row.id.clone(), row.run_id, command)
        };
        let Err(Trouble::Rejected(rejection)) = self.submit(run, command).await else { return };
        let too_late = matches!(rejection.code, Code::ClarificationNotPending | Code::HandoffNotPending);
        // The question may have been pruned since the list was read.
        let pruned = self.house.tail_of(run).is_some_and(|tail| tail.first_sequence > 0);
        if !too_late && !pruned && !self.house.is_gone(run, &rejection) {
            let wrong = format!("{id} is listed and answered with {rejection}");
            self.house.trace.wrong(Check::Answers, wrong);
        }
    }

    async fn cancel(&self) {
        let Some(run) = self.some_run() else { return };
        let command = Command::Cancel { by: CancelledBy::Operator, reason: format!("{} said so", self.name) };
        if let Err(Trouble::Rejected(rejection)) = self.submit(run, command).await
            && rejection.code != Code::RunEnded
            && !self.house.is_gone(run, &rejection)
        {
            self.house.trace.wrong(Check::Endings, format_args!("a cancel is refused: {rejection}"));
        }
    }

    async fn take_over(&self) {
        let Some(run) = self.some_run() else { return };
        let (worker_id, reason) = (self.name.clone(), "the worker was lost".to_owned());
        let command = Command::TakeOver { worker_id, lease_until_ms: None, reason };
        drop(self.submit(run, command).await);
    }

    /// Takes something away, or sees to it that nothing is.
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
        match self.house.call("prune", ask).await {
            Ok(pruned) => self.pruned(run, pruned),
            Err(Trouble::Failed | Trouble::Lost) => {}
            Err(Trouble::Rejected(rejection)) => {
                let fair = match rejection.code {
                    Code::RunActive => true,
                    Code::RunPinned => self.house.book().ever_pinned.contains(&run),
                    _ => self.house.is_gone(run, &rejection),
                };
                if !fair {
                    self.house.trace.wrong(Check::Gaps, format_args!("{run} is not pruned: {rejection}"));
                }
            }
        }
    }

    fn pruned(&self, run: RunId, pruned: Pruned) {
        let Pruned { first_sequence, events, receipt } = pruned;
        self.house.trace.say(format_args!("{} pruned {events} of {run}, up to {first_sequence}", self.name));
        self.house.trace.count(|counts| counts.prunes += u64::from(events > 0));
        if let Some(receipt) = receipt {
            self.house.acknowledge(run, receipt, &[]);
        }
        let mut book = self.house.book();
        let told = book.pruned.entry(run).or_default();
        *told = first_sequence.max(*told);
    }

    async fn sweep(&self) {
        let mut policy = Policy::default();
        match self.dice.below(3) {
            0 => policy.max_age = Some(Duration::from_secs(self.dice.below(90))),
            1 => policy.max_events = Some(self.dice.below(500)),
            _ => policy.max_bytes = Some(self.dice.below(100_000)),
        }
        let ask = |engine: Engine| async move { engine.admin().sweep(&policy).await };
        match self.house.call("sweep", ask).await {
            Ok(swept) => {
                self.house.trace.say(format_args!("{} swept {} runs", self.name, swept.runs));
                self.house.trace.count(|counts| counts.prunes += swept.runs);
            }
            Err(Trouble::Failed | Trouble::Lost) => {}
            Err(Trouble::Rejected(rejection)) => {
                self.house.trace.wrong(Check::Gaps, format_args!("a sweep is refused: {rejection}"));
            }
        }
    }

    /// Pins a run for a while. Nothing of it is pruned then, by whomever.
    async fn hold(&self) {
        let Some(run) = self.some_run().filter(|run| self.house.book().held.insert(*run)) else { return };
        self.house.book().ever_pinned.insert(run);
        let by = self.name.clone();
        let ask = |engine: Engine| async move { engine.admin().pin(run, &by).await };
        match self.house.call("pin", ask).await {
            Ok(_) => {}
            Err(Trouble::Failed | Trouble::Lost) => return,
            Err(Trouble::Rejected(rejection)) => {
                if !self.house.is_gone(run, &rejection) {
                    self.house.trace.wrong(Check::Gaps, format_args!("{run} is not pinned: {rejection}"));
                }
                return;
            }
        }
        let first = |house: &House| house.tail_of(run).map(|tail| tail.first_sequence);
        let pinned_at = first(&self.house);
        self.house.trace.count(|counts| counts.pins += 1);
        self.house.sleep(self.dice.below(4000)).await;
        if first(&self.house) != pinned_at && !self.house.is_erased(run) {
            self.house.trace.wrong(Check::Gaps, format_args!("{run} was pruned while it was pinned"));
        }
        for _ in 0..5 {
            let ask = |engine: Engine| async move { engine.admin().unpin(run).await };
            match self.house.call("unpin", ask).await {
                Ok(()) => drop(self.house.book().held.remove(&run)),
                Err(Trouble::Failed | Trouble::Lost) => {
                    self.house.sleep(self.dice.below(300)).await;
                    continue;
                }
                Err(Trouble::Rejected(rejection)) => drop(self.house.is_gone(run, &rejection)),
            }
            return;
        }
    }

    async fn delete(&self) {
        let Some(task) = self.dice.pick(&self.house.book().tasks).copied() else { return };
        self.house.book().deletions.entry(task).or_insert(false);
        // Who is not answered asks again, or leaves it to the next life.
        for _ in 0..1 + self.dice.below(3) {
            let by = self.name.clone();
            let ask = |engine: Engine| async move { engine.admin().delete_task(task, &by).await };
            match self.house.call("delete_task", ask).await {
                Ok(runs) => {
                    self.house.trace.say(format_args!("{} deleted {task}, {runs} runs", self.name));
                    self.house.trace.count(|counts| counts.deletions += 1);
                    self.house.book().deletions.insert(task, true);
                    return;
                }
                Err(Trouble::Rejected(rejection)) => {
                    if rejection.code != Code::TaskErased {
                        let wrong = format!("{task} is not deleted: {rejection}");
                        self.house.trace.wrong(Check::Erased, wrong);
                    }
                    return;
                }
                Err(Trouble::Failed | Trouble::Lost) => self.house.sleep(self.dice.below(300)).await,
            }
        }
    }

    fn some_run(&self) -> Option<RunId> {
        let book = self.house.book();
        self.dice.pick(&book.runs).copied()
    }

    /// The sequence of the first event that came of it.
    async fn submit(&self, run: RunId, command: Command) -> Result<Option<u64>, Trouble> {
        let ask = |engine: Engine| async move { engine.write().submit(run, command).await };
        let receipt = self.house.call("submit", ask).await?;
        self.house.trace.count(|counts| counts.answers += 1);
        if let Some(receipt) = receipt {
            self.house.trace.say(format_args!("{} acts on {run} at {}", self.name, receipt.first_sequence));
            self.house.acknowledge(run, receipt, &[]);
        }
        Ok(receipt.map(|receipt| receipt.first_sequence))
    }
}
