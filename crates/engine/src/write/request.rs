//! The requests to the writer of a run: each with the type of its reply, what it adds to an append, and the reply that
//! waits for the append. It must not know the sender, nor how a request is executed. Start with [`Job`].

use recount_event::{Draft, Event, RunId, TaskId};
use recount_log::RowPut;
use recount_run::Command;
use tokio::sync::oneshot;

use crate::write::commit::Commit;
use crate::write::run_start::RunStart;
use crate::{BatchId, Error, IdempotencyKey, Receipt};

/// A kind of request to a writer.
pub(crate) trait Job: Send + Sized + 'static {
    type Reply: Send + 'static;

    fn request(self, to: ReplyTo<Self>) -> Request;
}

/// The result of a request.
pub(crate) enum JobOutcome<J: Job> {
    Done(Result<J::Reply, Error>),
    /// The writer stopped at the same time; start another with this job.
    WriterIdle(J),
}

/// The channel for the reply to a request.
pub(crate) struct ReplyTo<J: Job>(oneshot::Sender<JobOutcome<J>>);

/// A command. `None`: there was nothing to write.
pub(crate) struct Submit(pub(crate) Command);

/// A batch from the producer of an external run.
pub(crate) struct Ingest {
    pub(crate) batch_id: BatchId,
    pub(crate) drafts: Vec<Draft>,
}

/// Events of a worker; refused if another worker has the run. The reply is the appended events.
pub(crate) struct Report {
    pub(crate) claim: Option<u64>,
    pub(crate) drafts: Vec<Draft>,
}

/// The deadline of the run was reached.
pub(crate) struct Tick {
    pub(crate) at_ms: u64,
}

/// A command with more rows or events in the same append.
pub(crate) struct SubmitWithRows {
    pub(crate) command: Command,
    pub(crate) with: Box<CommandWithRows>,
}

/// The additional content of the append.
#[derive(Default)]
pub(crate) struct CommandWithRows {
    pub(crate) rows: Vec<RowPut>,
    /// A run of the same session. The command ends the previous one, which must be waiting.
    pub(crate) successor: Option<Box<RunStart>>,
    /// The key of the request, and the event that it stores.
    pub(crate) idempotency: Option<(IdempotencyKey, KeyEvent)>,
    /// Values of secret options in the rows: masked from this command on.
    pub(crate) secrets: Vec<String>,
    /// Whether the command is part of a deletion, which must work on a full disk.
    pub(crate) frees_space: bool,
}

/// The event that the key of a request stores.
pub(crate) enum KeyEvent {
    /// The one that continues the run. Nothing is stored if the run does not continue.
    Continuation,
    /// The last event of the run after the command.
    Last,
}

/// The outcome of such a command.
pub(crate) enum SideOutcome {
    Written {
        /// The receipt of the command's events. `None`: there was nothing to write.
        own: Option<Receipt>,
        /// The receipt of the successor's start.
        started: Option<Receipt>,
        /// The last event of the run after the command.
        last_sequence: u64,
    },
    /// Another client changed a row meanwhile, and nothing was written: read it again.
    Stale,
    /// The run has ended on its own, and nothing was written.
    Ended,
}

/// Removes the events before `before`, at most those before the ending.
pub(crate) struct Prune {
    pub(crate) before: Option<u64>,
    pub(crate) reason: String,
    pub(crate) rows: Option<PruneRows>,
    /// Only computes the reply; nothing is removed.
    pub(crate) is_trial: bool,
}

/// The result of a prune of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// The first event that remains.
    pub first_sequence: u64,
    /// The number of removed events.
    pub events: u64,
    /// The receipt of the marker, if anything was removed.
    pub receipt: Option<Receipt>,
}

/// Creates the rows that are stored with a prune.
pub(crate) type PruneRows = Box<dyn FnOnce(&Pruned) -> Vec<RowPut> + Send>;

/// Removes all events of an ended run and writes a tombstone.
pub(crate) struct Erase {
    pub(crate) by: String,
}

macro_rules! jobs {
    ($($(#[$doc:meta])* $job:ident => $reply:ty, $own:ty;)*) => {
        /// A job and the channel for its reply.
        pub(crate) enum Request {
            $($job($job, ReplyTo<$job>),)*
        }

        impl Request {
            /// Returns the job to its sender, because this writer has stopped.
            pub(crate) fn give_back(self) {
                match self {
                    $(Request::$job(job, to) => to.send(JobOutcome::WriterIdle(job)),)*
                }
            }

            pub(crate) fn refuse(self, error: Error) {
                match self {
                    $(Request::$job(_, to) => to.reply(Err(error)),)*
                }
            }
        }

        /// The reply to a request that waits for the append, with the request's own result.
        pub(super) enum PendingReply {
            $($(#[$doc])* $job(ReplyTo<$job>, Result<$own, Error>),)*
        }

        impl PendingReply {
            /// The append failed. A request with its own error gets that error, unless others shared the append.
            pub(super) fn fail(self, error: &Error, is_shared: bool) {
                match self {
                    $(PendingReply::$job(to, own) => {
                        to.reply(Err(own.err().filter(|_| !is_shared).unwrap_or_else(|| error.clone())));
                    })*
                }
            }
        }

        $(impl Job for $job {
            type Reply = $reply;

            fn request(self, to: ReplyTo<Self>) -> Request {
                Request::$job(self, to)
            }
        })*
    };
}

// The type of the reply, and that of the request's own result.
jobs! {
    Submit => Option<Receipt>, Option<EventRange>;
    Ingest => Receipt, EventRange;
    Report => Vec<Event>, Vec<Event>;
    Tick => (), ();
    /// With the last event of the run. `None`: the run has ended on its own.
    SubmitWithRows => SideOutcome, Option<u64>;
    Prune => Pruned, Pruned;
    Erase => (), ();
}

impl PendingReply {
    /// Keeps the events for the reply that returns them.
    pub(super) fn keep(&mut self, events: Vec<Event>) {
        if let PendingReply::Report(_, Ok(reported)) = self {
            *reported = events;
        }
    }
}

impl Request {
    /// Whether it needs its own append: removals, and requests that may fail because of their rows.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self, Request::SubmitWithRows(..) | Request::Prune(..) | Request::Erase(..))
    }
}

impl<J: Job> ReplyTo<J> {
    pub(super) fn new() -> (Self, oneshot::Receiver<JobOutcome<J>>) {
        let (to, turn) = oneshot::channel();
        (ReplyTo(to), turn)
    }

    pub(super) fn reply(self, reply: Result<J::Reply, Error>) {
        self.send(JobOutcome::Done(reply));
    }

    fn send(self, turn: JobOutcome<J>) {
        if self.0.send(turn).is_err() {
            tracing::debug!("the sender of a request did not wait for its reply");
        }
    }
}

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
