//! Folds `run.*` and `gap.*`: the phase of the run.

use std::sync::Arc;

use recount_event::family::run::{Cancelled, Failed, Finished, Queued};

use crate::limits;
use crate::state::{Cost, Ended, FinalEvent, Phase, State, Totals};

pub(super) fn resumed(state: &mut State) {
    state.phase = Phase::Resuming;
}

pub(super) fn queued(state: &mut State, queued: &Queued) {
    state.phase = Phase::Queued;
    state.cost = Cost {
        prior: Totals {
            input_tokens: queued.prior_input_tokens.unwrap_or(0),
            output_tokens: queued.prior_output_tokens.unwrap_or(0),
            cost_micros_usd: queued.prior_cost_micros_usd.unwrap_or(0),
        },
        ..Cost::default()
    };
    if queued.budget_warned == Some(true) {
        state.cost.warned.insert(limits::BUDGET_WARNING_PCT);
    }
    debug_assert!(state.cost.warned.len() <= limits::WARNINGS_MAX);
    state.queued = Some(Arc::new(queued.clone()));
}

pub(super) fn started(state: &mut State, at_ms: u64) {
    state.phase = Phase::Running;
    state.lost = false;
    state.claim = Some(state.next_sequence);
    state.started_ms.get_or_insert(at_ms);
}

pub(super) fn waiting(state: &mut State) {
    state.phase = Phase::Waiting;
}

pub(super) fn continued(state: &mut State) {
    state.phase = if state.waits_for().is_empty() { Phase::Running } else { Phase::Regrouping };
}

/// The rest that was to be waited for again has its outcomes.
pub(super) fn regrouped(state: &mut State) {
    if state.phase == Phase::Regrouping && state.waits_for().is_empty() {
        state.phase = Phase::Running;
    }
}

pub(super) fn disconnected(state: &mut State) {
    state.lost = true;
}

pub(super) fn finished(state: &mut State, at_ms: u64, ending: &Finished) {
    end(state, at_ms, FinalEvent::Finished(Arc::new(ending.clone())));
}

pub(super) fn failed(state: &mut State, at_ms: u64, ending: &Failed) {
    end(state, at_ms, FinalEvent::Failed(Arc::new(ending.clone())));
}

pub(super) fn cancelled(state: &mut State, at_ms: u64, ending: &Cancelled) {
    end(state, at_ms, FinalEvent::Cancelled(Arc::new(ending.clone())));
}

fn end(state: &mut State, at_ms: u64, how: FinalEvent) {
    // Calls that were only announced need no settling; nothing can come of them any more.
    state.calls.clear();
    state.phase = Phase::Ended(Ended { at_ms, sequence: state.next_sequence, how });
}
