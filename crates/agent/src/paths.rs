//! Opens, creates and replaces files below a workspace folder. File tools have no other access to files.
//!
//! It must never know tools, events or policy.
//!
//! Start at [`Root`], an open workspace folder, and [`WorkspacePath`], a path in it. Nothing outside the folder can be
//! reached: not with `..`, an absolute path or a symbolic link, not even one that is created during the call. The
//! kernel resolves paths below the open folder (`openat2`), and all operations use what was opened. Where that system
//! call is missing, each part of a path is opened separately and no symbolic link is followed.

mod error;
pub mod limits;
mod place;
mod revision;
mod write;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

pub use error::PathError;
pub use place::WorkspacePath;
pub use revision::revision;
pub use write::{Expected, Written};

/// An open workspace folder.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    path: PathBuf,
}

/// What exists at a path.
#[derive(Debug)]
pub enum Found {
    File(File),
    Folder(OwnedFd),
}

/// Whether to follow symbolic links that stay inside the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Follow,
    Refuse,
}

/// Opens a path only for inspection and as a base for further opens.
#[cfg(target_os = "linux")]
pub(crate) const LOOK: OFlags = OFlags::PATH;

/// The same on systems that can only inspect what they open: without blocking.
#[cfg(not(target_os = "linux"))]
pub(crate) const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl Root {
    pub fn open(path: &Path) -> Result<Self, PathError> {
        let flags = LOOK | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => workspace_deleted(path),
            error => PathError::new("io_failed", format!("cannot open the workspace: {error}")),
        })?;
        Ok(Root { dir, path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Parses a path of a call.
    pub fn place(&self, text: &str) -> Result<WorkspacePath, PathError> {
        WorkspacePath::parse(&self.path, text)
    }

    /// Opens a file or a folder for reading. Nothing else is opened.
    pub fn find(&self, place: &WorkspacePath, links: Links) -> Result<Found, PathError> {
        // The type is checked before opening, because opening a device or a pipe can have effects.
        let probe = self.beneath(place, LOOK, links)?;
        match kind_of(probe.as_fd(), place)? {
            FileType::Directory => {
                self.beneath(place, OFlags::RDONLY | OFlags::DIRECTORY, links).map(Found::Folder)
            }
            FileType::RegularFile => {
                // If it was replaced since, this open neither blocks nor takes a terminal as the controlling one.
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
                let file = self.beneath(place, flags, links)?;
                match kind_of(file.as_fd(), place)? {
                    FileType::RegularFile => Ok(Found::File(File::from(file))),
                    other => Err(not_a_file(place, other)),
                }
            }
            other => Err(not_a_file(place, other)),
        }
    }

    /// Opens a file for reading.
    pub fn file(&self, place: &WorkspacePath, links: Links) -> Result<File, PathError> {
        match self.find(place, links)? {
            Found::File(file) => Ok(file),
            Found::Folder(_) => {
                Err(PathError::new("is_a_folder", format!("{place} is a folder, not a file")))
            }
        }
    }

    /// Opens a folder for listing.
    pub fn folder(&self, place: &WorkspacePath, links: Links) -> Result<OwnedFd, PathError> {
        match self.find(place, links)? {
            Found::Folder(folder) => Ok(folder),
            Found::File(_) => Err(PathError::new("not_a_folder", format!("{place} is a file, not a folder"))),
        }
    }

    fn beneath(&self, place: &WorkspacePath, flags: OFlags, links: Links) -> Result<OwnedFd, PathError> {
        open_beneath(self.dir.as_fd(), place.as_path(), flags | OFlags::CLOEXEC, links)
            .map_err(|error| self.explain(place, error))
    }

    /// Translates a system error for the caller that named a path.
    fn explain(&self, place: &WorkspacePath, error: Errno) -> PathError {
        let (code, message) = match error {
            Errno::NOENT | Errno::STALE if self.is_deleted() => return workspace_deleted(&self.path),
            Errno::NOENT => ("not_found", format!("{place} does not exist")),
            Errno::NOTDIR => {
                ("not_found", format!("{place} does not exist: part of the path is a file, not a folder"))
            }
            Errno::XDEV => (
                "outside_workspace",
                format!(
                    "{place} leads out of the workspace through a symbolic link, or through `..` after \
                         one"
                ),
            ),
            Errno::LOOP => (
                "symbolic_link",
                format!(
                    "{place} contains a symbolic link, which is not followed here; use the path of its target"
                ),
            ),
            Errno::ACCESS | Errno::PERM => {
                ("permission_denied", format!("cannot open {place}: permission denied"))
            }
            Errno::NAMETOOLONG => ("invalid_path", format!("the path {place} is too long")),
            Errno::ROFS => ("permission_denied", format!("{place} is on a read-only file system")),
            Errno::NOSPC | Errno::DQUOT => ("no_space", format!("{place} does not fit on the disk: {error}")),
            error => ("io_failed", format!("{place}: {error}")),
        };
        PathError::new(code, message)
    }

    /// A deleted folder stays open but has no links.
    fn is_deleted(&self) -> bool {
        rustix::fs::fstat(&self.dir).is_ok_and(|stat| stat.st_nlink == 0)
    }
}

fn workspace_deleted(path: &Path) -> PathError {
    PathError::new(
        "workspace_gone",
        format!("the workspace {} no longer exists; its files cannot be read or written", path.display()),
    )
}

fn not_a_file(place: &WorkspacePath, kind: FileType) -> PathError {
    let what = match kind {
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a symbolic link",
        _ => "neither",
    };
    PathError::new("not_a_file", format!("{place} is {what}, not a file or folder; it was not opened"))
}

fn kind_of(fd: BorrowedFd<'_>, place: &WorkspacePath) -> Result<FileType, PathError> {
    let stat = rustix::fs::fstat(fd)
        .map_err(|error| PathError::new("io_failed", format!("cannot read the type of {place}: {error}")))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// An error while reading or writing an open file.
pub(crate) fn io_failed(place: &WorkspacePath, error: &io::Error) -> PathError {
    PathError::new("io_failed", format!("{place}: {error}"))
}

/// Opens a path below an open folder.
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
    // EAGAIN: a concurrent rename kept the kernel from verifying a `..`.
    for _ in 0..limits::OPEN_ATTEMPTS_MAX {
        match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Older container filters return EPERM for unknown system calls.
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

/// Opens one part after the other and follows no symbolic link. A [`WorkspacePath`] has no `..`, so this cannot leave
/// the folder.
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
            // With O_DIRECTORY a link is reported as "not a directory"; return the more exact error.
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
