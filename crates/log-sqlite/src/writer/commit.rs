//! The end of a transaction: finds out the outcome of a failed commit, and rolls back.
//!
//! It must not know the written content. Entry point: [`settle`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use recount_log::{Fault, Retry};
use rusqlite::{Connection, ErrorCode};

use crate::fault::FaultContext as _;
use crate::group::CommitProof;
use crate::layout;

/// Finds out the outcome of a failed commit. `Ok`: it was committed after all, and is durable. `Err`: it was not; the
/// message shows a remaining uncertainty.
///
/// SQLite undoes a failed commit for every reader, but its pages may be in the file, complete though not counted; after
/// a power cut the next start could find them. A further commit overwrites them, and its sync is the proof.
pub(super) fn settle(
    connection: &Connection,
    error: &rusqlite::Error,
    proof: &CommitProof,
) -> Result<(), Fault> {
    let mut fault = crate::fault::of_sqlite("committing", error);
    let sound = rolled_back(connection);
    let landed = sound && proof.holds(connection).unwrap_or(false);
    let buried = sound && overwrite_failed_commit(connection).is_ok();
    if landed && buried {
        tracing::warn!(%error, "a commit was reported as failed but is durable");
        return Ok(());
    }
    // A write that failed means that the end of the commit was never in the file.
    let unwritten = matches!(error, rusqlite::Error::SqliteFailure(failure, _)
        if failure.code == ErrorCode::DiskFull || failure.extended_code == rusqlite::ffi::SQLITE_IOERR_WRITE);
    if !buried && !unwritten {
        fault.message +=
            "; if the machine stops before the next append succeeds, this append may still take effect";
        fault.retry = Retry::Maybe;
    }
    Err(fault)
}

fn overwrite_failed_commit(connection: &Connection) -> rusqlite::Result<()> {
    execute(connection, "BEGIN IMMEDIATE")?;
    layout::raise_fence(connection)?;
    execute(connection, "COMMIT")
}

/// Rolls back an open transaction. `false`: the connection must not be used again.
pub(super) fn rolled_back(connection: &Connection) -> bool {
    if !connection.is_autocommit()
        && let Err(error) = execute(connection, "ROLLBACK")
    {
        tracing::warn!(%error, "a rollback failed");
    }
    connection.is_autocommit()
}

pub(super) fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// Makes SQLite report, after each commit, how many pages the write-ahead log holds.
pub(super) fn watch_wal(connection: &mut Connection, pages: &Arc<AtomicU32>) -> Result<(), Fault> {
    let pages = pages.clone();
    let note = move |_: &mut rusqlite::hooks::Wal, count| {
        pages.store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    };
    connection.wal_hook(Some(note)).context("watching the write-ahead log")
}
