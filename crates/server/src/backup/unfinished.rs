//! Unfinished backups: their temporary name, and removing those that were interrupted.
//!
//! A backup is written to `.unfinished-NAME` next to its target and renamed when everything in it is synced. If the
//! process ends before, the target does not exist. This module must not know what a store looks like.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use recount_log_sqlite::BACKUP_MARKER;
use recount_world::platform::sync_folder;

use super::FOLDER;

const PREFIX: &str = ".unfinished-";

/// The temporary path of a copy whose target is `to`.
pub fn unfinished(to: &Path) -> PathBuf {
    let mut name = OsStr::new(PREFIX).to_owned();
    name.push(to.file_name().unwrap_or_default());
    to.with_file_name(name)
}

/// Whether a folder has the name of an unfinished copy.
pub(crate) fn is_unfinished(folder: &Path) -> bool {
    let name = std::path::absolute(folder).ok();
    let name = name.as_deref().and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().starts_with(PREFIX)
}

/// Renames a complete and synced copy to its final name.
pub fn finish(to: &Path) -> io::Result<()> {
    std::fs::rename(unfinished(to), to)?;
    let above = to.parent().filter(|above| !above.as_os_str().is_empty());
    sync_folder(above.unwrap_or(Path::new(".")))
}

/// Removes the temporary folder of a failed copy.
pub(crate) fn discard(to: &Path) {
    let unfinished = unfinished(to);
    match std::fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, folder = %unfinished.display(), "cannot remove an unfinished backup");
        }
        _ => {}
    }
}

/// Finds leftovers of interrupted backups in a data folder: folders with the name of [`unfinished`] that hold the
/// marker of a backup or nothing.
pub(crate) fn leftovers(data: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(data.join(FOLDER)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_ours = |path: &Path| -> io::Result<bool> {
            let names = std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name()));
            let names = names.collect::<io::Result<Vec<_>>>()?;
            Ok(names.is_empty() || names.iter().any(|name| name.to_string_lossy().starts_with(BACKUP_MARKER)))
        };
        if is_unfinished(&path) && path.symlink_metadata()?.is_dir() && is_ours(&path)? {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Removes leftovers. The process that holds the data folder calls this before it makes backups.
pub(crate) fn clear(data: &Path) {
    let found = leftovers(data).unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot list unfinished backups");
        Vec::new()
    });
    for folder in found {
        match std::fs::remove_dir_all(&folder) {
            Ok(()) => {
                tracing::warn!(folder = %folder.display(), "an unfinished backup was removed")
            }
            Err(error) => {
                tracing::warn!(%error, folder = %folder.display(), "cannot remove an unfinished backup");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certainly_ours_is_removed() {
        let data = tempfile::tempdir().unwrap();
        clear(data.path());
        let backups = data.path().join(FOLDER);
        let create = |name: &str, file: Option<&str>| {
            std::fs::create_dir_all(backups.join(name)).unwrap();
            if let Some(file) = file {
                std::fs::write(backups.join(name).join(file), "x").unwrap();
            }
        };
        create(".unfinished-a", Some("backup"));
        create(".unfinished-b", None);
        create(".unfinished-c", Some("backup.new"));
        create(".unfinished-d", Some("notes"));
        create("whole", Some("backup"));
        std::fs::write(backups.join(".unfinished-file"), "x").unwrap();
        clear(data.path());
        let mut left: Vec<_> =
            std::fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".unfinished-d", ".unfinished-file", "whole"]);
    }

    #[test]
    fn the_name_is_beside_the_place() {
        assert_eq!(unfinished(Path::new("/a/b")), Path::new("/a/.unfinished-b"));
        assert_eq!(unfinished(Path::new("b")), Path::new(".unfinished-b"));
        assert!(is_unfinished(&unfinished(Path::new("b"))) && !is_unfinished(Path::new("b")));
    }
}
