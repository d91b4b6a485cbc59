//! What the writer of a run can be asked, each with the type of its reply. It must not know who asks, nor how a request is
//! served. Look at [`Job`].

use recount_event::{Draft, Event};
use recount_run::Command;
use tokio::sync::oneshot;

use crate::write::removal::PruneRows;
use crate::write::with_rows::{CommandWithRows, SideOutcome};
use crate::{Error, Pruned, Receipt, Triple};

/// One kind of work for a writer.
pub(crate) trait Job: Send + Sized + 'static {
    type Reply: Send + 'static;

    fn request(self, to: ReplyTo<Self>) -> Request;
}

/// How a request came back.
pub(crate) enum Turn<J: Job> {
    Done(Result<J::Reply, Error>),
    /// The writer had just gone to sleep; wake another with this.
    Asleep(J),
}

/// Where the reply to one request goes.
pub(crate) struct ReplyTo<J: Job>(oneshot::Sender<Turn<J>>);

/// A command: a request to change the run. `None`: there was nothing to write.
pub(crate) struct Submit(pub(crate) Command);

/// A batch from the producer of an external run.
pub(crate) struct Ingest {
    pub(crate) triple: Triple,
    pub(crate) drafts: Vec<Draft>,
}

/// What a worker did; refused when another one has the run by now. The reply is what was written.
pub(crate) struct Report {
    pub(crate) claim: Option<u64>,
    pub(crate) drafts: Vec<Draft>,
}

/// The time has come for which the run was armed.
pub(crate) struct Tick {
    pub(crate) at_ms: u64,
}

/// A command, with what else is to be written in the same append.
pub(crate) struct SubmitWithRows {
    pub(crate) command: Command,
    pub(crate) with: Box<CommandWithRows>,
}

/// Takes the events before a place away, at most those before the ending.
pub(crate) struct Prune {
    pub(crate) before: Option<u64>,
    pub(crate) reason: String,
    pub(crate) rows: Option<PruneRows>,
}

/// Takes all of an ended run away but for a tombstone.
pub(crate) struct Erase {
    pub(crate) by: String,
}

macro_rules! jobs {
    ($($job:ident => $reply:ty,)*) => {
        /// A job on its way, and where its reply goes.
        pub(crate) enum Request {
            $($job($job, ReplyTo<$job>),)*
        }

        impl Request {
            /// Gives the job back to the caller, because this writer does not serve it.
            pub(crate) fn give_back(self) {
                match self {
                    $(Request::$job(job, to) => to.send(Turn::Asleep(job)),)*
                }
            }

            pub(crate) fn refuse(self, error: Error) {
                match self {
                    $(Request::$job(_, to) => to.answer(Err(error)),)*
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

jobs! {
    Submit => Option<Receipt>,
    Ingest => Receipt,
    Report => Vec<Event>,
    Tick => (),
    SubmitWithRows => SideOutcome,
    Prune => Pruned,
    Erase => (),
}

impl Request {
    /// Whether it is no part of an append with others: what takes away, and what may be refused for what it brings.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self, Request::SubmitWithRows(..) | Request::Prune(..) | Request::Erase(..))
    }
}

impl<J: Job> ReplyTo<J> {
    pub(super) fn new() -> (Self, oneshot::Receiver<Turn<J>>) {
        let (to, turn) = oneshot::channel();
        (ReplyTo(to), turn)
    }

    pub(super) fn answer(self, answer: Result<J::Reply, Error>) {
        self.send(Turn::Done(answer));
    }

    fn send(self, turn: Turn<J>) {
        if self.0.send(turn).is_err() {
            tracing::debug!("the sender of a request did not wait for its reply");
        }
    }
}
