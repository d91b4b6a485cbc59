//! Folds runs whose beginning was pruned. What is left before the ending means nothing by itself (a call
//! may be settled that was never proposed), so only the ending and the marker after it are folded.

use std::sync::Arc;

use recount_event::family::gap::EventsPruned;
use recount_event::family::run::Queued;
use recount_event::{Event, Payload, time};

use super::run;
use crate::limits;
use crate::state::{Cost, State, Totals};

/// Folds an event of a pruned run before its marker.
pub(super) fn fold(state: &mut State, event: &Event) {
    let at_ms = event.occurred_ms;
    match event.payload() {
        Payload::RunFinished(ending) => run::finished(state, at_ms, ending),
        Payload::RunFailed(ending) => run::failed(state, at_ms, ending),
        Payload::RunCancelled(ending) => run::cancelled(state, at_ms, ending),
        Payload::GapEventsPruned(marker) => {
            fold_marker(state, marker);
            marked(state, marker);
        }
        _ => {}
    }
}

/// The events up to the last one that the marker names are deleted, or are deleted with it.
pub(super) fn marked(state: &mut State, marker: &EventsPruned) {
    state.first_sequence = state.first_sequence.max(marker.last_pruned_sequence.saturating_add(1));
}

/// Takes from the marker the facts of the pruned events.
fn fold_marker(state: &mut State, marker: &EventsPruned) {
    let Some(facts) = marker.facts() else { return };
    let mut queued = Queued::new(facts.kind);
    queued.driver = facts.driver;
    queued.title = facts.title;
    queued.agent = facts.agent;
    queued.model = facts.model;
    queued.provider = facts.provider;
    queued.workspace_path = facts.workspace_path;
    queued.workspace_mode = facts.workspace_mode;
    queued.task_budget_micros_usd = facts.budget_micros_usd;
    queued.task_budget_tokens = facts.budget_tokens;
    queued.prior_run_id = facts.prior_run_id;
    state.queued = Some(Arc::new(queued));
    if let Some(at_ms) = time::parse_ms(&facts.created_at) {
        state.created_ms = at_ms;
    }
    state.started_ms = facts.started_at.as_deref().and_then(time::parse_ms);
    state.turns.completed = facts.turns.unwrap_or(0);
    let totals = Totals {
        input_tokens: facts.input_tokens.unwrap_or(0),
        output_tokens: facts.output_tokens.unwrap_or(0),
        cost_micros_usd: facts.cost_micros_usd.unwrap_or(0),
    };
    state.cost = Cost { turns: totals, ticked: Some(totals), ..Cost::default() };
    if facts.budget_warned == Some(true) {
        state.cost.warned.insert(limits::BUDGET_WARNING_PCT);
    }
}
