//! Decides pruning: the oldest events of an ended run are removed, and a marker at its end describes them.

use recount_event::family::gap::{Catalogue, EventsPruned};
use recount_event::family::run::Queued;
use recount_event::{Code, Payload, time};

use super::Batch;
use crate::limits;
use crate::rejection::Rejection;
use crate::state::State;

pub(super) fn prune(batch: &mut Batch, before: Option<u64>, reason: String) -> Result<(), Rejection> {
    let state = &batch.state;
    let run = state.run_id;
    let Some(ending) = state.ending_sequence() else {
        let goes_on = format!("{run} {}: only ended runs can be pruned", state.status().phrase());
        return Err(Rejection::new(Code::RunActive, goes_on));
    };
    if let Some(session) = state.session_id {
        let whole = format!("{run} belongs to {session}: runs of a session cannot be pruned");
        return Err(Rejection::new(Code::RunInSession, whole));
    }
    // How it ended stays to be read.
    let keep_from = before.map_or(ending, |before| before.min(ending));
    if keep_from <= state.first_sequence {
        return Ok(());
    }
    let pruned_at = time::format_ms(batch.now_ms());
    let mut marker = EventsPruned::new(0, keep_from - 1, pruned_at, reason);
    marker.catalogue = Some(facts(state).written());
    batch.emit(Payload::GapEventsPruned(Box::new(marker)))
}

/// The facts that lists show of the run and its ending does not have.
fn facts(state: &State) -> Catalogue {
    let summary = state.summary();
    let some = |number: u64| (number > 0).then_some(number);
    let queued = state.queued().map(|queued| (**queued).clone());
    let queued = queued.unwrap_or_else(|| Queued::new(summary.kind));
    Catalogue {
        kind: summary.kind,
        driver: summary.driver,
        created_at: time::format_ms(summary.created_ms),
        title: summary.title,
        agent: summary.agent,
        started_at: summary.started_ms.map(time::format_ms),
        turns: some(summary.turns),
        input_tokens: some(summary.totals.input_tokens),
        output_tokens: some(summary.totals.output_tokens),
        cost_micros_usd: some(summary.totals.cost_micros_usd),
        model: queued.model,
        provider: queued.provider,
        workspace_path: queued.workspace_path,
        workspace_mode: queued.workspace_mode,
        budget_micros_usd: queued.task_budget_micros_usd,
        budget_tokens: queued.task_budget_tokens,
        prior_run_id: queued.prior_run_id,
        budget_warned: state.budget_warned(limits::BUDGET_WARNING_PCT).then_some(true),
    }
}
