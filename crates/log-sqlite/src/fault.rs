//! Errors of SQLite and the file system as faults: their kind, and whether a retry may help.

use std::io;

use recount_log::{Damage, Fault, FaultKind, Retry};
use rusqlite::ErrorCode;

/// Turns an SQLite error into a fault. `context` names the failed operation.
pub(crate) fn of_sqlite(context: &str, error: &rusqlite::Error) -> Fault {
    let (kind, retry, advice) = match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DiskFull => (FaultKind::Full, Retry::Maybe, "; free some space on the disk"),
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                (FaultKind::Corrupt, Retry::Never, "; check the store with `recount verify --data`")
            }
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                (FaultKind::Busy, Retry::Maybe, "; another program holds the database")
            }
            // The shared memory is also a file, created when the first connection opens.
            _ if failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE => {
                (FaultKind::Full, Retry::Maybe, "; free some space on the disk")
            }
            ErrorCode::TooBig => (FaultKind::TooLarge, Retry::Never, ""),
            ErrorCode::ConstraintViolation => (
                FaultKind::Corrupt,
                Retry::Never,
                "; its tables are inconsistent; check the store with `recount verify --data`",
            ),
            _ => (FaultKind::Io, Retry::Maybe, ""),
        },
        // A column holds another type than was written.
        // A statement that does not fit its table shows that the schema was altered.
        rusqlite::Error::SqlInputError { .. }
        | rusqlite::Error::ToSqlConversionFailure(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => {
            (FaultKind::Corrupt, Retry::Never, "; check the store with `recount verify --data`")
        }
        _ => (FaultKind::Io, Retry::Maybe, ""),
    };
    Fault::new(kind, retry, format!("{context}: {error}{advice}"))
}

/// Turns an I/O error into a fault. `context` names the failed operation.
pub(crate) fn of_io(context: &str, error: &io::Error) -> Fault {
    let (kind, advice) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (FaultKind::Full, "; free some space on the disk")
        }
        _ => (FaultKind::Io, ""),
    };
    Fault::new(kind, Retry::Maybe, format!("{context}: {error}{advice}"))
}

pub(crate) fn corrupt(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Corrupt, Retry::Never, message)
}

pub(crate) fn no_space(what: &str) -> Fault {
    Fault::new(FaultKind::Full, Retry::Maybe, format!("{what}; free some space on the disk, or prune"))
}

/// The error for a row that does not fit its checksum. It has the type of SQLite's errors; [`of_sqlite`] recognizes it.
pub(crate) fn altered(what: &str) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(format!("{what} does not match its checksum").into())
}

/// Adds the affected records to a fault of damage, unless it has them already.
pub(crate) fn with_damage(fault: Fault, damage: impl FnOnce() -> Damage) -> Fault {
    if fault.kind != FaultKind::Corrupt || fault.damage.is_some() {
        return fault;
    }
    let damage = damage();
    let message = format!("{damage}: {}", fault.message);
    Fault { message, damage: Some(Box::new(damage)), ..fault }
}

pub(crate) fn closed() -> Fault {
    Fault::new(FaultKind::Closed, Retry::Never, "the store was closed")
}

pub(crate) fn stopped() -> Fault {
    Fault::new(FaultKind::Closed, Retry::Never, "the store's writer has stopped; restart the server")
}

/// Adds the failed operation to errors of SQLite and the file system.
pub(crate) trait FaultContext<T> {
    fn context(self, what: &str) -> Result<T, Fault>;
}

impl<T> FaultContext<T> for Result<T, rusqlite::Error> {
    fn context(self, what: &str) -> Result<T, Fault> {
        self.map_err(|error| of_sqlite(what, &error))
    }
}

impl<T> FaultContext<T> for io::Result<T> {
    fn context(self, what: &str) -> Result<T, Fault> {
        self.map_err(|error| of_io(what, &error))
    }
}
