//! People: they answer what is asked, all at once if need be, cancel, and take over.

use std::sync::Arc;

use recount_engine::{Engine, ListQuery};
use recount_event::{Code, Json, RunId};
use recount_run::{CancelledBy, Command, PromptKind};

use super::{House, Trouble};
use crate::dice::Dice;
use crate::teller;
use crate::trace::Check;

pub(super) async fn operate(house: Arc<House>, n: u64) {
    let operator = Operator { dice: house.dice.fork(&format!("operator {n}")), name: format!("o{n}"), house };
    while operator.house.is_working() {
        operator.house.sleep(20 + operator.dice.below(500)).await;
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
        let ask = |engine: Engine| async move { engine.list_approvals(&query).await };
        let Ok(listed) = self.house.call("list_approvals", ask).await else { return };
        let Some(row) = self.dice.pick(&listed.items) else { return };
        let Ok(run) = row.run_id.parse() else { return };
        let command = Command::ResolveApproval {
            approval_id: teller::id(&row.id),
            approve: self.dice.permille(700),
            by: self.name.clone(),
            comment: None,
        };
        // Who is not answered asks again, with the same words.
        for _ in 0..3 {
            let command = command.clone();
            match self.submit(run, command).await {
                Ok(Some(sequence)) => {
                    let answer = (run, sequence, self.name.clone());
                    let mut book = self.house.book();
                    let answers = book.answers.entry(row.id.clone()).or_default();
                    answers.push(answer);
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
                    if rejection.code != Code::ApprovalNotPending {
                        let wrong = format!("{} is listed and answered with {rejection}", row.id);
                        self.house.trace.wrong(Check::Answers, wrong);
                    }
                    return;
                }
            }
        }
    }

    async fn answer_other(&self) {
        let Some(run) = self.some_run() else { return };
        let Some(belief) = self.house.look_at(run).await else { return };
        let question = self.dice.pick(&belief.open(PromptKind::Clarification)).cloned();
        let handoff = self.dice.pick(&belief.open(PromptKind::Handoff)).cloned();
        let by = self.name.clone();
        let command = match (question, handoff) {
            (Some(clarification_id), _) => {
                let response = Json::of(&self.name).expect("a name is JSON");
                Command::AnswerClarification { clarification_id, response, by }
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

    async fn cancel(&self) {
        let Some(run) = self.some_run() else { return };
        let command = Command::Cancel { by: CancelledBy::Operator, reason: format!("{} said so", self.name) };
        if let Err(Trouble::Rejected(rejection)) = self.submit(run, command).await
            && rejection.code != Code::RunEnded
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

    fn some_run(&self) -> Option<RunId> {
        let book = self.house.book();
        self.dice.pick(&book.runs).copied()
    }

    /// The sequence of the first event that came of it.
    async fn submit(&self, run: RunId, command: Command) -> Result<Option<u64>, Trouble> {
        let ask = |engine: Engine| async move { engine.submit(run, command).await };
        let receipt = self.house.call("submit", ask).await?;
        self.house.trace.count(|counts| counts.answers += 1);
        if let Some(receipt) = receipt {
            self.house.trace.say(format_args!("{} acts on {run} at {}", self.name, receipt.first_sequence));
            self.house.acknowledge(run, receipt, &[]);
        }
        Ok(receipt.map(|receipt| receipt.first_sequence))
    }
}
