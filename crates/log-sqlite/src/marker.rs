//! The marker of a backup: whether the copy was finished, and how much belongs to it.
//!
//! A copy begins with the marker `unfinished` and ends with one that lists its contents. So a folder that is
//! half a backup, or a backup with lost files, is recognised before anything is opened. The
//! numbers hold until a blob is removed; the marker is removed before it ([`remove`]). A folder without a marker is no
//! backup, or one of an older release. This module must not know tables.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use recount_log::Fault;
use recount_world::platform::private_file;

use crate::blobs::Blobs;
use crate::fault::{FaultContext as _, corrupt};
use crate::folder::{blobs_in, database_in, sync_folder};
use crate::limits;

/// The marker's name in the folder.
pub const BACKUP_MARKER: &str = "backup";

const TITLE: &str = "recount backup 1";
const UNFINISHED: &str = "unfinished";

/// The contents of a finished copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) database_bytes: u64,
    pub(crate) blobs: u64,
}

/// Marks a folder in which a copy begins.
pub(crate) fn begin(folder: &Path) -> Result<(), Fault> {
    write(folder, UNFINISHED)
}

/// Marks a folder whose copy is whole and synced.
pub(crate) fn finish(folder: &Path, contents: Contents) -> Result<(), Fault> {
    let Contents { database_bytes, blobs } = contents;
    write(folder, &format!("complete {database_bytes} {blobs}"))
}

/// Removes the marker: from now on the folder is in use, and its contents change.
pub(crate) fn remove(folder: &Path) -> Result<(), Fault> {
    let path = path(folder);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => {
            removed.context(&format!("removing {}", path.display()))?;
            sync_folder(folder)
        }
    }
}

/// Refuses a folder that is an unfinished backup, or lacks parts of a finished one. Returns whether it has a marker.
pub(crate) fn check(folder: &Path) -> Result<bool, Fault> {
    let path = path(folder);
    let context = format!("reading {}", path.display());
    let mut text = String::new();
    match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened
            .and_then(|file| file.take(limits::MARKER_BYTES_MAX).read_to_string(&mut text))
            .context(&context)?,
    };
    let shown = folder.display();
    let state = text.strip_prefix(TITLE).map(str::trim).unwrap_or_default();
    let Some(Contents { database_bytes, blobs }) = parse(state) else {
        return Err(corrupt(format!(
            "{shown} is an unfinished backup, not a complete store; delete it and use another backup"
        )));
    };
    let database = std::fs::metadata(database_in(folder)).map_or(0, |database| database.len());
    if database < database_bytes {
        return Err(corrupt(format!(
            "the database of the backup {shown} should have {database_bytes} bytes, but it has {database}; \
             copy the backup again"
        )));
    }
    let blob_folder = blobs_in(folder);
    let there = if blob_folder.is_dir() { Blobs::at(blob_folder).list(None, usize::MAX)?.len() } else { 0 };
    if (there as u64) < blobs {
        return Err(corrupt(format!(
            "the backup {shown} should have {blobs} blobs, but it has {there}; copy the backup again"
        )));
    }
    Ok(true)
}

fn parse(state: &str) -> Option<Contents> {
    let mut words = state.strip_prefix("complete ")?.split(' ').map(str::parse);
    let contents = Contents { database_bytes: words.next()?.ok()?, blobs: words.next()?.ok()? };
    words.next().is_none().then_some(contents)
}

fn path(folder: &Path) -> PathBuf {
    folder.join(BACKUP_MARKER)
}

/// Written to a temporary file and renamed, so that it has either the old or the new content.
fn write(folder: &Path, state: &str) -> Result<(), Fault> {
    let path = path(folder);
    let beside = folder.join(format!("{BACKUP_MARKER}.new"));
    let written = private_file(OpenOptions::new().write(true).create(true).truncate(true))
        .open(&beside)
        .and_then(|mut file| {
            file.write_all(format!("{TITLE}\n{state}\n").as_bytes()).and_then(|()| file.sync_all())
        })
        .and_then(|()| std::fs::rename(&beside, &path));
    written.context(&format!("writing {}", path.display()))?;
    sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::create_folder;

    #[test]
    fn a_folder_must_match_its_marker() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |words: &str| {
            let fault = check(folder.path()).unwrap_err();
            assert!(fault.message.contains(words), "{fault}");
        };
        assert_eq!(check(folder.path()), Ok(false));
        begin(folder.path()).unwrap();
        refused("an unfinished backup");
        finish(folder.path(), Contents { database_bytes: 10, blobs: 1 }).unwrap();
        refused("10 bytes, but it has 0");
        std::fs::write(database_in(folder.path()), [0; 10]).unwrap();
        refused("1 blobs, but it has 0");
        create_folder(&blobs_in(folder.path())).unwrap();
        Blobs::at(blobs_in(folder.path())).put(b"blob").unwrap();
        assert_eq!(check(folder.path()), Ok(true));
        for odd in [
            "",
            "recount backup 1\ncomplete 1\n",
            "recount backup 1\ncomplete 1 0 2\n",
            "else\ncomplete 1 0\n",
        ] {
            std::fs::write(path(folder.path()), odd).unwrap();
            refused("an unfinished backup");
        }
        remove(folder.path()).unwrap();
        assert_eq!(check(folder.path()), Ok(false));
        remove(folder.path()).unwrap();
    }
}
