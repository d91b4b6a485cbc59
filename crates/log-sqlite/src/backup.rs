//! Backs up the whole store while it works: first a snapshot of the database, then the blobs.
//!
//! The database comes first: a blob is stored before the row that names it, so every blob that the copy names is
//! copied. The copy is a data folder like any other, with a marker that shows whether it is whole (`marker.rs`).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use recount_log::{Fault, FaultKind, Retry};
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::blobs::Blobs;
use crate::fault::{FaultContext as _, closed};
use crate::folder::{self, create_folder, sync_folder};
use crate::limits::BACKUP_STEP_PAGES;
use crate::marker::{self, Contents};

/// Copies to a folder that must not exist yet. A failed backup is removed.
pub(crate) fn backup(
    connection: &Connection,
    blobs: &Blobs,
    to: &Path,
    stop: &AtomicBool,
) -> Result<(), Fault> {
    if to.symlink_metadata().is_ok() {
        let message = format!("{} already exists; choose a new folder for the backup", to.display());
        return Err(Fault::new(FaultKind::Io, Retry::Never, message));
    }
    create_folder(to)?;
    let copied = marker::begin(to)
        .and_then(|()| copy(connection, blobs, to, stop))
        .and_then(|contents| marker::finish(to, contents));
    if copied.is_err()
        && let Err(error) = std::fs::remove_dir_all(to)
    {
        tracing::warn!(%error, folder = %to.display(), "cannot remove an unfinished backup");
    }
    copied
}

fn copy(connection: &Connection, blobs: &Blobs, to: &Path, stop: &AtomicBool) -> Result<Contents, Fault> {
    let context = format!("copying the database to {}", to.display());
    let database = folder::database_in(to);
    folder::create_database_at(&database)?;
    {
        // One snapshot for all steps: without it each commit would restart the copy.
        let snapshot = connection.unchecked_transaction().context(&context)?;
        // SQLite takes the snapshot at the first read.
        snapshot
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
            .context(&context)?;
        let mut copy = Connection::open(&database).context(&context)?;
        let steps = Backup::new(&snapshot, &mut copy).context(&context)?;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(closed());
            }
            match steps.step(BACKUP_STEP_PAGES).context(&context)? {
                StepResult::Done => break,
                StepResult::More => {}
                _ => {
                    let message = format!("{context}: another program has locked it");
                    return Err(Fault::new(FaultKind::Busy, Retry::Maybe, message));
                }
            }
        }
    }
    let synced = recount_world::platform::open_to_sync(&database)
        .and_then(|file| file.sync_all().and_then(|()| file.metadata()));
    let database_bytes = synced.context(&context)?.len();
    let blobs = blobs.copy_to(&Blobs::at(folder::blobs_in(to)), &|| stop.load(Ordering::Relaxed))?;
    if stop.load(Ordering::Relaxed) {
        return Err(closed());
    }
    sync_folder(to)?;
    Ok(Contents { database_bytes, blobs })
}
