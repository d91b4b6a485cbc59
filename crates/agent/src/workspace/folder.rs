//! An open folder. Entries below it are inspected, opened and moved without following symbolic links.
//!
//! It must never know copies.
//!
//! Start at [`Folder`]. A path cannot change its meaning between a check and a write, because both start at the open
//! folder and a part that has become a link is an error.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::base::{self, EntryState};
use crate::paths::{LOOK, Links, open_beneath};

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    dir: OwnedFd,
}

/// A name in an open folder.
pub(super) struct FolderEntry<'a> {
    pub(super) parent: OwnedFd,
    pub(super) name: &'a OsStr,
}

/// Distinguishes a file from one that replaced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Fingerprint {
    fn of(stat: &Stat) -> Fingerprint {
        // The content of a folder does not change its identity.
        let is_folder = kind(stat) == FileType::Directory;
        Fingerprint {
            inode: stat.st_ino,
            length: if is_folder { 0 } else { stat.st_size.cast_unsigned() },
            changed: if is_folder { (0, 0) } else { (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)) },
        }
    }
}

/// Nanoseconds of a time, whose type differs between systems; fewer than a second has.
pub(super) fn nanoseconds(part: impl TryInto<i64>) -> i64 {
    part.try_into().unwrap_or_default()
}

impl Folder {
    /// Opens a folder, which must not be a link itself.
    pub(super) fn open(path: &Path) -> io::Result<Folder> {
        let dir = rustix::fs::open(path, LOOK | FOLDER, Mode::empty())?;
        Ok(Folder { dir })
    }

    /// Opens a folder whose path contains no link at all.
    pub(super) fn open_real(path: &Path) -> io::Result<Folder> {
        let top = Folder::open(Path::new("/"))?;
        let below = path.strip_prefix("/").unwrap_or(path);
        Ok(Folder { dir: top.below(below)? })
    }

    /// Wraps an open folder.
    pub(super) fn from_fd(dir: OwnedFd) -> Folder {
        Folder { dir }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    fn below(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        open_beneath(self.dir.as_fd(), path, LOOK | FOLDER, Links::Refuse)
    }

    /// Opens the parent folder of a path. Returns it with the name.
    pub(super) fn entry<'a>(&self, path: &'a Path) -> Result<FolderEntry<'a>, Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
        Ok(FolderEntry { parent: self.below(parent)?, name })
    }

    /// `None`: nothing exists there, or a parent is not a folder.
    pub(super) fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let found = self.entry(path).and_then(|entry| entry.stat());
        match found {
            Ok(stat) => Ok(Some(stat)),
            Err(why) if is_absent(why) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    /// The same for a folder, which may be this one; `None` for everything else.
    pub(super) fn folder_stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        match self.below(path).and_then(rustix::fs::fstat) {
            Ok(stat) => Ok(Some(stat)),
            Err(why) if is_absent(why) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    pub(super) fn fingerprint(&self, path: &Path) -> io::Result<Option<Fingerprint>> {
        Ok(self.stat(path)?.as_ref().map(Fingerprint::of))
    }

    pub(super) fn is_folder(&self, path: &Path) -> io::Result<bool> {
        Ok(self.stat(path)?.is_some_and(|stat| kind(&stat) == FileType::Directory))
    }

    /// Opens a regular file for reading, without blocking. Anything else is an error.
    pub(super) fn open_file(&self, path: &Path) -> io::Result<File> {
        self.entry(path)?.open_file()
    }

    /// The current state of a path. `known` saves reading a file whose length differs. `None`: nothing, or neither a
    /// file, folder nor link.
    pub(super) fn entry_state(
        &self,
        path: &Path,
        known: Option<&EntryState>,
    ) -> io::Result<Option<EntryState>> {
        let found = self.entry(path).and_then(|entry| entry.stat().map(|stat| (entry, stat)));
        let (entry, stat) = match found {
            Ok(found) => found,
            Err(why) if is_absent(why) => return Ok(None),
            Err(why) => return Err(why.into()),
        };
        match kind(&stat) {
            FileType::Directory => Ok(Some(EntryState::Folder)),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&entry.parent, entry.name, Vec::new())?;
                Ok(Some(EntryState::Link { target: OsString::from_vec(target.into_bytes()).into_vec() }))
            }
            FileType::RegularFile => {
                let (mode, length) = (base::plain_mode(stat.st_mode), stat.st_size.cast_unsigned());
                if let Some(EntryState::File { length: other, .. }) = known
                    && *other != length
                {
                    return Ok(Some(EntryState::File { mode, length, digest: [0; 32] }));
                }
                let (length, digest) = base::digest(&entry.open_file()?)?;
                Ok(Some(EntryState::File { mode, length, digest }))
            }
            _ => Ok(None),
        }
    }

    /// Makes the names in a folder durable.
    pub(super) fn sync(&self, path: &Path) -> io::Result<()> {
        let folder = self.below(path)?;
        // The handle was opened for inspection only and cannot be synced.
        let folder = rustix::fs::openat(&folder, ".", OFlags::RDONLY | FOLDER, Mode::empty())?;
        Ok(rustix::fs::fsync(&folder)?)
    }

    /// The names in a folder below this one.
    pub(super) fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let entry = self.entry(path)?;
        names(entry.parent.as_fd(), entry.name)
    }

    pub(super) fn is_empty(&self, path: &Path) -> io::Result<bool> {
        Ok(self.names(path)?.is_empty())
    }
}

impl FolderEntry<'_> {
    fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.parent, self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn open_file(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.parent, self.name, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("no longer a regular file"));
        }
        Ok(file)
    }

    /// Moves the entry elsewhere. Never overwrites.
    pub(super) fn rename_to(&self, folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::renameat_with(&self.parent, self.name, folder, name, RenameFlags::NOREPLACE)
    }

    /// Moves something to this entry. Never overwrites.
    pub(super) fn rename_from(&self, folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::renameat_with(folder, name, &self.parent, self.name, RenameFlags::NOREPLACE)
    }
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Whether an error means that nothing exists there, or that a parent is not a folder.
pub(super) fn is_absent(why: Errno) -> bool {
    matches!(why, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The names in a folder, which must not be a link.
pub(super) fn names(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Vec<OsString>> {
    let dir = rustix::fs::openat(parent, name, OFlags::RDONLY | FOLDER, Mode::empty())?;
    let mut found = Vec::new();
    for entry in Dir::new(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            found.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(found)
}
