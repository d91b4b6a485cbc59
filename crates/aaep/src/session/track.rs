//! What is remembered of one session.

use super::order::Step;
use super::prompts::Prompt;
use super::states::Speaker;
use super::stream::Output;
use super::tools::Call;
use crate::limits;

/// One session while it is open.
#[derive(Default)]
pub(super) struct Track {
    /// As it is written; for sentences.
    pub(super) id: Box<str>,
    pub(super) last: Option<Step>,
    pub(super) started: bool,
    pub(super) micros: Option<i64>,
    pub(super) numbering: Numbering,
    pub(super) speakers: Vec<Speaker>,
    pub(super) calls: Vec<Call>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) outputs: Vec<Output>,
    /// When it was last heard of, by count of events.
    pub(super) heard: u64,
    /// Where its last event stood, and that event's id.
    pub(super) line: usize,
    pub(super) event_id: String,
    pub(super) overflowed: bool,
}

/// Where an event stands in its session.
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

/// How the events of a session are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Numbering {
    #[default]
    Unknown,
    Without,
    At(i64),
    /// Both were seen; it was said.
    Mixed,
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
