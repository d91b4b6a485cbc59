//! The data of a trace: sessions with their entries, parts that opened and closed, and problems. Built by
//! [`super::collect`], written by the three formats; nothing here reads or writes.

use super::aaep::kind::Kind;
use super::aaep::rule::{Finding, Severity};
use super::sentence::{Languages, Sentence};

/// The totals of a file, and what was omitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Texts: events, messages, and unreadable ones.
    pub texts: u64,
    pub events: u64,
    /// Replies, handshakes and other messages.
    pub messages: u64,
    /// Texts that are neither.
    pub unreadable: u64,
    pub sessions: u64,
    pub errors: u64,
    pub warnings: u64,
    pub notes: u64,
    /// Texts that were checked but omitted, because the limit was reached ([`crate::limits::TRACE_BYTES_MAX`]).
    pub texts_left_out: u64,
    /// Problems that are counted but not listed.
    pub problems_left_out: u64,
}

impl Totals {
    pub(super) fn count(&mut self, severity: Severity) {
        match severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Note => self.notes += 1,
        }
    }
}

/// The trace of a file.
pub(super) struct Trace {
    pub(super) totals: Totals,
    pub(super) sessions: Vec<Session>,
    /// Entries without a session: handshakes, unrelated replies, unreadable lines.
    pub(super) outside: Vec<Entry>,
    pub(super) problems: Vec<Problem>,
    pub(super) languages: Languages,
}

impl Trace {
    /// The problems of an entry, each with its number from 1.
    pub(super) fn of(&self, entry: &Entry) -> impl Iterator<Item = (usize, &Problem)> {
        let from = entry.problems.0 as usize;
        let to = from + entry.problems.1 as usize;
        (from..to).filter_map(|at| Some((at + 1, self.problems.get(at)?)))
    }
}

/// One text of the file.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) line: usize,
    /// Milliseconds since the first moment of its session.
    pub(super) at_ms: Option<i64>,
    pub(super) what: EntryKind,
    pub(super) sentence: Sentence,
    /// The index of its first problem, and the count.
    pub(super) problems: (u32, u32),
}

/// The kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    Event(Kind),
    /// Of an extension or an unknown type.
    OtherEvent,
    Message(super::aaep::MessageKind),
    /// JSON, but neither.
    Other,
    Unreadable,
}

impl EntryKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            EntryKind::Event(kind) => kind.name(),
            EntryKind::OtherEvent => "event",
            EntryKind::Message(kind) => kind.name(),
            EntryKind::Other => "other",
            EntryKind::Unreadable => "unreadable",
        }
    }
}

/// A finding and its location.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) finding: Finding,
    /// The index of its session.
    pub(super) session: Option<usize>,
}

/// One session.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) id: Box<str>,
    pub(super) producers: Vec<Producer>,
    /// Moments in microseconds since 1970.
    pub(super) began: Option<i64>,
    pub(super) last: Option<i64>,
    pub(super) ending: Option<Kind>,
    pub(super) entries: Vec<Entry>,
    pub(super) parts: Vec<TracePart>,
    /// Indexes of the open parts.
    pub(super) open: Vec<usize>,
    pub(super) states: Vec<StatePeriod>,
    /// Indexes of problems that concern the session as a whole.
    pub(super) problems: Vec<usize>,
    pub(super) totals: Totals,
    /// The number of its texts, and the checker's number of its last event.
    pub(super) entry_count: u32,
    pub(super) event_number: u64,
    /// The line of its last event, and that event's id.
    pub(super) last_line: usize,
    pub(super) last_event: String,
    /// The number of parts of each kind.
    pub(super) counts: [u32; 3],
}

impl Session {
    /// Milliseconds from its first moment to its last.
    pub(super) fn lasted_ms(&self) -> Option<i64> {
        Some((self.last? - self.began?).max(0) / 1_000)
    }

    /// The states of each producer, in order.
    pub(super) fn state_periods(&self) -> Vec<Vec<&StatePeriod>> {
        let mut state_periods = vec![Vec::new(); self.producers.len()];
        for state_period in &self.states {
            state_periods[state_period.producer].push(state_period);
        }
        state_periods
    }

    pub(super) fn open_parts(&self) -> impl Iterator<Item = &TracePart> {
        self.open.iter().filter_map(|at| self.parts.get(*at))
    }
}

