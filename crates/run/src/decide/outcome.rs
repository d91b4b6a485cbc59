//! The payloads that settle a call, as far as they are the same for every executor.

use recount_event::family::tool::{self, RefusalCode};
use recount_event::{ForeignId, Payload};

use crate::state::{Call, CallStage, Invoked};

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

/// What is known of a call of this server that is closed without an outcome, for the model and for people. `tool.started`
/// comes before the wait for a place, so only a recorded command shows that a call did more than wait.
pub(super) fn how_far(call: &Call) -> &'static str {
    if call.has_not_started() {
        return "the call had not started, so it had no effect";
    }
    match call.stage {
        CallStage::Invoked(Invoked { shell: Some(_), .. }) => {
            "the call had started, and it is unknown whether it took effect"
        }
        _ => "the call may have started, and it is unknown whether it took effect",
    }
}
