//! What a request adds to the append of a run, and the reply that waits for the append. It must not know the writer.

use recount_event::{Event, RunId, TaskId};
use recount_log::RowPut;

use crate::write::commit::Commit;
use crate::write::request::{Erase, Ingest, Job, Prune, ReplyTo, Report, Submit, SubmitWithRows, Tick};
use crate::write::run_start::RunStart;
use crate::{Error, Pruned};

/// What a request adds to an append.
#[derive(Default)]
pub(super) struct Contribution {
    /// They are applied to the state in memory.
    pub(super) events: Vec<Event>,
    pub(super) rows: Vec<RowPut>,
    pub(super) removal: Option<Removal>,
    /// A run of the same session, which starts when this one ends.
    pub(super) successor: Option<Box<RunStart>>,
    /// Whether it is part of a deletion, which must work on a full disk.
    pub(super) frees_space: bool,
}

/// What an append removes of a run, and what follows it.
pub(super) struct Removal {
    /// `None`: the whole run.
    pub(super) keep_from: Option<u64>,
    pub(super) last_position: u64,
    /// The end of the run after the append.
    pub(super) next_sequence: u64,
    pub(super) task: Option<TaskId>,
    /// Blobs that lose a use.
    pub(super) blobs: Vec<String>,
}

impl Removal {
    pub(super) fn add_to(&self, run: RunId, commit: &mut Commit) {
        match self.keep_from {
            Some(keep_from) => commit.cut(run, keep_from),
            None => commit.erase(run),
        }
    }
}

/// The first and last sequence of a request's events.
#[derive(Clone, Copy)]
pub(super) struct EventRange {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Of a repeated batch, whose events are in an earlier append.
    pub(super) is_earlier: bool,
}

impl EventRange {
    pub(super) fn of(events: &[Event]) -> Option<EventRange> {
        let (first, last) = (events.first()?.sequence, events.last()?.sequence);
        Some(EventRange { first, last, is_earlier: false })
    }
}

/// The reply to a request that waits for the append.
pub(super) enum PendingReply {
    Submit(ReplyTo<Submit>, Result<Option<EventRange>, Error>),
    Ingest(ReplyTo<Ingest>, Result<EventRange, Error>),
    Report(ReplyTo<Report>, Result<Vec<Event>, Error>),
    Tick(ReplyTo<Tick>, Result<(), Error>),
    /// With the last event of the run. `None`: the run has ended on its own.
    SubmitWithRows(ReplyTo<SubmitWithRows>, Result<Option<u64>, Error>),
    Prune(ReplyTo<Prune>, Result<Pruned, Error>),
    Erase(ReplyTo<Erase>, Result<(), Error>),
}

impl PendingReply {
    /// Keeps the events for the reply that returns them.
    pub(super) fn keep(&mut self, events: Vec<Event>) {
        if let PendingReply::Report(_, Ok(reported)) = self {
            *reported = events;
        }
    }

    /// The append failed. A request with its own error gets that error, unless others shared the append.
    pub(super) fn fail(self, error: &Error, is_shared: bool) {
        fn refuse<J: Job, T>(to: ReplyTo<J>, own: Result<T, Error>, error: &Error, is_shared: bool) {
            to.reply(Err(own.err().filter(|_| !is_shared).unwrap_or_else(|| error.clone())));
        }
        match self {
            PendingReply::Submit(to, own) => refuse(to, own, error, is_shared),
            PendingReply::Ingest(to, own) => refuse(to, own, error, is_shared),
            PendingReply::Report(to, own) => refuse(to, own, error, is_shared),
            PendingReply::Tick(to, own) => refuse(to, own, error, is_shared),
            PendingReply::SubmitWithRows(to, own) => refuse(to, own, error, is_shared),
            PendingReply::Prune(to, own) => refuse(to, own, error, is_shared),
            PendingReply::Erase(to, own) => refuse(to, own, error, is_shared),
        }
    }
}
