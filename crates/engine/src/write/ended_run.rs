//! Runs that have ended, as far as others go on from them: done again, resumed, continued.
//!
//! Look at [`Past`]. What a run was to do is in its first events, so no more of it than these is read.

use recount_event::family::run::{Driver, Queued, ResumedFromEvent};
use recount_event::{Code, RunId, SessionId, TaskId};
use serde_json::Error as Unreadable;

use crate::boxed;
use crate::write::handle::WriteHandle;
use crate::{Error, NewRun, Order};

/// A run of ours that has ended.
#[derive(Debug, Clone)]
pub struct Past {
    pub run: RunId,
    pub task: Option<TaskId>,
    pub session: Option<SessionId>,
    pub queued: Queued,
    /// How many events it has.
    pub events: u64,
    /// What was used up to its end, and whether its task's budget was warned of.
    spent: Spent,
}

#[derive(Debug, Clone, Default)]
struct Spent {
    cost_micros_usd: u64,
    input_tokens: u64,
    output_tokens: u64,
    is_warned: bool,
}

impl WriteHandle {
    /// A run of ours that has ended and is there from its beginning; refused is any other.
    #[boxed]
    pub async fn past(&self, run: RunId) -> Result<Past, Error> {
        let Some(row) = self.catalogue().run(run).await? else {
            return Err(self.catalogue().missing_run(run).await);
        };
        if row.driver != Driver::Own.as_str() {
            let whose =
                format!("{run} was recorded from another program (kind {}); start it again there", row.kind);
            return Err(Error::rejected(Code::RunExternal, whose));
        }
        if !row.has_ended() {
            let goes_on = format!("{run} is {}; wait until it has ended, or cancel it", row.status);
            return Err(Error::rejected(Code::RunActive, goes_on));
        }
        let Some(queued) = self.read().queued(run).await? else {
            let pruned =
                format!("the beginning of {run} was pruned, including its request; create a new run");
            return Err(Error::rejected(Code::RunPruned, pruned));
        };
        let events = self.read().tail(run).await?.unwrap_or(0);
        let spent = Spent {
            cost_micros_usd: row.cost_micros_usd,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            is_warned: row.budget_warned,
        };
        let (task, session) = (row.task_id, row.session_id);
        Ok(Past { run, task, session, queued, events, spent })
    }
}

impl Past {
    /// What the run was to do. What was in force then, and not asked for, is left to be settled anew.
    pub fn order(&self) -> Result<Order, Error> {
        let malformed = |why: Unreadable| {
            let said = format!("cannot read the configuration of {}: {why}", self.run);
            Error::rejected(Code::OrderRefused, said)
        };
        let order = Order::read(self.queued.config.as_ref()).map_err(malformed)?;
        // A run after one that another run started is started by a person.
        Ok(Order { sandbox: None, policy: None, spawned_by: None, branch: None, ..order })
    }

    /// The same run once more: same words, same order, its own beginning.
    pub fn again(&self) -> Result<NewRun, Error> {
        if let Some(action) = &self.queued.action {
            let message = format!(
                "{} was created to {action} a patch; send the request to {action} the patch again instead",
                self.run
            );
            return Err(Error::rejected(Code::OrderRefused, message));
        }
        let mut queued = self.successor();
        queued.request_text = self.queued.request_text.clone();
        queued.config = Some(self.order()?.written());
        Ok(NewRun { queued, task: self.task, session: self.session, resumed_from: None })
    }

    /// A run that goes on behind the event at `from_sequence`, or behind the last one, in the same workspace. What was
    /// asked for the last time is not asked again. Where that event is, `resume_place` says.
    pub fn resumed(&self, from_sequence: Option<u64>) -> Result<NewRun, Error> {
        let mut queued = self.successor();
        queued.workspace_path = self.queued.workspace_path.clone();
        queued.config = Some(Order { attachments: Vec::new(), ..self.order()? }.written());
        let resumed_from = Some(self.place(from_sequence)?);
        Ok(NewRun { queued, task: self.task, session: self.session, resumed_from })
    }

    /// Where a run begins that goes on from this one.
    pub fn place(&self, from_sequence: Option<u64>) -> Result<ResumedFromEvent, Error> {
        let last = self.events.saturating_sub(1);
        let from = from_sequence.unwrap_or(last);
        if from > last {
            let ahead = format!("from_sequence is {from}, but the last event of {} is {last}", self.run);
            return Err(Error::rejected(Code::OrderRefused, ahead));
        }
        Ok(ResumedFromEvent::new(self.run.to_string(), from, self.spent.cost_micros_usd))
    }

    /// Notes in another run that it comes after this one, and what was spent by then.
    pub fn precede(&self, queued: &mut Queued) {
        queued.prior_run_id = Some(self.run.to_string());
        queued.prior_cost_micros_usd = Some(self.spent.cost_micros_usd);
        queued.prior_input_tokens = Some(self.spent.input_tokens);
        queued.prior_output_tokens = Some(self.spent.output_tokens);
        queued.budget_warned = self.spent.is_warned.then_some(true);
    }

    fn successor(&self) -> Queued {
        let mut queued = Queued::new(self.queued.kind);
        queued.title = self.queued.title.clone();
        queued.model = self.queued.model.clone();
        queued.provider = self.queued.provider.clone();
        queued.workspace_mode = self.queued.workspace_mode.clone();
        self.precede(&mut queued);
        queued
    }
}
