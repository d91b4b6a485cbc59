//! `cost.*`: what was used.

use recount_event::family::cost::Tick;

use crate::state::{State, Totals};

pub(super) fn tick(state: &mut State, tick: &Tick) {
    state.cost.ticked = Some(Totals {
        input_tokens: tick.cumulative_input_tokens,
        output_tokens: tick.cumulative_output_tokens,
        cost_micros_usd: tick.cumulative_cost_micros_usd,
    });
}
