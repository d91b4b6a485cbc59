//! The context of an event in its session, and the bound on the parts of a session that are followed.

use crate::limits;

/// The position of an event in its session.
#[derive(Clone, Copy)]
pub(super) struct Stand {
    /// Which of the speakers says it.
    pub(super) speaker: usize,
    /// When, in microseconds since 1970.
    pub(super) moment: Option<i64>,
    /// What sums are mixed with.
    pub(super) seed: u64,
    /// Its number among all events that are followed.
    pub(super) heard: u64,
    /// How many replies had been recorded by then that do not count.
    pub(super) refused: u64,
    /// Whether every subscription that was recorded had said that it cannot answer, so that prompts were kept from it.
    pub(super) unseen: bool,
}

/// Makes room in a list of parts: what is settled goes first. False when nothing can go.
pub(super) fn make_room<T>(parts: &mut Vec<T>, settled: impl Fn(&T) -> bool) -> bool {
    if parts.len() < limits::SESSION_PARTS_MAX {
        return true;
    }
    // Half of the list at a time, so that it does not happen again at once.
    let mut surplus = limits::SESSION_PARTS_MAX / 2;
    parts.retain(|part| {
        let drop = surplus > 0 && settled(part);
        surplus -= usize::from(drop);
        !drop
    });
    parts.len() < limits::SESSION_PARTS_MAX
}
