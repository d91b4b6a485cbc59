//! Helpers for the stored events of one run. The module must not depend on what clients observed.

use bytes::Bytes;
use recount_event::{Payload, codec};

/// A stored event: sequence, position, bytes.
pub(super) type Stored = (u64, u64, Bytes);

/// The event with this sequence, if it is stored.
pub(super) fn at(stored: &[Stored], sequence: u64) -> Option<&Stored> {
    stored.binary_search_by_key(&sequence, |found| found.0).ok().map(|place| &stored[place])
}

/// The first sequence of a run according to its events: after the events that its newest marker names, or 0.
pub(super) fn begins(stored: &[Stored]) -> u64 {
    let marker = stored.iter().rev().find_map(|(_, _, bytes)| {
        let is_marker =
            codec::Envelope::read(bytes).is_ok_and(|found| found.type_name == "gap.events_pruned");
        is_marker.then(|| codec::decode(bytes).ok())?
    });
    match marker.as_ref().map(|event| event.payload()) {
        Some(Payload::GapEventsPruned(marker)) => marker.last_pruned_sequence + 1,
        _ => 0,
    }
}

pub(super) fn is_ending(bytes: &[u8]) -> bool {
    codec::Envelope::read(bytes)
        .is_ok_and(|event| matches!(&*event.type_name, "run.finished" | "run.failed" | "run.cancelled"))
}