/// A producer in a session.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) id: Box<str>,
    /// Its current state: an index into the session's state spans.
    pub(super) state_period: Option<usize>,
}

/// A period in which a producer was in a state.
#[derive(Debug)]
pub(super) struct StatePeriod {
    pub(super) producer: usize,
    pub(super) state: Box<str>,
    /// First and last entry in the session; `None` if it did not end.
    pub(super) from: u32,
    pub(super) to: Option<u32>,
}

/// The kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Call,
    Prompt,
    Output,
}

impl PartKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            PartKind::Call => "call",
            PartKind::Prompt => "prompt",
            PartKind::Output => "output",
        }
    }

    pub(super) fn plural(self) -> &'static str {
        match self {
            PartKind::Call => "calls",
            PartKind::Prompt => "prompts",
            PartKind::Output => "outputs",
        }
    }

    pub(super) fn at_the_beginning(self) -> &'static str {
        match self {
            PartKind::Call => "Call",
            PartKind::Prompt => "Prompt",
            PartKind::Output => "Output",
        }
    }
}

/// How a part ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartOutcome {
    Open,
    Success,
    Error,
    Timeout,
    /// A call returned an undefined status.
    UnknownStatus,
    Accepted,
    /// Accepted with a changed action.
    Modified,
    Rejected,
    Answered,
    /// The producer continued without a recorded reply.
    Unrecorded,
    TimedOut,
    /// It expired and its default was to accept.
    DefaultAccepted,
    Complete,
}

impl PartOutcome {
    /// The name in JSON.
    pub(super) fn word(self) -> &'static str {
        match self {
            PartOutcome::Open => "open",
            PartOutcome::Success => "success",
            PartOutcome::Error => "error",
            PartOutcome::Timeout => "timeout",
            PartOutcome::UnknownStatus => "back",
            PartOutcome::Accepted => "accepted",
            PartOutcome::Modified => "modified",
            PartOutcome::Rejected => "rejected",
            PartOutcome::Answered => "answered",
            PartOutcome::Unrecorded => "unrecorded",
            PartOutcome::TimedOut => "timed_out",
            PartOutcome::DefaultAccepted => "default_accepted",
            PartOutcome::Complete => "complete",
        }
    }

    /// The text after the name of the part.
    pub(super) fn label(self) -> &'static str {
        match self {
            PartOutcome::Open => "stays open",
            PartOutcome::Success => "closes with success",
            PartOutcome::Error => "closes with an error",
            PartOutcome::Timeout => "closes with a timeout",
            PartOutcome::UnknownStatus => "closes",
            PartOutcome::Accepted => "closes: accepted",
            PartOutcome::Modified => "closes: accepted with a changed action",
            PartOutcome::Rejected => "closes: rejected",
            PartOutcome::Answered => "closes: answered",
            PartOutcome::Unrecorded => "closes: the producer continues, and no answer is recorded",
            PartOutcome::TimedOut => "closes: it timed out, and its default is to reject",
            PartOutcome::DefaultAccepted => "closes: it timed out, and its default is to accept",
            PartOutcome::Complete => "closes: complete",
        }
    }

    /// Whether it ended well, for the drawing: `None` if neither.
    pub(super) fn is_good(self) -> Option<bool> {
        match self {
            PartOutcome::Success | PartOutcome::Accepted | PartOutcome::Answered | PartOutcome::Complete => {
                Some(true)
            }
            PartOutcome::Error | PartOutcome::Timeout | PartOutcome::Rejected | PartOutcome::TimedOut => {
                Some(false)
            }
            PartOutcome::Open
            | PartOutcome::UnknownStatus
            | PartOutcome::Modified
            | PartOutcome::Unrecorded
            | PartOutcome::DefaultAccepted => None,
        }
    }
}

/// A call, a prompt or an output.
#[derive(Debug)]
pub(super) struct TracePart {
    pub(super) part_kind: PartKind,
    /// Its number among the parts of its kind in the session, from 1.
    pub(super) number: u32,
    /// The tool, the action or question, or the output's id; unescaped and cut.
    pub(super) label: Box<str>,
    /// Its id or token, unescaped.
    pub(super) key: Box<str>,
    /// The checker's number of the event that opened it.
    pub(super) event_number: u64,
    pub(super) line: usize,
    /// First and last entry in the session.
    pub(super) from: u32,
    pub(super) to: Option<u32>,
    pub(super) outcome: PartOutcome,
    pub(super) pieces: u32,
}
