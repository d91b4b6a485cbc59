//! Ended own runs, and new runs that retry, resume or continue them.
//!
//! Start with [`EndedRun`]. The request of a run is in its first events, so no others are read.

use recount_event::family::run::{Driver, Queued, ResumedFromEvent};
use recount_event::{Code, RunId, SessionId, TaskId};
use serde_json::Error as Unreadable;

use crate::boxed;
use crate::write::handle::WriteHandle;
use crate::{Error, NewRun, RunConfig};

/// An ended own run.
#[derive(Debug, Clone)]
pub struct EndedRun {
    pub run: RunId,
    pub task: Option<TaskId>,
    pub session: Option<SessionId>,
    pub queued: Queued,
    /// The number of events.
    pub events: u64,
    /// The usage of the chain up to its end, and whether the budget warning was reported.
    usage: RunUsage,
}

#[derive(Debug, Clone, Default)]
struct RunUsage {
    cost_micros_usd: u64,
    input_tokens: u64,
    output_tokens: u64,
    is_warned: bool,
}

impl WriteHandle {
    /// An ended own run with all its events. Refuses any other run.
    #[boxed]
    pub async fn ended_run(&self, run: RunId) -> Result<EndedRun, Error> {
        let row = self.catalogue().existing_run(run).await?;
        if row.driver != Driver::Own.as_str() {
            let whose =
                format!("{run} was recorded from another program (kind {}); start it again there", row.kind);
            return Err(Error::rejected(Code::RunExternal, whose));
        }
        if !row.has_ended() {
            let active = format!("{run} is {}; wait until it has ended, or cancel it", row.status);
            return Err(Error::rejected(Code::RunActive, active));
        }
        let Some(queued) = self.read().queued(run).await? else {
            let pruned =
                format!("the beginning of {run} was pruned, including its request; create a new run");
            return Err(Error::rejected(Code::RunPruned, pruned));
        };
        let events = self.read().tail(run).await?.unwrap_or(0);
        let usage = RunUsage {
            cost_micros_usd: row.cost_micros_usd,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            is_warned: row.budget_warned,
        };
        let (task, session) = (row.task_id, row.session_id);
        Ok(EndedRun { run, task, session, queued, events, usage })
    }
}

impl EndedRun {
    /// The configuration of the run. Values that the server chose are left out, so that they are chosen again.
    pub fn run_config(&self) -> Result<RunConfig, Error> {
        let malformed = |why: Unreadable| {
            let message = format!("cannot read the configuration of {}: {why}", self.run);
            Error::rejected(Code::OrderRefused, message)
        };
        let config = RunConfig::from_json(self.queued.config.as_ref()).map_err(malformed)?;
        // The successor of a child run is started by a person.
        Ok(RunConfig {
            sandbox: None,
            policy: None,
            spawned_by: None,
            branch: None,
            files_from: None,
            ..config
        })
    }

    /// A run with the same request and configuration, from the start.
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
        queued.config = Some(self.run_config()?.written());
        Ok(NewRun { queued, task: self.task, session: self.session, resumed_from: None })
    }

    /// A run that continues after the event `from_sequence`, or after the last one, in the same workspace and without
    /// the earlier attachments. `resume_point` finds that event.
    pub fn resumed(&self, from_sequence: Option<u64>) -> Result<NewRun, Error> {
        let mut queued = self.successor();
        queued.workspace_path = self.queued.workspace_path.clone();
        queued.config = Some(RunConfig { attachments: Vec::new(), ..self.run_config()? }.written());
        let resumed_from = Some(self.resume_point(from_sequence)?);
        Ok(NewRun { queued, task: self.task, session: self.session, resumed_from })
    }

    /// The event from which a new run continues.
    pub fn resume_point(&self, from_sequence: Option<u64>) -> Result<ResumedFromEvent, Error> {
        let last = self.events.saturating_sub(1);
        let from = from_sequence.unwrap_or(last);
        if from > last {
            let message = format!("from_sequence is {from}, but the last event of {} is {last}", self.run);
            return Err(Error::rejected(Code::OrderRefused, message));
        }
        Ok(ResumedFromEvent::new(self.run.to_string(), from, self.usage.cost_micros_usd))
    }

    /// Sets this run as the predecessor of a new one, with the usage so far.
    pub fn set_predecessor(&self, queued: &mut Queued) {
        queued.prior_run_id = Some(self.run.to_string());
        queued.prior_cost_micros_usd = Some(self.usage.cost_micros_usd);
        queued.prior_input_tokens = Some(self.usage.input_tokens);
        queued.prior_output_tokens = Some(self.usage.output_tokens);
        queued.budget_warned = self.usage.is_warned.then_some(true);
    }

    fn successor(&self) -> Queued {
        let mut queued = Queued::new(self.queued.kind);
        queued.title = self.queued.title.clone();
        queued.model = self.queued.model.clone();
        queued.provider = self.queued.provider.clone();
        queued.workspace_mode = self.queued.workspace_mode.clone();
        self.set_predecessor(&mut queued);
        queued
    }
}
