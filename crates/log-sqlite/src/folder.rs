//! The data folder and its lock, which one process at a time can hold.
//!
//! The lock is the operating system's, on an open file: it ends with the process, however that ends.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use recount_log::{Fault, FaultKind, Retry};
use recount_world::platform;

use crate::fault::{FaultContext as _, corrupt};

const LOCK: &str = "lock";
const DATABASE: &str = "recount.db";
const BLOBS: &str = "blobs";
const RESERVE: &str = "reserve";
const HIGH_WATER: &str = "high-water";

/// A locked data folder; dropping it unlocks the folder.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    lock: File,
}

/// Releases the lock explicitly. Closing the file is not enough: a child process has a copy of
/// it until its program starts, and would hold the folder as long.
impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(
                folder = %self.path.display(),
                %error,
                "cannot release the lock of the data folder"
            );
        }
    }
}

impl Folder {
    /// Creates the folder if it is missing, and locks it.
    pub(crate) fn take(path: &Path) -> Result<Self, Fault> {
        create_folder(path)?;
        check_kinds(path)?;
        let lock_path = path.join(LOCK);
        let mut lock = platform::private_file(OpenOptions::new().read(true).write(true).create(true))
            .open(&lock_path)
            .context(&format!("opening {}", lock_path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(path, &mut lock)),
            Err(TryLockError::Error(error)) => {
                return Err(error).context(&format!("locking {}", lock_path.display()));
            }
        }
        // The content is only for people; the lock itself decides.
        let note = format!("{}\n", std::process::id());
        if let Err(error) = lock.set_len(0).and_then(|()| lock.write_all(note.as_bytes())) {
            tracing::debug!(%error, "cannot write the process id to the lock file");
        }
        Ok(Folder { path: path.to_owned(), lock })
    }

    pub(crate) fn database(&self) -> PathBuf {
        database_in(&self.path)
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        blobs_in(&self.path)
    }

    /// The file that reserves space for deletions.
    pub(crate) fn reserve(&self) -> PathBuf {
        self.path.join(RESERVE)
    }

    /// The file with the last acknowledged position.
    pub(crate) fn high_water(&self) -> PathBuf {
        high_water_in(&self.path)
    }

    /// Creates an empty database file, readable by its owner only, unless it exists.
    ///
    /// The blob folder is created last, so its existence shows that a whole store existed: then a missing or empty
    /// database is damage, and not a new store.
    pub(crate) fn create_database(&self) -> Result<(), Fault> {
        let path = self.database();
        let empty = std::fs::metadata(&path).map_or(true, |database| database.len() == 0);
        if empty && (self.blobs().is_dir() || self.high_water().exists()) {
            return Err(corrupt(format!(
                "{} is missing or empty, but the folder contains other files of a store; restore the file \
                 from a copy",
                path.display()
            )));
        }
        create_database_at(&path)
    }

    /// Refuses a folder that is not a whole store: half a backup, or one whose blobs are missing. The folder of blobs
    /// is created before the first append.
    pub(crate) fn check_blobs(&self, last_position: u64) -> Result<(), Fault> {
        if last_position == 0 || self.blobs().is_dir() {
            return Ok(());
        }
        Err(corrupt(format!(
            "{} is missing, so {} is not a complete store; restore a complete copy of the data folder",
            self.blobs().display(),
            self.path.display()
        )))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the names in the folder durable.
    pub(crate) fn sync(&self) -> Result<(), Fault> {
        sync_folder(&self.path)
    }
}

/// Refuses a pipe or a device with the name of a file: opening or reading it might never end.
fn check_kinds(folder: &Path) -> Result<(), Fault> {
    let logs = ["-wal", "-shm"].map(|end| format!("{DATABASE}{end}"));
    for name in [LOCK, DATABASE, &logs[0], &logs[1], HIGH_WATER, RESERVE] {
        let path = folder.join(name);
        if std::fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            let message = format!(
                "{} is not a regular file; remove it, or restore the file from a copy",
                path.display()
            );
            return Err(corrupt(message));
        }
    }
    Ok(())
}

/// The database of a data folder.
pub fn database_in(folder: &Path) -> PathBuf {
    folder.join(DATABASE)
}

pub(crate) fn high_water_in(folder: &Path) -> PathBuf {
    folder.join(HIGH_WATER)
}

pub(crate) fn blobs_in(folder: &Path) -> PathBuf {
    folder.join(BLOBS)
}

/// Locks the folder without changing it, so that no server holds it. A folder without a lock file needs no lock.
pub fn hold(data_dir: &Path) -> Result<Option<File>, Fault> {
    let Ok(lock) = File::open(data_dir.join(LOCK)) else { return Ok(None) };
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let message =
                format!("the data folder {} is in use by a server; stop that server", data_dir.display());
            Err(Fault::new(FaultKind::Locked, Retry::Maybe, message))
        }
        // The file system has no locks, or the folder is read-only.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(lock)),
    }
}

/// Creates an empty database file, readable by its owner only, unless it exists.
pub(crate) fn create_database_at(path: &Path) -> Result<(), Fault> {
    match platform::private_file(OpenOptions::new().write(true).create_new(true)).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).context(&format!("making {}", path.display())),
    }
}

fn held(path: &Path, lock: &mut File) -> Fault {
    let mut holder = String::new();
    let holder = match lock.read_to_string(&mut holder) {
        Ok(_) if !holder.trim().is_empty() => format!("process {}", holder.trim()),
        _ => "another process".to_owned(),
    };
    let message = format!(
        "the data folder {} is in use by {holder}; stop that process or choose another folder",
        path.display()
    );
    Fault::new(FaultKind::Locked, Retry::Maybe, message)
}

/// Creates a folder and its parents, private to their owner; an existing one is not changed.
pub(crate) fn create_folder(path: &Path) -> Result<(), Fault> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    platform::private_folder(&mut builder);
    let fresh: Vec<&Path> =
        path.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists()).collect();
    builder.create(path).context(&format!("creating the folder {}", path.display()))?;
    for above in fresh.into_iter().filter_map(Path::parent).filter(|above| !above.as_os_str().is_empty()) {
        sync_folder(above)?;
    }
    Ok(())
}

/// Makes the names in a folder durable: created and renamed files exist after a power cut.
pub(crate) fn sync_folder(path: &Path) -> Result<(), Fault> {
    platform::sync_folder(path).context(&format!("syncing the folder {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_folder_is_unlocked_although_a_child_has_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let taken = Folder::take(folder.path()).unwrap();
        assert_eq!(Folder::take(folder.path()).unwrap_err().kind, FaultKind::Locked);
        // Between fork and exec, a child has the same open file.
        let copy = taken.lock.try_clone().unwrap();
        drop(taken);
        let again = Folder::take(folder.path()).unwrap();
        drop(copy);
        assert_eq!(Folder::take(folder.path()).unwrap_err().kind, FaultKind::Locked);
        drop(again);
    }
}
