//! The context of an event in its session, and the limit on tracked parts of a session.

use crate::limits;

/// The context of an event in its session.
#[derive(Clone, Copy)]
pub(super) struct EventContext {
    /// Index of its producer.
    pub(super) speaker: usize,
    /// Its time in microseconds since 1970.
    pub(super) moment: Option<i64>,
    /// The seed of hashes.
    pub(super) seed: u64,
    /// Its number among all tracked events.
    pub(super) event_number: u64,
    /// Number of invalid confirmation replies before it.
    pub(super) invalid_replies: u64,
    /// Whether no recorded subscription can reply, so that the recording may lack prompts.
    pub(super) prompts_hidden: bool,
}

/// Removes settled parts from a full list. Returns false if the list is still full.
pub(super) fn evict_settled<T>(parts: &mut Vec<T>, settled: impl Fn(&T) -> bool) -> bool {
    if parts.len() < limits::SESSION_PARTS_MAX {
        return true;
    }
    // Up to half of the list at a time, so that this does not happen at every event.
    let mut surplus = limits::SESSION_PARTS_MAX / 2;
    parts.retain(|part| {
        let drop = surplus > 0 && settled(part);
        surplus -= usize::from(drop);
        !drop
    });
    parts.len() < limits::SESSION_PARTS_MAX
}
