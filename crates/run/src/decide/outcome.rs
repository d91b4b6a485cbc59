//! The payloads that settle a call, as far as they are the same for every executor.

use recount_event::family::tool::{self, RefusalCode};
use recount_event::{ForeignId, Payload};

use crate::state::Call;

pub(super) fn refusal(id: &ForeignId, call: &Call, code: RefusalCode, message: String) -> Payload {
    let refused = tool::Refused::new(id.clone(), call.name().to_owned(), code, message);
    Payload::ToolRefused(Box::new(refused))
}

/// The start of an outcome.
pub(super) fn ended(id: &ForeignId, call: &Call) -> tool::Ended {
    let mut ended = tool::Ended::new(id.clone(), call.name().to_owned());
    ended.turn_index = call.turn_index;
    // Output of a command whose call is closed is no longer read, so how much more it wrote is unknown.
    ended.output_incomplete = call.runs_command().then_some(true);
    ended
}
