//! What a path in a call means, and the only way that file tools open, make and replace anything.
//!
//! Look at [`Root`], a workspace's folder held open, and [`Place`], a path in it. Nothing outside of the folder is
//! reached: not by `..`, not by an absolute path, not by a symbolic link, and not by one that is put there while
//! we look, because the kernel resolves below the open folder (`openat2`) and everything is done to what was
//! opened. Where that call is missing each part of a path is opened by itself and no symbolic link is followed.
//!
//! It must never know tools, events or policy.

pub mod limits;
mod place;
mod write;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

pub use place::Place;
pub use write::{Expected, Written, revision};

/// Why a path is not opened or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PathError {
    /// Stable and lower case.
    pub code: &'static str,
    pub message: String,
}

impl PathError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        PathError { code, message: message.into() }
    }
}

/// A workspace's folder, held open.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    path: PathBuf,
}

/// What stands at a place.
#[derive(Debug)]
pub enum Found {
    File(File),
    Folder(OwnedFd),
}

/// Whether symbolic links that stay inside are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Follow,
    Refuse,
}

/// Opens something to look at it or to go on from it, and no more.
#[cfg(target_os = "linux")]
pub(crate) const LOOK: OFlags = OFlags::PATH;

/// The same where a thing must be opened to be looked at: without waiting for it.
#[cfg(not(target_os = "linux"))]
pub(crate) const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl Root {
    pub fn open(path: &Path) -> Result<Self, PathError> {
        let flags = LOOK | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => gone(path),
            error => PathError::new("io_failed", format!("the workspace cannot be opened: {error}")),
        })?;
        Ok(Root { dir, path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What a path in a call means.
    pub fn place(&self, text: &str) -> Result<Place, PathError> {
        Place::parse(&self.path, text)
    }

    /// Opens a file or a folder for reading. Anything else is not opened.
    pub fn find(&self, place: &Place, links: Links) -> Result<Found, PathError> {
        // Looked at before it is opened: opening a device or a pipe may already do something.
        let looked = self.beneath(place, LOOK, links)?;
        match kind_of(looked.as_fd(), place)? {
            FileType::Directory => {
                self.beneath(place, OFlags::RDONLY | OFlags::DIRECTORY, links).map(Found::Folder)
            }
            FileType::RegularFile => {
                // Should something else stand there by now, this neither waits for it nor takes it for a terminal.
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
                let file = self.beneath(place, flags, links)?;
                match kind_of(file.as_fd(), place)? {
                    FileType::RegularFile => Ok(Found::File(File::from(file))),
                    other => Err(odd(place, other)),
                }
            }
            other => Err(odd(place, other)),
        }
    }

    /// Opens a file for reading.
    pub fn file(&self, place: &Place, links: Links) -> Result<File, PathError> {
        match self.find(place, links)? {
            Found::File(file) => Ok(file),
            Found::Folder(_) => {
                Err(PathError::new("is_a_folder", format!("{place} is a folder, not a file")))
            }
        }
    }

    /// Opens a folder for listing.
    pub fn folder(&self, place: &Place, links: Links) -> Result<OwnedFd, PathError> {
        match self.find(place, links)? {
            Found::Folder(folder) => Ok(folder),
            Found::File(_) => Err(PathError::new("not_a_folder", format!("{place} is a file, not a folder"))),
        }
    }

    fn beneath(&self, place: &Place, flags: OFlags, links: Links) -> Result<OwnedFd, PathError> {
        open_beneath(self.dir.as_fd(), place.as_path(), flags | OFlags::CLOEXEC, links)
            .map_err(|error| self.explain(place, error))
    }

    /// What an error of the system means for the caller that named a path.
    fn explain(&self, place: &Place, error: Errno) -> PathError {
        let (code, message) = match error {
            Errno::NOENT | Errno::STALE if self.is_gone() => return gone(&self.path),
            Errno::NOENT => ("not_found", format!("{place} does not exist")),
            Errno::NOTDIR => {
                ("not_found", format!("{place} does not exist: a part of it is a file, not a folder"))
            }
            Errno::XDEV => (
                "outside_workspace",
                format!("{place} leads out of the workspace through a symbolic link, or `..` behind one"),
            ),
            Errno::LOOP => (
                "symbolic_link",
                format!(
                    "{place} goes through a symbolic link that is not followed here; name what it points to"
                ),
            ),
            Errno::ACCESS | Errno::PERM => {
                ("permission_denied", format!("{place} may not be opened: permission denied"))
            }
            Errno::NAMETOOLONG => ("invalid_path", format!("{place} is longer than a path may be")),
            Errno::ROFS => ("permission_denied", format!("{place} is on a file system that is read-only")),
            Errno::NOSPC | Errno::DQUOT => ("no_space", format!("{place} does not fit: {error}")),
            error => ("io_failed", format!("{place}: {error}")),
        };
        PathError::new(code, message)
    }

    /// A folder that was removed stays open and has no name any more.
    fn is_gone(&self) -> bool {
        rustix::fs::fstat(&self.dir).is_ok_and(|stat| stat.st_nlink == 0)
    }
}

fn gone(path: &Path) -> PathError {
    PathError::new(
        "workspace_gone",
        format!("the workspace {} is no longer there; nothing in it can be read or written", path.display()),
    )
}

fn odd(place: &Place, kind: FileType) -> PathError {
    let what = match kind {
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a symbolic link",
        _ => "neither",
    };
    PathError::new("not_a_file", format!("{place} is no file and no folder but {what}; it is not opened"))
}

fn kind_of(fd: BorrowedFd<'_>, place: &Place) -> Result<FileType, PathError> {
    let stat = rustix::fs::fstat(fd)
        .map_err(|error| PathError::new("io_failed", format!("{place} cannot be looked at: {error}")))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// An error while reading or writing what is open already.
pub(crate) fn io_failed(place: &Place, error: &io::Error) -> PathError {
    PathError::new("io_failed", format!("{place}: {error}"))
}

/// Opens what is at a path below an open folder.
#[cfg(target_os = "linux")]
pub(crate) fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    links: Links,
) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;

    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if links == Links::Refuse {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    // EAGAIN: something was renamed meanwhile, and the kernel could not be sure about a `..`.
    for _ in 0..limits::OPEN_ATTEMPTS_MAX {
        match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // EPERM is what older container filters say to a call they do not know.
            Err(Errno::NOSYS | Errno::PERM) => return open_by_parts(dir, path, flags),
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    _links: Links,
) -> Result<OwnedFd, Errno> {
    open_by_parts(dir, path, flags)
}

/// Opens one part after the other and follows no symbolic link. A place has no `..`, so this cannot go up.
fn open_by_parts(dir: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut parts = path.components().peekable();
    let step = LOOK | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(dir, c".", step, Mode::empty())?;
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let flags = if last { flags | OFlags::NOFOLLOW } else { step };
        let next = rustix::fs::openat(&at, part.as_os_str(), flags, Mode::empty());
        at = match next {
            Ok(next) => next,
            // With O_DIRECTORY a link is "not a directory"; say what it is.
            Err(Errno::NOTDIR) if is_link(at.as_fd(), part.as_os_str().as_ref()) => return Err(Errno::LOOP),
            Err(error) => return Err(error),
        };
        // With O_PATH the link itself is opened.
        if last && flags.contains(LOOK) {
            let stat = rustix::fs::fstat(&at)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                return Err(Errno::LOOP);
            }
        }
    }
    Ok(at)
}

fn is_link(dir: BorrowedFd<'_>, name: &Path) -> bool {
    rustix::fs::statat(dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

#[cfg(test)]
mod tests;
