//! Syncs the database file, to wait until copied pages are on the disk.
//!
//! SQLite syncs the database only when it has copied all of the write-ahead log. Under load that happens while the
//! writer waits, and then everything that was copied for minutes is written at once. To sync before,
//! in parallel with the writer, needs a handle of our own. Nothing relies on it: SQLite syncs the rest.
//!
//! Where locks belong to a process, closing any handle of a database releases the locks that SQLite holds on it.
//! So this must be dropped after the last connection of the process; the store's `Hold` ensures that. It must not
//! read or write.

use std::fs::{File, OpenOptions};

use crate::connection::DatabaseFile;

/// A handle of the database file. `None`: the file is not on the file system, or could not be opened.
pub(crate) struct WriteBack(Option<File>);

impl WriteBack {
    pub(crate) fn of(place: &DatabaseFile) -> Self {
        if place.vfs.is_some() {
            return WriteBack(None);
        }
        // Some systems sync only files that are open for writing.
        let opened = OpenOptions::new().read(true).write(true).open(&place.database);
        WriteBack(opened.inspect_err(|error| tracing::debug!(%error, "SQLite performs all syncs")).ok())
    }

    /// Returns when all earlier writes to the database are on the disk, if the system supports it.
    pub(crate) fn reach_the_disk(&self) {
        if let Some(Err(error)) = self.0.as_ref().map(File::sync_data) {
            tracing::debug!(%error, "cannot sync the database before the checkpoint");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Durability;

    #[test]
    fn only_database_files_on_the_file_system_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("recount.db");
        let of = |vfs: Option<&str>| {
            let place = DatabaseFile {
                database: database.clone(),
                durability: Durability::Strict,
                vfs: vfs.map(Into::into),
            };
            WriteBack::of(&place)
        };
        assert!(of(None).0.is_none(), "it creates no file");
        of(None).reach_the_disk();
        std::fs::write(&database, b"as it was").unwrap();
        assert!(of(None).0.is_some());
        assert!(of(Some("another")).0.is_none());
        of(None).reach_the_disk();
        assert_eq!(std::fs::read(&database).unwrap(), b"as it was");
    }
}
