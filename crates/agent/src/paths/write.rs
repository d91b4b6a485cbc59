//! Creates and replaces files atomically in an open folder, never through a symbolic link.
//!
//! Start at [`Root::write`]. The new bytes are written to a temporary file next to the target, which is then renamed,
//! so a reader sees the old bytes or the new ones. Owner, extended attributes and set-user-id bits are not preserved.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use recount_world::Entropy;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::limits;
use crate::paths::revision::{revision, revision_of_digest};
use crate::paths::{LOOK, Links, PathError, Root, WorkspacePath, io_failed, not_a_file, open_beneath};

/// The state that a path must have to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Nothing exists.
    Absent,
    /// A file with the content of this [`revision`].
    Revision(String),
}

/// A written file, with what is needed to revert it.
#[derive(Debug)]
pub struct Written {
    pub place: WorkspacePath,
    revision: String,
    /// Folders created for it, the outermost first.
    made: Vec<WorkspacePath>,
}

impl Root {
    /// Checks whether a path may be written at all.
    pub fn may_write(&self, place: &WorkspacePath) -> Result<(), PathError> {
        if place.is_top() {
            return Err(PathError::new("is_a_folder", "`.` is the workspace itself, not a file"));
        }
        if place.is_in_git_folder() {
            let message = format!("{place} belongs to git and cannot be written; use a git command");
            return Err(PathError::new("protected_path", message));
        }
        Ok(())
    }

    /// Writes a file atomically if the path has the expected state. Creates missing folders.
    pub fn write(
        &self,
        place: &WorkspacePath,
        bytes: &[u8],
        expected: &Expected,
        entropy: &dyn Entropy,
    ) -> Result<Written, PathError> {
        self.may_write(place)?;
        let Some((folder, name)) = place.split() else {
            return Err(PathError::new("invalid_path", format!("{place} has no file name")));
        };
        let (parent, made) = self.make_folders(&folder)?;
        let done = self.write_in(parent.as_fd(), place, name, bytes, expected, entropy);
        match done {
            Ok(()) => Ok(Written { place: place.clone(), revision: revision(bytes), made }),
            Err(error) => {
                self.remove_folders(&made);
                Err(error)
            }
        }
    }

