//! Folds `cost.*`: usage.

use recount_event::family::cost::Tick;

use crate::state::{State, Totals};

pub(super) fn tick(state: &mut State, tick: &Tick) {
    if let Some(turn) = &mut state.turns.open {
        turn.used = open_turn(tick);
    }
    state.cost.children = child_runs(tick);
    state.cost.ticked = Some(Totals {
        input_tokens: tick.cumulative_input_tokens,
        output_tokens: tick.cumulative_output_tokens,
        cost_micros_usd: tick.cumulative_cost_micros_usd,
    });
}

/// The part of a tick that the runs have used which this one started.
pub(crate) fn child_runs(tick: &Tick) -> Totals {
    Totals {
        input_tokens: tick.child_runs_input_tokens.unwrap_or(0),
        output_tokens: tick.child_runs_output_tokens.unwrap_or(0),
        cost_micros_usd: tick.child_runs_cost_micros_usd.unwrap_or(0),
    }
}

/// The part of a tick that concerns the open turn.
pub(crate) fn open_turn(tick: &Tick) -> Totals {
    Totals {
        input_tokens: tick.open_turn_input_tokens.unwrap_or(0),
        output_tokens: tick.open_turn_output_tokens.unwrap_or(0),
        cost_micros_usd: tick.open_turn_cost_micros_usd.unwrap_or(0),
    }
}
