//! Errors of the engine: rejections by the rules, and failures of the store.

use std::ops::RangeInclusive;
use std::time::Duration;

use recount_event::{Code, RunId};
use recount_log::{AppendError, Damage, Fault, FaultKind, MaybeDamage, Retry};
use recount_run::Rejection;

use crate::limits;

/// A rejection or a failure.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A failure of the store or of the engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub code: Code,
    pub message: String,
    pub retry_after: Option<Duration>,
    /// The damaged events, if damage is the cause.
    pub damage: Option<Box<Damage>>,
}

impl Failure {
    /// A failure that a retry does not change.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), retry_after: None, damage: None }
    }

    /// A failure for now: other requests are in the way.
    pub(crate) fn for_now(code: Code, message: impl Into<String>, retry_after: Duration) -> Self {
        Failure { retry_after: Some(retry_after), ..Failure::new(code, message) }
    }
}

impl Error {
    /// The damaged events, if damage is the cause.
    pub fn damage(&self) -> Option<&Damage> {
        match self {
            Error::Failed(failure) => failure.damage.as_deref(),
            Error::Rejected(_) => None,
        }
    }

    /// Whether damaged bytes are the cause.
    pub fn is_damage(&self) -> bool {
        matches!(self.code(), Code::RunDamaged | Code::StoreCorrupt)
    }

    /// The damage and its range in the order of a reader, who continues after it; else the error.
    pub(crate) fn into_skipped(
        self,
        range: fn(&Damage) -> Option<RangeInclusive<u64>>,
    ) -> Result<(Damage, RangeInclusive<u64>), Error> {
        let skipped = self.damage().and_then(|damage| Some((damage.clone(), range(damage)?)));
        skipped.ok_or(self)
    }

    pub fn code(&self) -> Code {
        match self {
            Error::Rejected(rejection) => rejection.code,
            Error::Failed(failure) => failure.code,
        }
    }

    /// A rejection without an event index.
    pub(crate) fn rejected(code: Code, message: impl Into<String>) -> Self {
        Error::Rejected(Rejection { code, message: message.into(), index: None, type_name: None, rule: None })
    }

    /// An internal error: an assumption of the engine does not hold.
    pub(crate) fn bug(message: impl Into<String>) -> Self {
        Failure::new(Code::Internal, message).into()
    }

    /// Other requests change the same item at the same time.
    pub(crate) fn too_many_at_once(what: &str) -> Self {
        let message = format!("other requests change {what} at the same time; try again");
        Failure::for_now(Code::StoreBusy, message, limits::TRY_AGAIN).into()
    }

    pub(crate) fn shutting_down() -> Self {
        let message = "the server is shutting down and accepts no new requests";
        Failure::for_now(Code::ShuttingDown, message, limits::TRY_AGAIN).into()
    }
}

impl MaybeDamage for Error {
    fn is_damage(&self) -> bool {
        Error::is_damage(self)
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
            FaultKind::Io
            | FaultKind::Locked
            | FaultKind::Newer
            | FaultKind::Fenced
            | FaultKind::Unsupported => Code::StoreUnavailable,
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

/// Whether the damage names a run.
fn names_run(fault: &Fault) -> bool {
    fault.damage.as_ref().is_some_and(|damage| damage.stream.is_some())
}

impl From<AppendError> for Error {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Fault(fault) => fault.into(),
            AppendError::Erased { stream } => run_erased(&stream),
            // One process owns the store and one writer owns a run, so no other append can have moved the tail.
            moved_or_guarded => Error::bug(moved_or_guarded.to_string()),
        }
    }
}

/// The run was erased; only a tombstone remains.
pub(crate) fn run_erased(run: impl std::fmt::Display) -> Error {
    Error::rejected(Code::RunErased, format!("{run} was erased; its id is never used again"))
}

/// The task was deleted or is being deleted.
pub(crate) fn task_erased(task: impl std::fmt::Display) -> Error {
    Error::rejected(Code::TaskErased, format!("task {task} was deleted; its id is never used again"))
}

/// The session was deleted or is being deleted.
pub(crate) fn session_erased(session: impl std::fmt::Display) -> Error {
    let message = format!("session {session} was deleted; its id is never used again");
    Error::rejected(Code::SessionErased, message)
}

pub(crate) fn run_not_found(run: RunId) -> Error {
    Error::rejected(Code::RunNotFound, format!("run {run} not found"))
}

/// Why a run is refused.
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

/// An unreadable row: a fault of the store, never of the client.
pub(crate) fn damaged_row(space: &str, key: &str, why: impl std::fmt::Display) -> Error {
    let message = format!("the row {space}/{key} cannot be read: {why}; run `recount verify --all`");
    Failure::new(Code::StoreCorrupt, message).into()
}

/// Whether a failed append may have been committed.
pub(crate) fn may_have_happened(error: &AppendError) -> bool {
    match error {
        AppendError::GuardFailed { .. } | AppendError::Erased { .. } => false,
        AppendError::TailMoved { .. } => true,
        // Refused before any write.
        AppendError::Fault(fault) => !matches!(
            fault.kind,
            FaultKind::Busy | FaultKind::Closed | FaultKind::Fenced | FaultKind::TooLarge
        ),
    }
}
