//! Alters what would have been right, in one place each. It must never make anything right wrong unless it is told to:
//! without a fault nothing here is asked.

use recount_aaep::wire::{Capabilities, EventId, SubscriptionRequest};
use serde_json::{Map, Value};

use super::Fault;
use super::room::Room;
use super::terms::Refusal;

/// What is remembered of one session on one subscription.
#[derive(Default)]
pub(super) struct Memory {
    /// Events so far.
    count: u64,
}

/// The event as it goes out: altered, doubled or not at all.
pub(super) fn event(
    fault: Fault,
    right: Map<String, Value>,
    memory: &mut Memory,
    _fresh: &mut dyn FnMut() -> EventId,
) -> Vec<Map<String, Value>> {
    let mut told = right;
    memory.count += 1;
    if fault == Fault::ContextMissing {
        told.remove("@context");
    }
    vec![told]
}

/// Whether events are numbered.
pub(super) fn numbered(_fault: Fault) -> bool {
    true
}

/// The text as it goes out.
pub(super) fn text(_fault: Fault, text: String) -> String {
    text
}

/// What is said to a request.
pub(super) fn answer(
    _room: &Room,
    _request: &SubscriptionRequest,
    right: Result<Capabilities, Refusal>,
) -> Result<Capabilities, Refusal> {
    right
}

/// `subscription.accepted` as it goes out.
pub(super) fn accepted(_room: &Room, text: String) -> String {
    text
}
