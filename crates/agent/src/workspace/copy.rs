//! Copies a folder as it is: files with their modes, symlinks as symlinks, nothing that is not a file.
//!
//! Where the file system can share blocks it does. Bounded in bytes, files and depth, so that a folder named by
//! mistake does not fill the disk.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::NoWorkspace;
use crate::limits;

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) folders: u64,
}

/// Copies `from` to `to`, which is not there yet.
pub(crate) fn tree(from: &Path, to: &Path) -> Result<Copied, NoWorkspace> {
    let mut copied = Copied::default();
    folder(from, to, 0, &mut copied)?;
    Ok(copied)
}

fn folder(from: &Path, to: &Path, depth: usize, copied: &mut Copied) -> Result<(), NoWorkspace> {
    if depth > limits::WORKSPACE_DEPTH_MAX {
        let most = limits::WORKSPACE_DEPTH_MAX;
        return Err(too_large(format!("{} lies more than {most} folders deep", from.display())));
    }
    fs::create_dir(to).map_err(|why| failed(to, why))?;
    let mut entries: Vec<fs::DirEntry> =
        fs::read_dir(from).and_then(Iterator::collect).map_err(|why| failed(from, why))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|why| failed(&from, why))?;
        if kind.is_dir() {
            copied.folders += 1;
            folder(&from, &to, depth + 1, copied)?;
            continue;
        }
        if kind.is_symlink() {
            let target = fs::read_link(&from).map_err(|why| failed(&from, why))?;
            symlink(target, &to).map_err(|why| failed(&to, why))?;
        } else if kind.is_file() {
            // Where it has gone since the folder was read, it is not there.
            match fs::copy(&from, &to) {
                Ok(bytes) => copied.bytes += bytes,
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                Err(why) => return Err(failed(&from, why)),
            }
        } else {
            continue;
        }
        copied.files += 1;
        if copied.files + copied.folders > limits::WORKSPACE_FILES_MAX
            || copied.bytes > limits::WORKSPACE_BYTES_MAX
        {
            let (files, bytes) = (limits::WORKSPACE_FILES_MAX, limits::WORKSPACE_BYTES_MAX);
            return Err(too_large(format!(
                "there are more than {files} files or {bytes} bytes; name a smaller folder, or work in place"
            )));
        }
    }
    let mode = fs::metadata(from).map_err(|why| failed(from, why))?.permissions().mode();
    // Its owner must get in, whatever the original's mode is.
    fs::set_permissions(to, fs::Permissions::from_mode(mode | 0o700)).map_err(|why| failed(to, why))
}

fn failed(path: &Path, why: io::Error) -> NoWorkspace {
    let code = if why.kind() == io::ErrorKind::StorageFull { "workspace_full" } else { "workspace_failed" };
    NoWorkspace::new(code, format!("{}: {why}", path.display()))
}

fn too_large(message: String) -> NoWorkspace {
    NoWorkspace::new("workspace_too_large", message)
}
