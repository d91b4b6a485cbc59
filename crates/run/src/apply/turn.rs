//! Folds `turn.*`: calls of the model.

use std::collections::BTreeMap;

use recount_event::family::turn::{Completed, Failed, Started, StopReason};

use crate::state::{State, Totals, Turn};

pub(super) fn started(state: &mut State, started: &Started) {
    let turns = &mut state.turns;
    if turns.highest != Some(started.turn_index) {
        turns.closed_blocks.clear();
    }
    turns.highest = Some(started.turn_index);
    turns.may_retry = false;
    turns.started += 1;
    turns.open = Some(Turn {
        index: started.turn_index,
        proposed: 0,
        blocks: BTreeMap::new(),
        used: Totals::default(),
    });
}

pub(super) fn completed(state: &mut State, completed: &Completed) {
    let proposed = state.turns.open.take().map_or(0, |turn| turn.proposed);
    state.turns.completed += 1;
    let asks_more = proposed > 0 || completed.stop_reason == StopReason::ToolUse;
    state.turns.wants_model = asks_more && !state.turns.final_answer;
    state.cost.turns = state.cost.turns.plus(Totals {
        input_tokens: completed.input_tokens.unwrap_or(0),
        output_tokens: completed.output_tokens.unwrap_or(0),
        cost_micros_usd: completed.cost_micros_usd.unwrap_or(0),
    });
}

pub(super) fn failed(state: &mut State, failed: &Failed) {
    let used = state.turns.open.take().map_or(Totals::default(), |turn| turn.used);
    state.cost.turns = state.cost.turns.plus(used);
    state.turns.may_retry = failed.will_retry;
    state.turns.wants_model = failed.will_retry;
}
