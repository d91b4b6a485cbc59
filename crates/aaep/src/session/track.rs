//! State of one open session.

use super::call::Call;
use super::order::Step;
use super::prompts::Prompt;
use super::states::Speaker;
use super::stream::Output;

/// One session while it is open.
#[derive(Default)]
pub(super) struct Track {
    /// The session id, for messages.
    pub(super) id: Box<str>,
    pub(super) last: Option<Step>,
    pub(super) started: bool,
    pub(super) micros: Option<i64>,
    pub(super) numbering: Numbering,
    pub(super) speakers: Vec<Speaker>,
    pub(super) calls: Vec<Call>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) outputs: Vec<Output>,
    /// The number of its last event.
    pub(super) last_event: u64,
    /// The line and the id of its last event.
    pub(super) line: usize,
    pub(super) event_id: String,
    pub(super) overflowed: bool,
}

/// How the events of a session are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Numbering {
    #[default]
    Unknown,
    Without,
    At(i64),
    /// Some events have numbers and some do not; it is reported.
    Mixed,
}
