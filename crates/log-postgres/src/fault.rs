//! Errors of PostgreSQL as faults: their kind, and whether the statement certainly changed nothing.

use std::error::Error as _;

use recount_log::{Fault, FaultKind, Retry};
use tokio_postgres::error::{Severity, SqlState};

/// Why a query has no result.
#[derive(Debug)]
pub(crate) enum QueryError {
    /// The server refused the statement; it changed nothing, and the connection can be used further.
    Refused(Fault),
    /// The connection is lost, or no result came in time: a statement that changes something may have been committed.
    Lost(Fault),
}

impl QueryError {
    pub(crate) fn into_fault(self) -> Fault {
        match self {
            QueryError::Refused(fault) | QueryError::Lost(fault) => fault,
        }
    }

    /// `context` names the failed operation.
    pub(crate) fn of(context: &str, error: &tokio_postgres::Error) -> Self {
        let Some(refusal) = error.as_db_error() else {
            let mut message = format!("{context}: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                message.push_str(&format!(": {cause}"));
                source = cause.source();
            }
            return QueryError::Lost(Fault::new(FaultKind::Io, Retry::Maybe, message));
        };
        let code = refusal.code();
        let (kind, retry, advice) = match code {
            code if *code == SqlState::DISK_FULL => {
                (FaultKind::Full, Retry::Maybe, "; free some space on the disk of the database")
            }
            code if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
                (FaultKind::Corrupt, Retry::Never, "; restore the database from a backup")
            }
            code if [
                SqlState::UNDEFINED_TABLE,
                SqlState::UNDEFINED_COLUMN,
                SqlState::INVALID_SCHEMA_NAME,
            ]
            .contains(code) =>
            {
                (FaultKind::Corrupt, Retry::Never, "; tables of the store are missing or were altered")
            }
            code if *code == SqlState::UNIQUE_VIOLATION => {
                (FaultKind::Corrupt, Retry::Never, "; another program wrote to the tables of the store")
            }
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                (FaultKind::Io, Retry::Never, "; grant the user of the URL the right to do this")
            }
            code if *code == SqlState::INVALID_PASSWORD
                || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
            {
                (FaultKind::Io, Retry::Never, "; check user and password of the URL")
            }
            code if *code == SqlState::INVALID_CATALOG_NAME => {
                (FaultKind::Io, Retry::Never, "; create the database first, for example with createdb")
            }
            code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
                (FaultKind::Io, Retry::Maybe, "; this server is a standby: name the primary in the URL")
            }
            _ => (FaultKind::Io, Retry::Maybe, ""),
        };
        let message = format!("{context}: {} (SQLSTATE {}){advice}", refusal.message(), code.code());
        let fault = Fault::new(kind, retry, message);
        // A fatal error ends the connection, possibly after a commit.
        match refusal.parsed_severity() {
            // The connection is to a server that is no primary any more.
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => QueryError::Lost(fault),
            Some(Severity::Error) => QueryError::Refused(fault),
            _ => QueryError::Lost(fault),
        }
    }

    pub(crate) fn timed_out(context: &str, wait: std::time::Duration) -> Self {
        let message = format!("{context}: no response from the database within {} s", wait.as_secs());
        QueryError::Lost(Fault::new(FaultKind::Io, Retry::Maybe, message))
    }
}

pub(crate) fn corrupt(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Corrupt, Retry::Never, message)
}

pub(crate) fn closed() -> Fault {
    Fault::new(FaultKind::Closed, Retry::Never, "the store was closed")
}

pub(crate) fn stopped() -> Fault {
    Fault::new(FaultKind::Closed, Retry::Never, "the store's writer has stopped; restart the server")
}

pub(crate) fn busy(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Busy, Retry::Maybe, message)
}

pub(crate) fn fenced(name: &str) -> Fault {
    let message = format!("the lease of store {name:?} was lost: another node may own it now");
    Fault::new(FaultKind::Fenced, Retry::Maybe, message)
}
