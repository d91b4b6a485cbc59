//! Effects: the work that a run needs, derived from its state and never stored.
//!
//! Because they are derived, recovery, resuming and cancelling are the same: compare [`outstanding`] with
//! what is running, and start or drop the difference.

use recount_event::ForeignId;
use recount_event::family::run::RunKind;

use crate::state::{CallStage, Phase, PromptName, State};

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
    /// Claim the run and start it: append `run.started` if it is missing, then do the first step.
    Start,
    /// Call the model, or continue the open call.
    CallModel,
    /// Handle a call: decide and invoke it if it is only proposed, execute it if it is invoked.
    RunTool { tool_call_id: ForeignId },
    /// Only the ending remains to be appended.
    Conclude,
}

/// Work and timers outstanding in this state.
pub fn outstanding(state: &State) -> Effects {
    let mut timers: Vec<Timer> = state
        .open_prompts()
        .filter_map(|(name, prompt)| Some(Timer { at_ms: prompt.deadline_ms?, what: name.clone() }))
        .collect();
    timers.sort();
    Effects { timers, work: if state.is_own() { work(state) } else { Vec::new() } }
}

fn work(state: &State) -> Vec<Work> {
    match state.phase {
        Phase::Queued => return vec![Work::Start],
        Phase::Running if state.lost => return vec![Work::Start],
        Phase::Running => {}
        Phase::Blank | Phase::Resuming | Phase::Waiting | Phase::Regrouping | Phase::Ended(_) => {
            return Vec::new();
        }
    }
    let turn_open = state.turns.open.is_some();
    let tools = state.calls_in_order().into_iter().filter(|id| {
        let call = &state.calls[id];
        let ours = match call.stage {
            CallStage::Invoked(_) => call.is_with_server(),
            // Calls of an open turn are judged when it is complete.
            CallStage::Proposed => !turn_open,
            CallStage::Announced => call.granted().is_some(),
        };
        ours && !state.has_prompt(id)
    });
    let mut work: Vec<Work> = tools.map(|tool_call_id| Work::RunTool { tool_call_id }).collect();
    if turn_open {
        work.push(Work::CallModel);
    } else if state.calls.is_empty() && state.prompts.is_empty() {
        work.push(next_step(state));
    }
    work
}

/// The next step when nothing is open.
fn next_step(state: &State) -> Work {
    match state.kind() {
        RunKind::AgentLoop | RunKind::External if state.cost.exceeded => Work::Conclude,
        RunKind::AgentLoop | RunKind::External if state.turns.wants_model => Work::CallModel,
        RunKind::AgentLoop | RunKind::External => Work::Conclude,
        RunKind::Shell | RunKind::Git | RunKind::File if state.calls_seen == 0 => Work::Start,
        RunKind::Shell | RunKind::Git | RunKind::File => Work::Conclude,
    }
}
