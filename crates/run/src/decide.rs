//! Judges a command.

use recount_event::{Code, Event, Stamp};

use crate::command::Command;
use crate::rejection::Rejection;
use crate::state::State;

/// The events a command makes, or why it is not taken.
pub fn decide(state: &State, command: Command, stamp: Stamp) -> Result<Vec<Event>, Rejection> {
    let _ = (state, command, stamp);
    Err(Rejection::new(Code::Internal, "being laid"))
}
