//! A folder held open. What is in it is looked at, opened and moved below it, and no symbolic link is followed.
//!
//! Look at [`Folder`]. What a path means cannot change between a look and a write, because both begin at the open folder
//! and a part that has become a link is an error. It must never know copies.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::base::{self, Thing};
use crate::paths::{LOOK, Links, open_beneath};

/// See the file's head.
#[derive(Debug)]
pub(super) struct Folder {
    dir: OwnedFd,
}

/// A name in an open folder.
pub(super) struct FolderEntry<'a> {
    pub(super) parent: OwnedFd,
    pub(super) name: &'a OsStr,
}

/// What tells a file from one that took its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Seen {
    fn of(stat: &Stat) -> Seen {
        // A folder is the same whatever is in it.
        let is_folder = kind(stat) == FileType::Directory;
        Seen {
            inode: stat.st_ino,
            length: if is_folder { 0 } else { stat.st_size.cast_unsigned() },
            changed: if is_folder { (0, 0) } else { (stat.st_mtime, stat.st_mtime_nsec.cast_signed()) },
        }
    }
}

impl Folder {
    /// Opens a folder; its own name may be no link.
    pub(super) fn open(path: &Path) -> io::Result<Folder> {
        let dir = rustix::fs::open(path, LOOK | FOLDER, Mode::empty())?;
        Ok(Folder { dir })
    }

    /// The same where no part of the path from the root on may be a link.
    pub(super) fn open_real(path: &Path) -> io::Result<Folder> {
        let top = Folder::open(Path::new("/"))?;
        let below = path.strip_prefix("/").unwrap_or(path);
        Ok(Folder { dir: top.below(below)? })
    }

    /// One that is open already.
    pub(super) fn of(dir: OwnedFd) -> Folder {
        Folder { dir }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    fn below(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        open_beneath(self.dir.as_fd(), path, LOOK | FOLDER, Links::Refuse)
    }

    /// The open folder that a path is in, and its name there.
    pub(super) fn entry<'a>(&self, path: &'a Path) -> Result<FolderEntry<'a>, Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
        Ok(FolderEntry { parent: self.below(parent)?, name })
    }

    /// `None`: nothing is there, or a part of the way is no folder.
    pub(super) fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let found = self.entry(path).and_then(|entry| entry.stat());
        match found {
            Ok(stat) => Ok(Some(stat)),
            Err(why) if is_absent(why) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    /// The same of a folder, which may be this one; `None` for all else.
    pub(super) fn folder_stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        match self.below(path).and_then(rustix::fs::fstat) {
            Ok(stat) => Ok(Some(stat)),
            Err(why) if is_absent(why) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    pub(super) fn seen(&self, path: &Path) -> io::Result<Option<Seen>> {
        Ok(self.stat(path)?.as_ref().map(Seen::of))
    }

    pub(super) fn is_folder(&self, path: &Path) -> io::Result<bool> {
        Ok(self.stat(path)?.is_some_and(|stat| kind(&stat) == FileType::Directory))
    }

    /// Opens a file for reading, and nothing that would wait. What is no regular file is an error.
    pub(super) fn open_file(&self, path: &Path) -> io::Result<File> {
        self.entry(path)?.open_file()
    }

    /// What is at a path now. `known` saves reading a file whose length differs anyway. `None`: nothing, or neither a
    /// file, a folder nor a link.
    pub(super) fn look(&self, path: &Path, known: Option<&Thing>) -> io::Result<Option<Thing>> {
        let found = self.entry(path).and_then(|entry| entry.stat().map(|stat| (entry, stat)));
        let (entry, stat) = match found {
            Ok(found) => found,
            Err(why) if is_absent(why) => return Ok(None),
            Err(why) => return Err(why.into()),
        };
        match kind(&stat) {
            FileType::Directory => Ok(Some(Thing::Folder)),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&entry.parent, entry.name, Vec::new())?;
                Ok(Some(Thing::Link { target: OsString::from_vec(target.into_bytes()).into_vec() }))
            }
            FileType::RegularFile => {
                let (mode, length) = (base::plain_mode(stat.st_mode), stat.st_size.cast_unsigned());
                if let Some(Thing::File { length: other, .. }) = known
                    && *other != length
                {
                    return Ok(Some(Thing::File { mode, length, digest: [0; 32] }));
                }
                let (length, digest) = base::digest(&entry.open_file()?)?;
                Ok(Some(Thing::File { mode, length, digest }))
            }
            _ => Ok(None),
        }
    }

    /// Makes it durable which names a folder holds.
    pub(super) fn sync(&self, path: &Path) -> io::Result<()> {
        let folder = self.below(path)?;
        // It was opened to look at only, which is not enough.
        let folder = rustix::fs::openat(&folder, ".", OFlags::RDONLY | FOLDER, Mode::empty())?;
        Ok(rustix::fs::fsync(&folder)?)
    }

    /// The names in a folder below.
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
            return Err(io::Error::other("not a regular file any more"));
        }
        Ok(file)
    }

    /// Moves something to another place, never over anything.
    pub(super) fn rename_to(&self, folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::renameat_with(&self.parent, self.name, folder, name, RenameFlags::NOREPLACE)
    }

    /// The other way round.
    pub(super) fn rename_from(&self, folder: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::renameat_with(folder, name, &self.parent, self.name, RenameFlags::NOREPLACE)
    }
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Whether an error means that nothing is there, or that the way there has become another.
pub(super) fn is_absent(why: Errno) -> bool {
    matches!(why, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The names in a folder, which is no link.
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
