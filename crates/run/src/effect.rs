//! What the world owes a run, derived from its state and never stored.
//!
//! Because it is derived, recovery, resuming and cancelling are one thing: compare [`outstanding`] with
//! what is running, and start or drop the difference.

use recount_event::ForeignId;
use recount_event::family::run::Driver;

use crate::state::{PromptName, State};

/// Timers and work that a run needs in the state it is in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// The earliest first.
    pub timers: Vec<Timer>,
    /// Own runs only.
    pub work: Vec<Work>,
}

/// A moment at which [`crate::Command::Tick`] will find something due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer {
    pub at_ms: u64,
    pub what: PromptName,
}

/// Something a performer must do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Claim the run and begin it: write `run.started` when it is not there, then make its first step.
    Start,
    /// Call the model, or go on with the call that is open.
    CallModel,
    /// See to a call: judge it and invoke it when it is only proposed, carry it out when it is invoked.
    RunTool { tool_call_id: ForeignId },
    /// Nothing is left to do but to write the ending.
    Conclude,
}

/// What the world owes the run now.
pub fn outstanding(state: &State) -> Effects {
    let _ = (state, Driver::Own);
    Effects::default()
}