    fn write_in(
        &self,
        parent: BorrowedFd<'_>,
        place: &WorkspacePath,
        name: &OsStr,
        bytes: &[u8],
        expected: &Expected,
        entropy: &dyn Entropy,
    ) -> Result<(), PathError> {
        // A new file gets the default mode; an existing one keeps its mode.
        let (new_mode, kept_mode) = match expected {
            Expected::Absent => (Mode::from_raw_mode(0o666), None),
            Expected::Revision(_) => (Mode::from_raw_mode(0o600), Some(self.mode(parent, place, name)?)),
        };
        let temporary = format!(".recount-{:032x}.tmp", entropy.draw());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent, &temporary, flags, new_mode)
            .map_err(|error| self.explain(place, error))?;
        let write_temporary = || {
            let mut file = File::from(file);
            file.write_all(bytes).map_err(|error| write_failed(place, &error))?;
            if let Some(mode) = kept_mode {
                rustix::fs::fchmod(&file, mode).map_err(|error| self.explain(place, error))?;
            }
            // Success is reported only for data that survives a power cut.
            file.sync_data().map_err(|error| write_failed(place, &error))?;
            self.check(parent, place, name, expected)?;
            let renamed = match expected {
                Expected::Absent => rename_new(parent, &temporary, name),
                Expected::Revision(_) => rustix::fs::renameat(parent, temporary.as_str(), parent, name),
            };
            renamed.map_err(|error| match error {
                Errno::EXIST => changed(place),
                error => self.explain(place, error),
            })
        };
        let done = write_temporary();
        if done.is_err() {
            // The original error is returned; a leftover temporary file does no harm.
            rustix::fs::unlinkat(parent, temporary.as_str(), AtFlags::empty()).ok();
        }
        done
    }

    fn mode(&self, parent: BorrowedFd<'_>, place: &WorkspacePath, name: &OsStr) -> Result<Mode, PathError> {
        let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| {
            if error == Errno::NOENT { changed(place) } else { self.explain(place, error) }
        })?;
        Ok(Mode::from_raw_mode(stat.st_mode & 0o777))
    }

    /// Checks that the path still has the expected state.
    fn check(
        &self,
        parent: BorrowedFd<'_>,
        place: &WorkspacePath,
        name: &OsStr,
        expected: &Expected,
    ) -> Result<(), PathError> {
        let current = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(self.explain(place, error)),
        };
        match (current, expected) {
            (None, Expected::Absent) => Ok(()),
            (Some(FileType::RegularFile), Expected::Revision(expected_revision)) => {
                let flags =
                    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(parent, name, flags, Mode::empty())
                    .map_err(|error| self.explain(place, error))?;
                if file_revision(File::from(file), place)? == *expected_revision {
                    Ok(())
                } else {
                    Err(changed(place))
                }
            }
            (Some(FileType::RegularFile), Expected::Absent) | (None, Expected::Revision(_)) => {
                Err(changed(place))
            }
            (Some(FileType::Symlink), _) => Err(self.explain(place, Errno::LOOP)),
            (Some(FileType::Directory), _) => {
                Err(PathError::new("is_a_folder", format!("{place} is a folder, not a file")))
            }
            (Some(other), _) => Err(not_a_file(place, other)),
        }
    }

    /// Reverts a write if the file is unchanged since: restores `before`, or deletes a new file.
    pub fn revert(
        &self,
        written: &Written,
        before: Option<&[u8]>,
        entropy: &dyn Entropy,
    ) -> Result<(), PathError> {
        let written_revision = Expected::Revision(written.revision.clone());
        match before {
            Some(before) => drop(self.write(&written.place, before, &written_revision, entropy)?),
            None => {
                let Some((folder, name)) = written.place.split() else { return Ok(()) };
                let parent = self.beneath(&folder, LOOK | OFlags::DIRECTORY, Links::Refuse)?;
                self.check(parent.as_fd(), &written.place, name, &written_revision)?;
                rustix::fs::unlinkat(&parent, name, AtFlags::empty())
                    .map_err(|error| self.explain(&written.place, error))?;
                self.remove_folders(&written.made);
            }
        }
        Ok(())
    }

    /// Opens a folder and creates missing parts of it. Returns the created ones.
    fn make_folders(&self, folder: &WorkspacePath) -> Result<(OwnedFd, Vec<WorkspacePath>), PathError> {
        let flags = LOOK | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match open_beneath(self.dir.as_fd(), folder.as_path(), flags, Links::Refuse) {
            Ok(open) => return Ok((open, Vec::new())),
            Err(Errno::NOENT) if !self.is_deleted() => {}
            Err(error) => return Err(self.explain(folder, error)),
        }
        let mut made = Vec::new();
        let mut at = WorkspacePath::top();
        let mut open = self.beneath(&at, flags, Links::Refuse)?;
        for part in folder.as_path().components() {
            at = at.child(part.as_os_str());
            let step = match rustix::fs::mkdirat(&open, part.as_os_str(), Mode::from_raw_mode(0o777)) {
                Ok(()) => {
                    made.push(at.clone());
                    Ok(())
                }
                Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(self.explain(&at, error)),
            };
            let next = step.and_then(|()| {
                rustix::fs::openat(&open, part.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty())
                    .map_err(|error| self.explain(&at, error))
            });
            match next {
                Ok(next) => open = next,
                Err(error) => {
                    self.remove_folders(&made);
                    return Err(error);
                }
            }
        }
        Ok((open, made))
    }

    /// Deletes folders that were created in vain, as far as they are empty.
    fn remove_folders(&self, made: &[WorkspacePath]) {
        for place in made.iter().rev() {
            let Some((folder, name)) = place.split() else { return };
            let Ok(parent) = self.beneath(&folder, LOOK | OFlags::DIRECTORY, Links::Refuse) else {
                return;
            };
            if rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }
}

/// Renames the temporary file unless the name is taken.
fn rename_new(parent: BorrowedFd<'_>, temporary: &str, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::renameat_with(parent, temporary, parent, name, RenameFlags::NOREPLACE) {
        // Some file systems do not support NOREPLACE; a hard link is the fallback.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(parent, temporary, parent, name, AtFlags::empty())?;
            rustix::fs::unlinkat(parent, temporary, AtFlags::empty())
        }
        other => other,
    }
}

fn changed(place: &WorkspacePath) -> PathError {
    PathError::new(
        "file_changed",
        format!("another process changed {place}, so it was not written; read it again"),
    )
}

fn write_failed(place: &WorkspacePath, error: &std::io::Error) -> PathError {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            PathError::new("no_space", format!("{place} does not fit on the disk: {error}"))
        }
        _ => io_failed(place, error),
    }
}

fn file_revision(mut file: File, place: &WorkspacePath) -> Result<String, PathError> {
    let mut sum = Sha256::new();
    let mut buffer = vec![0; limits::READ_PIECE_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(revision_of_digest(sum.finalize().as_slice())),
            Ok(read) => sum.update(&buffer[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io_failed(place, &error)),
        }
    }
}
