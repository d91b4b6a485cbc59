//! Making and replacing files: whole or not at all, in the folder that was opened, never through a symbolic link.
//!
//! Look at [`Root::write`]. The new bytes are written beside the file and take its name in one step, so a
//! reader sees the old ones or the new ones. What is not carried over: owner, extended attributes, and the bits
//! that let a program run as another user.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use recount_world::Entropy;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::limits;
use crate::paths::{LOOK, Links, PathError, Place, Root, io_failed, odd, open_beneath};

/// What must stand at a place for it to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    Absent,
    /// A file with these bytes, as [`revision`] names them.
    Revision(String),
}

/// What was written, and how it is taken back.
#[derive(Debug)]
pub struct Written {
    pub place: Place,
    revision: String,
    /// Folders made for it, the outermost first.
    made: Vec<Place>,
}

/// The name of some bytes: `sha256:` and their digest in hex.
pub fn revision(bytes: &[u8]) -> String {
    named(Sha256::digest(bytes).as_slice())
}

fn named(digest: &[u8]) -> String {
    let mut name = String::from("sha256:");
    for byte in digest {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

impl Root {
    /// Whether a place may be written at all.
    pub fn may_write(&self, place: &Place) -> Result<(), PathError> {
        if place.is_top() {
            return Err(PathError::new("is_a_folder", "`.` is the workspace itself, not a file"));
        }
        if place.is_gits() {
            let message = format!("{place} belongs to git and is not written; use a git command");
            return Err(PathError::new("protected_path", message));
        }
        Ok(())
    }

    /// Writes a file, whole or not at all, when there stands what is expected. Makes missing folders.
    pub fn write(
        &self,
        place: &Place,
        bytes: &[u8],
        expected: &Expected,
        entropy: &dyn Entropy,
    ) -> Result<Written, PathError> {
        self.may_write(place)?;
        let Some((folder, name)) = place.split() else {
            return Err(PathError::new("invalid_path", format!("{place} has no name")));
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
        place: &Place,
        name: &OsStr,
        bytes: &[u8],
        expected: &Expected,
        entropy: &dyn Entropy,
    ) -> Result<(), PathError> {
        // A file that is new gets the mode that all new files get; an old one keeps its own.
        let (make, keep) = match expected {
            Expected::Absent => (Mode::from_raw_mode(0o666), None),
            Expected::Revision(_) => (Mode::from_raw_mode(0o600), Some(self.mode(parent, place, name)?)),
        };
        let beside = format!(".recount-{:032x}.tmp", entropy.draw());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            rustix::fs::openat(parent, &beside, flags, make).map_err(|error| self.explain(place, error))?;
        let put = || {
            let mut file = File::from(file);
            file.write_all(bytes).map_err(|error| full(place, &error))?;
            if let Some(mode) = keep {
                rustix::fs::fchmod(&file, mode).map_err(|error| self.explain(place, error))?;
            }
            // Said to be there only when a power cut leaves it there.
            file.sync_data().map_err(|error| full(place, &error))?;
            self.check(parent, place, name, expected)?;
            let renamed = match expected {
                Expected::Absent => rename_new(parent, &beside, name),
                Expected::Revision(_) => rustix::fs::renameat(parent, beside.as_str(), parent, name),
            };
            renamed.map_err(|error| match error {
                Errno::EXIST => changed(place),
                error => self.explain(place, error),
            })
        };
        let done = put();
        if done.is_err() {
            // Whatever went wrong is what is told; a file beside that cannot be removed harms nobody.
            rustix::fs::unlinkat(parent, beside.as_str(), AtFlags::empty()).ok();
        }
        done
    }

    fn mode(&self, parent: BorrowedFd<'_>, place: &Place, name: &OsStr) -> Result<Mode, PathError> {
        let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| {
            if error == Errno::NOENT { changed(place) } else { self.explain(place, error) }
        })?;
        Ok(Mode::from_raw_mode(stat.st_mode & 0o777))
    }

    /// Whether there still stands what is expected.
    fn check(
        &self,
        parent: BorrowedFd<'_>,
        place: &Place,
        name: &OsStr,
        expected: &Expected,
    ) -> Result<(), PathError> {
        let there = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(self.explain(place, error)),
        };
        match (there, expected) {
            (None, Expected::Absent) => Ok(()),
            (Some(FileType::RegularFile), Expected::Revision(wanted)) => {
                let flags =
                    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(parent, name, flags, Mode::empty())
                    .map_err(|error| self.explain(place, error))?;
                if digest(File::from(file), place)? == *wanted { Ok(()) } else { Err(changed(place)) }
            }
            (Some(FileType::RegularFile), Expected::Absent) | (None, Expected::Revision(_)) => {
                Err(changed(place))
            }
            (Some(FileType::Symlink), _) => Err(self.explain(place, Errno::LOOP)),
            (Some(FileType::Directory), _) => {
                Err(PathError::new("is_a_folder", format!("{place} is a folder, not a file")))
            }
            (Some(other), _) => Err(odd(place, other)),
        }
    }

    /// Takes back what was written, when it still stands there: puts `before` back, or removes what is new.
    pub fn take_back(
        &self,
        written: &Written,
        before: Option<&[u8]>,
        entropy: &dyn Entropy,
    ) -> Result<(), PathError> {
        let ours = Expected::Revision(written.revision.clone());
        match before {
            Some(before) => drop(self.write(&written.place, before, &ours, entropy)?),
            None => {
                let Some((folder, name)) = written.place.split() else { return Ok(()) };
                let parent = self.beneath(&folder, LOOK | OFlags::DIRECTORY, Links::Refuse)?;
                self.check(parent.as_fd(), &written.place, name, &ours)?;
                rustix::fs::unlinkat(&parent, name, AtFlags::empty())
                    .map_err(|error| self.explain(&written.place, error))?;
                self.remove_folders(&written.made);
            }
        }
        Ok(())
    }

    /// Opens a folder, made with those above it where they are missing; tells which were.
    fn make_folders(&self, folder: &Place) -> Result<(OwnedFd, Vec<Place>), PathError> {
        let flags = LOOK | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match open_beneath(self.dir.as_fd(), folder.as_path(), flags, Links::Refuse) {
            Ok(open) => return Ok((open, Vec::new())),
            Err(Errno::NOENT) if !self.is_gone() => {}
            Err(error) => return Err(self.explain(folder, error)),
        }
        let mut made = Vec::new();
        let mut at = Place::top();
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

    /// Removes folders that were made for nothing, as far as they are empty.
    fn remove_folders(&self, made: &[Place]) {
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

/// Gives a file its name unless something has it already.
fn rename_new(parent: BorrowedFd<'_>, beside: &str, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::renameat_with(parent, beside, parent, name, RenameFlags::NOREPLACE) {
        // Some file systems cannot; a second name can be given by all that have names.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(parent, beside, parent, name, AtFlags::empty())?;
            rustix::fs::unlinkat(parent, beside, AtFlags::empty())
        }
        other => other,
    }
}

fn changed(place: &Place) -> PathError {
    PathError::new(
        "file_changed",
        format!("{place} was changed by another process meanwhile and was not written; read it again"),
    )
}

fn full(place: &Place, error: &std::io::Error) -> PathError {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            PathError::new("no_space", format!("{place} does not fit: {error}"))
        }
        _ => io_failed(place, error),
    }
}

fn digest(mut file: File, place: &Place) -> Result<String, PathError> {
    let mut sum = Sha256::new();
    let mut buffer = vec![0; limits::READ_PIECE_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(named(sum.finalize().as_slice())),
            Ok(read) => sum.update(&buffer[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io_failed(place, &error)),
        }
    }
}
