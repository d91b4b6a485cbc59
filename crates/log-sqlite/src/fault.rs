//! Errors of SQLite and the file system as faults: their kind, and whether a retry may help.

use std::io;

use recount_log::{Damage, Fault, FaultKind, Retry};
use rusqlite::ErrorCode;

/// Names what was being done when SQLite failed.
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
            // The memory that connections share is a file, too, and is made when the first one opens.
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
        // A column that does not hold what we put there.
        // Our statements fit our tables: where one does not, the schema is not the one we wrote.
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

/// Names what was being done when the file system failed.
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

/// A row that was read and does not fit its checksum. It travels as SQLite's own failures do, to where it is known
/// what was being done; [`of_sqlite`] knows it again.
pub(crate) fn altered(what: &str) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(format!("{what} does not match its checksum").into())
}

/// Adds to a fault of damage the records it concerns, unless it has them already.
pub(crate) fn about(fault: Fault, damage: impl FnOnce() -> Damage) -> Fault {
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

/// Turns SQLite's results into ours, with the words for what was being done.
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
