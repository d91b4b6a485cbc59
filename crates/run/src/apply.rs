//! Folds an event into a state.

use recount_event::Event;

use crate::state::State;

/// Takes an event in.
pub fn apply(state: &mut State, event: &Event) {
    state.next_sequence = event.sequence + 1;
}
