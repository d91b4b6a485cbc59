//! The payloads that settle a call, as far as they are alike whoever settles it.

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
    // Nobody reads on from a command whose call is closed, so nobody knows what else it wrote.
    ended.output_incomplete = call.runs_command().then_some(true);
    ended
}
