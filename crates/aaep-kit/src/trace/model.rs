//! A trace as data: sessions with what was said in them, parts that opened and closed, and problems. Built by
//! [`super::collect`], shown by the three forms; nothing here reads or writes.

use super::aaep::kind::Kind;
use super::aaep::rule::{Finding, Severity};
use super::sentence::{Sentence, Tongues};

/// What was heard of a file, and how much of it is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Texts: events, messages, and what could not be read.
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
    /// Texts that were checked and are not told, because the account was full
    /// ([`crate::limits::TRACE_BYTES_MAX`]).
    pub texts_left_out: u64,
    /// Problems that are counted and not listed.
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

/// A file, told.
pub(super) struct Trace {
    pub(super) totals: Totals,
    pub(super) sessions: Vec<Session>,
    /// What belongs to no session: handshakes, replies to nothing, lines that cannot be read.
    pub(super) outside: Vec<Entry>,
    pub(super) problems: Vec<Problem>,
    pub(super) tongues: Tongues,
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
    pub(super) what: What,
    pub(super) sentence: Sentence,
    /// The first of its problems, counted from 0, and how many.
    pub(super) problems: (u32, u32),
}

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Event(Kind),
    /// Of an extension, or of no type that there is.
    OtherEvent,
    Message(super::aaep::MessageKind),
    /// JSON, but neither.
    Stranger,
    Unreadable,
}

impl What {
    pub(super) fn name(self) -> &'static str {
        match self {
            What::Event(kind) => kind.name(),
            What::OtherEvent => "event",
            What::Message(kind) => kind.name(),
            What::Stranger => "other",
            What::Unreadable => "unreadable",
        }
    }
}

/// A finding, and where it belongs.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) finding: Finding,
    /// Index of its session.
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
    pub(super) parts: Vec<Part>,
    /// Indexes of the parts that are open.
    pub(super) open: Vec<usize>,
    pub(super) states: Vec<Stay>,
    /// Problems of the session as a whole: their indexes.
    pub(super) problems: Vec<usize>,
    pub(super) totals: Totals,
    /// How many texts were heard in it, and the checker's number of the last event.
    pub(super) entry_count: u32,
    pub(super) heard: u64,
    /// Where its last event stood, and that event's id.
    pub(super) last_line: usize,
    pub(super) last_event: String,
    /// How many parts of each sort there were.
    pub(super) counts: [u32; 3],
}

impl Session {
    /// Milliseconds from its first moment to its last.
    pub(super) fn lasted_ms(&self) -> Option<i64> {
        Some((self.last? - self.began?).max(0) / 1_000)
    }

    /// The states of each producer, in order.
    pub(super) fn stays(&self) -> Vec<Vec<&Stay>> {
        let mut stays = vec![Vec::new(); self.producers.len()];
        for stay in &self.states {
            stays[stay.producer].push(stay);
        }
        stays
    }

    pub(super) fn open_parts(&self) -> impl Iterator<Item = &Part> {
        self.open.iter().filter_map(|at| self.parts.get(*at))
    }
}

/// Who speaks in a session.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) id: Box<str>,
    /// The state it is in: an index into the session's stays.
    pub(super) stay: Option<usize>,
}

/// A producer in a state.
#[derive(Debug)]
pub(super) struct Stay {
    pub(super) producer: usize,
    pub(super) state: Box<str>,
    /// From which entry of the session to which; open at the end.
    pub(super) from: u32,
    pub(super) to: Option<u32>,
}

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Call,
    Prompt,
    Output,
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Call => "call",
            Sort::Prompt => "prompt",
            Sort::Output => "output",
        }
    }

    pub(super) fn plural(self) -> &'static str {
        match self {
            Sort::Call => "calls",
            Sort::Prompt => "prompts",
            Sort::Output => "outputs",
        }
    }

    pub(super) fn at_the_beginning(self) -> &'static str {
        match self {
            Sort::Call => "Call",
            Sort::Prompt => "Prompt",
            Sort::Output => "Output",
        }
    }
}

/// How a part went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartOutcome {
    Open,
    Success,
    Error,
    Timeout,
    /// A call came back with a status that there is not.
    Back,
    Accepted,
    /// Accepted with a changed action.
    Modified,
    Rejected,
    Answered,
    /// The producer went on and no answer is recorded.
    Unrecorded,
    TimedOut,
    /// The time was up and the default was to accept.
    DefaultAccepted,
    Complete,
}

impl PartOutcome {
    /// One word, as data.
    pub(super) fn word(self) -> &'static str {
        match self {
            PartOutcome::Open => "open",
            PartOutcome::Success => "success",
            PartOutcome::Error => "error",
            PartOutcome::Timeout => "timeout",
            PartOutcome::Back => "back",
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

    /// Behind the name of the part.
    pub(super) fn label(self) -> &'static str {
        match self {
            PartOutcome::Open => "stays open",
            PartOutcome::Success => "closes with success",
            PartOutcome::Error => "closes with an error",
            PartOutcome::Timeout => "closes with a timeout",
            PartOutcome::Back => "closes",
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

    /// Whether it went as one would wish, for the drawing: `None` for neither.
    pub(super) fn is_good(self) -> Option<bool> {
        match self {
            PartOutcome::Success | PartOutcome::Accepted | PartOutcome::Answered | PartOutcome::Complete => {
                Some(true)
            }
            PartOutcome::Error | PartOutcome::Timeout | PartOutcome::Rejected | PartOutcome::TimedOut => {
                Some(false)
            }
            PartOutcome::Open
            | PartOutcome::Back
            | PartOutcome::Modified
            | PartOutcome::Unrecorded
            | PartOutcome::DefaultAccepted => None,
        }
    }
}

/// A call, a prompt or an output.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) sort: Sort,
    /// Counted in its session, each sort by itself, from 1.
    pub(super) number: u32,
    /// The tool, the action or the question, the output's id; as it came, cut.
    pub(super) label: Box<str>,
    /// Its id or token, as it came.
    pub(super) key: Box<str>,
    /// The checker's number of the event that opened it.
    pub(super) heard: u64,
    pub(super) line: usize,
    /// From which entry of the session to which.
    pub(super) from: u32,
    pub(super) to: Option<u32>,
    pub(super) outcome: PartOutcome,
    pub(super) pieces: u32,
}
