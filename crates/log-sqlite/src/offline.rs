//! Checks and copies a data folder that no server holds, without changing it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use recount_log::{Fault, FaultKind, Integrity, Retry};
use rusqlite::Connection;

use crate::blobs::Blobs;
use crate::connection::{DatabaseFile, Role, check_version};
use crate::fault::{FaultContext as _, corrupt};
use crate::folder::{self, Folder};
use crate::high_water::{self, ReadMark};
use crate::loss::{self, Evidence, Verdict};
use crate::options::{Durability, SqliteOptions};
use crate::schema::{self, Refusal};
use crate::{backup, examine, layout, limits, marker};

/// The result of a quick check of a data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderCheck {
    pub schema: i64,
    pub database_bytes: u64,
    /// Whether every page of the database was checked; of a large one only some pages are.
    pub pages_checked: bool,
}

/// The newest schema; an older database is migrated when a server opens it.
pub const SCHEMA: i64 = schema::VERSION;

impl Durability {
    /// The schema that this release writes, with either durability.
    pub const SCHEMA: i64 = SCHEMA;
}

/// Checks quickly whether the database is sound and of this program. Returns a fault if not.
pub fn glance(data_dir: &Path) -> Result<FolderCheck, Fault> {
    let (folder, connection, schema) = open_whole(data_dir)?;
    let database_bytes = std::fs::metadata(folder.database()).map_or(0, |database| database.len());
    let pages_checked = database_bytes <= limits::OPEN_CHECK_BYTES_MAX;
    if pages_checked {
        examine::check_pages(&connection)?;
    }
    Ok(FolderCheck { schema, database_bytes, pages_checked })
}

/// Opens a database of this program with a complete end that is no unfinished backup. Also returns its schema.
fn open_whole(data_dir: &Path) -> Result<(Folder, Connection, i64), Fault> {
    let (folder, place) = take(data_dir)?;
    let evidence = Evidence::gather(&folder, place.durability)?;
    let connection = place.open(Role::Salvager)?;
    let schema = schema::identify(&connection, &place.name()).map_err(of_refusal)?;
    check_end(&evidence, &connection)?;
    marker::check(data_dir)?;
    Ok((folder, connection, schema))
}

/// Reads a whole data folder, damaged or not.
///
/// Where [`crate::SqliteStore::open`] refuses a damaged store, this reports the damage and the readable content.
pub fn inspect(data_dir: &Path) -> Result<Integrity, Fault> {
    let (folder, place) = take(data_dir)?;
    let evidence = Evidence::gather(&folder, place.durability)?;
    let connection = place.open(Role::Salvager)?;
    let verdict = evidence.judge(&connection);
    let blobs = Blobs::at(folder.blobs());
    let mut found = examine::examine(connection, Some(&blobs), &std::sync::Arc::default())?;
    let end = match verdict {
        Verdict::Whole => None,
        Verdict::Torn(damage) => {
            found.notes.push(loss::torn(&damage));
            None
        }
        Verdict::Lost(loss) => Some(loss.words),
    };
    let part = marker::check(data_dir).err().map(|fault| fault.message);
    found.problems.splice(0..0, end.into_iter().chain(part));
    Ok(found)
}

/// Copies a store of any released schema to a new folder, and reads the copy. A damaged store
/// is not copied.
pub fn copy(data_dir: &Path, to: &Path) -> Result<(), Fault> {
    let (folder, connection, schema) = open_whole(data_dir)?;
    folder.check_blobs(layout::last_position(&connection).unwrap_or(0))?;
    backup::backup(&connection, &Blobs::at(folder.blobs()), to, &AtomicBool::new(false))?;
    let sound = check_copy(to, schema);
    if sound.is_err()
        && let Err(error) = std::fs::remove_dir_all(to)
    {
        tracing::warn!(%error, folder = %to.display(), "cannot remove the copy of a damaged store");
    }
    sound
}

/// Refuses a damaged copy: then its original is damaged too.
fn check_copy(copy: &Path, schema: i64) -> Result<(), Fault> {
    let place = place_in(copy);
    let connection = place.open(Role::Salvager)?;
    if schema < SCHEMA {
        // Its records can be read after migration.
        return examine::check_pages(&connection);
    }
    let found =
        examine::examine(connection, Some(&Blobs::at(folder::blobs_in(copy))), &std::sync::Arc::default())?;
    let Some(first) = found.problems.first() else { return Ok(()) };
    let more = match found.problems.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more problems)"),
    };
    Err(corrupt(format!(
        "the store is damaged, so no backup was created: {first}{more}; check it with `recount verify \
         --data`, save the readable events with `recount salvage`"
    )))
}

/// The position of the high-water mark of a data folder; `None` without a readable mark.
pub fn high_water(data_dir: &Path) -> Result<Option<u64>, Fault> {
    Ok(match high_water::read(&folder::high_water_in(data_dir))? {
        ReadMark::Mark(mark) => Some(mark.position),
        ReadMark::Missing | ReadMark::Unreadable => None,
    })
}

/// Whether a data folder has a high-water mark that cannot be used: then a missing end of the store cannot be detected.
pub fn is_high_water_damaged(data_dir: &Path) -> Result<bool, Fault> {
    Ok(high_water::read(&folder::high_water_in(data_dir))? == ReadMark::Unreadable)
}

/// Damaged write-ahead logs that were copied aside in a data folder.
pub fn kept_logs(data_dir: &Path) -> Result<Vec<PathBuf>, Fault> {
    loss::kept_logs(data_dir).context(&format!("listing {}", data_dir.display()))
}

/// Refuses a store whose acknowledged end is missing, as opening it would.
fn check_end(evidence: &Evidence, connection: &Connection) -> Result<(), Fault> {
    match evidence.judge(connection) {
        Verdict::Lost(loss) => Err(corrupt(loss.words)),
        Verdict::Whole | Verdict::Torn(_) => Ok(()),
    }
}

fn take(data_dir: &Path) -> Result<(Folder, DatabaseFile), Fault> {
    check_version()?;
    if !data_dir.is_dir() {
        let message = format!("the data folder {} does not exist; check the path", data_dir.display());
        return Err(Fault::new(FaultKind::Io, Retry::Never, message));
    }
    let folder = Folder::take(data_dir)?;
    Ok((folder, place_in(data_dir)))
}

fn place_in(data_dir: &Path) -> DatabaseFile {
    let options = SqliteOptions::new(data_dir);
    DatabaseFile { database: folder::database_in(data_dir), durability: options.durability, vfs: options.vfs }
}

fn of_refusal(refusal: Refusal) -> Fault {
    match refusal {
        Refusal::Damaged(fault) | Refusal::NotOurs(fault) | Refusal::Failed(fault) => fault,
    }
}
