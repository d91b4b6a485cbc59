//! What the engine answers when it does not do as asked.

use std::time::Duration;

use recount_event::{Code, RunId};
use recount_log::{AppendError, Damage, Fault, FaultKind, Retry};
use recount_run::Rejection;

use crate::limits;

/// The rules said no, or the world failed. Never mixed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// The world failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub code: Code,
    pub message: String,
    pub retry_after: Option<Duration>,
    /// Which stored events are damaged, where that is what failed.
    pub damage: Option<Box<Damage>>,
}

impl Error {
    /// Which stored events are damaged, where that is what failed.
    pub fn damage(&self) -> Option<&Damage> {
        match self {
            Error::Failed(failure) => failure.damage.as_deref(),
            Error::Rejected(_) => None,
        }
    }

    /// Whether stored bytes that are damaged are what failed.
    pub fn is_damage(&self) -> bool {
        matches!(self.code(), Code::RunDamaged | Code::StoreCorrupt)
    }

    pub fn code(&self) -> Code {
        match self {
            Error::Rejected(rejection) => rejection.code,
            Error::Failed(failure) => failure.code,
        }
    }

    /// A rejection that concerns no single event.
    pub(crate) fn rejected(code: Code, message: impl Into<String>) -> Self {
        Error::Rejected(Rejection { code, message: message.into(), index: None, type_name: None, rule: None })
    }

    /// Our own belief was false.
    pub(crate) fn bug(message: impl Into<String>) -> Self {
        Error::Failed(Failure {
            code: Code::Internal,
            message: message.into(),
            retry_after: None,
            damage: None,
        })
    }

    /// Others change the same thing all the time.
    pub(crate) fn too_many_at_once(what: &str) -> Self {
        Error::Failed(Failure {
            code: Code::StoreBusy,
            message: format!("other requests change {what} at the same time; try again"),
            retry_after: Some(limits::TRY_AGAIN),
            damage: None,
        })
    }

    pub(crate) fn shutting_down() -> Self {
        Error::Failed(Failure {
            code: Code::ShuttingDown,
            message: "the server is shutting down and accepts no new requests".into(),
            retry_after: Some(limits::TRY_AGAIN),
            damage: None,
        })
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let code = match fault.kind {
            FaultKind::Busy => Code::StoreBusy,
            FaultKind::Closed => Code::ShuttingDown,
            FaultKind::Corrupt if names_run(&fault) => Code::RunDamaged,
            FaultKind::Corrupt => Code::StoreCorrupt,
            FaultKind::Full => Code::StoreFull,
            FaultKind::Io | FaultKind::Locked | FaultKind::Newer => Code::StoreUnavailable,
            FaultKind::TooLarge => Code::LimitReached,
        };
        let retry_after = match fault.retry {
            Retry::After(wait) => Some(wait),
            Retry::Maybe => Some(limits::TRY_AGAIN),
            Retry::Never => None,
        };
        Error::Failed(Failure { code, message: fault.message, retry_after, damage: fault.damage })
    }
}

/// Whether it is known whose events are damaged.
fn names_run(fault: &Fault) -> bool {
    fault.damage.as_ref().is_some_and(|damage| damage.stream.is_some())
}

impl From<AppendError> for Error {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Fault(fault) => fault.into(),
            AppendError::Erased { stream } => run_erased(&stream),
            // One process owns the store and one writer owns a run, so nobody else can have moved it.
            moved_or_guarded => Error::bug(moved_or_guarded.to_string()),
        }
    }
}

/// Nothing but a tombstone is left of the run.
pub(crate) fn run_erased(run: impl std::fmt::Display) -> Error {
    Error::rejected(Code::RunErased, format!("{run} was erased; its id is never used again"))
}

/// The task was deleted, or is about to be.
pub(crate) fn task_erased(task: impl std::fmt::Display) -> Error {
    Error::rejected(Code::TaskErased, format!("task {task} was deleted; its id is never used again"))
}

/// The session was deleted, or is about to be.
pub(crate) fn session_erased(session: impl std::fmt::Display) -> Error {
    let message = format!("session {session} was deleted; its id is never used again");
    Error::rejected(Code::SessionErased, message)
}

pub(crate) fn run_not_found(run: RunId) -> Error {
    Error::rejected(Code::RunNotFound, format!("run {run} not found"))
}

/// Why a run cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unacceptable {
    pub code: Code,
    pub message: String,
}

impl From<Unacceptable> for Error {
    fn from(no: Unacceptable) -> Self {
        Error::rejected(no.code, no.message)
    }
}

/// A stored row that does not say what its writer wrote. It is never the client's mistake.
pub(crate) fn damaged_row(space: &str, key: &str, why: impl std::fmt::Display) -> Error {
    Error::Failed(Failure {
        code: Code::StoreCorrupt,
        message: format!("the row {space}/{key} cannot be read: {why}; run `recount verify --all`"),
        retry_after: None,
        damage: None,
    })
}
