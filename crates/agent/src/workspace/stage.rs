//! The folder in the original that new and replaced files are in while changes are applied, with a journal that says what
//! belongs where.
//!
//! Look at [`Stage`], and at [`recover`] for one that a crash left. Files are moved between the stage and their places by
//! name, so what is in the stage says how far it came: `old-N` was moved away, `new-N` that is missing was placed, and
//! `taken-N` was taken away from there and may be a person's own. It must never know runs.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::base;
use super::folder::{Folder, Seen, is_absent, names};
use crate::workspace::limits;

/// How the folder's name begins. What is called so is never copied and is no change.
const NAME: &str = ".recount-apply-";

/// What belongs where. Locked while changes are applied.
const JOURNAL: &str = "journal";

/// There once everything is in its place.
const APPLIED: &str = "applied";

/// Has git ignore the folder.
const IGNORE: &str = ".gitignore";

/// Says what the journal is and which layout it has.
const FORMAT: &[u8] = b"recount apply journal 1\n";

/// Where one change goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) path: PathBuf,
    /// What is staged for it.
    pub(super) new: Option<Seen>,
}

/// As it is stored: paths need not be UTF-8.
#[derive(Serialize, Deserialize)]
struct StoredMove {
    path: Vec<u8>,
    new: Option<Seen>,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) original: &'a Folder,
    pub(super) name: OsString,
    dir: OwnedFd,
    /// Held open, and with that locked.
    journal: File,
    moves: Vec<Move>,
}

/// Whether a path is, or is in, such a folder.
pub(crate) fn is_stage(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().as_bytes().starts_with(NAME.as_bytes()))
}

pub(super) fn old(number: usize) -> OsString {
    format!("old-{number}").into()
}

pub(super) fn new(number: usize) -> OsString {
    format!("new-{number}").into()
}

/// What was at a place where something had been put, until it is known whose it is. Never removed.
pub(super) fn taken(number: usize) -> OsString {
    format!("taken-{number}").into()
}

impl<'a> Stage<'a> {
    pub(super) fn create(original: &'a Folder, id: u128) -> io::Result<Stage<'a>> {
        let name = OsString::from(format!("{NAME}{id:032x}"));
        rustix::fs::mkdirat(original.fd(), &name, Mode::RWXU)?;
        let dir = open_dir(original, &name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let journal = File::from(rustix::fs::openat(&dir, JOURNAL, flags, mode)?);
        rustix::fs::flock(&journal, FlockOperation::NonBlockingLockExclusive)?;
        File::from(rustix::fs::openat(&dir, IGNORE, flags, mode)?).write_all(b"*\n")?;
        Ok(Stage { original, name, dir, journal, moves: Vec::new() })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    pub(super) fn seen(&self, name: &OsStr) -> io::Result<Option<Seen>> {
        self.folder()?.seen(Path::new(name))
    }

    fn folder(&self) -> io::Result<Folder> {
        self.dir.try_clone().map(Folder::of)
    }

    pub(super) fn is_empty(&self, name: &OsStr) -> io::Result<bool> {
        Ok(names(self.dir.as_fd(), name)?.is_empty())
    }

    /// Notes what belongs where. From now on files may be moved.
    pub(super) fn note(&mut self, moves: Vec<Move>) -> io::Result<()> {
        let stored: Vec<StoredMove> = moves
            .iter()
            .map(|one| StoredMove { path: one.path.as_os_str().as_bytes().to_vec(), new: one.new })
            .collect();
        let mut bytes = FORMAT.to_vec();
        bytes.extend(postcard::to_stdvec(&stored).map_err(io::Error::other)?);
        if bytes.len() as u64 > limits::APPLY_JOURNAL_BYTES_MAX {
            let most = limits::APPLY_JOURNAL_BYTES_MAX;
            return Err(io::Error::other(format!("the names of what changed take more than {most} bytes")));
        }
        self.journal.write_all(&bytes)?;
        self.journal.sync_all()?;
        rustix::fs::fsync(&self.dir)?;
        // What is moved here must be found again.
        self.original.sync(Path::new(""))?;
        self.moves = moves;
        Ok(())
    }

    /// Makes it durable where files are now. A folder that is gone has nothing to keep.
    fn sync_places(&self) -> io::Result<()> {
        let parents: BTreeSet<&Path> = self.moves.iter().filter_map(|one| one.path.parent()).collect();
        for parent in parents {
            match self.original.sync(parent) {
                Err(why) if Errno::from_io_error(&why).is_some_and(is_absent) => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    /// Everything is in its place: from now on nothing is put back, unless this fails.
    pub(super) fn settle(&self) -> io::Result<()> {
        self.sync_places()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.dir, APPLIED, flags, Mode::RUSR)?;
        Ok(rustix::fs::fsync(&self.dir)?)
    }

    /// Puts everything back: first what was placed goes, then what was moved away returns. Only what is still the file
    /// that was placed is taken away, and nothing is put over something that came since. Answers what could not be put
    /// back. An error: nothing was touched.
    pub(super) fn undo(&self) -> io::Result<Undone> {
        // Settling may have failed behind the mark. With the mark there, what was moved away would be removed.
        match rustix::fs::unlinkat(&self.dir, APPLIED, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => rustix::fs::fsync(&self.dir)?,
            Err(why) => return Err(why.into()),
        }
        let here = names(self.dir.as_fd(), OsStr::new("."))?;
        let holds = |name: &OsString| here.contains(name);
        let mut undone = Undone::default();
        for (number, one) in self.moves.iter().enumerate().rev() {
            if let Some(seen) = one.new.filter(|_| !holds(&new(number)))
                && let Err(error) = self.take_back(number, one, seen)
            {
                tracing::error!(path = %one.path.display(), %error, "what was applied could not be taken back");
                undone.left.push(one.path.clone());
            }
        }
        for (number, one) in self.moves.iter().enumerate() {
            if !holds(&old(number)) {
                continue;
            }
            let back = self.original.entry(&one.path);
            match back.and_then(|entry| entry.rename_from(self.fd(), &old(number))) {
                Ok(()) => undone.back += 1,
                Err(error) => {
                    tracing::error!(path = %one.path.display(), %error, "a file could not be put back");
                    if !undone.left.contains(&one.path) {
                        undone.left.push(one.path.clone());
                    }
                }
            }
        }
        Ok(undone)
    }

    /// Takes away what was placed, if that is what is there.
    fn take_back(&self, number: usize, one: &Move, seen: Seen) -> io::Result<()> {
        let name = taken(number);
        if self.seen(&name)?.is_some() {
            // An earlier undoing was cut off here, or found the place taken.
            return self.return_or_keep(number, one, seen);
        }
        if self.original.seen(&one.path)? != Some(seen) {
            // A person's own file by now, or gone.
            return Ok(());
        }
        let entry = match self.original.entry(&one.path) {
            Err(why) if is_absent(why) => return Ok(()),
            entry => entry?,
        };
        entry.rename_to(self.fd(), &name)?;
        self.return_or_keep(number, one, seen)
    }

    /// What was taken away is kept if it is what was placed. Something else came there just before, or into it: it returns.
    fn return_or_keep(&self, number: usize, one: &Move, seen: Seen) -> io::Result<()> {
        let name = taken(number);
        let is_folder = self.folder()?.is_folder(Path::new(&name))?;
        if self.seen(&name)? == Some(seen) && (!is_folder || self.is_empty(&name)?) {
            return Ok(rustix::fs::renameat(self.fd(), &name, self.fd(), new(number))?);
        }
        Ok(self.original.entry(&one.path)?.rename_from(self.fd(), &name)?)
    }

    /// Removes the stage with what is in it. The mark that everything is applied goes last, so that a crash meanwhile is
    /// no reason to put something back.
    pub(super) fn clear(self) -> io::Result<()> {
        if rustix::fs::statat(&self.dir, APPLIED, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            // Everything is back; nothing is to be put back a second time.
            self.sync_places()?;
            rustix::fs::fsync(&self.dir)?;
            self.journal.set_len(0)?;
            self.journal.sync_all()?;
        }
        clear(self.original, &self.name, &self.dir)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // A command that starts at this moment has the journal open as well until it is another program.
        rustix::fs::flock(&self.journal, FlockOperation::Unlock).ok();
    }
}

/// What became of putting things back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Undone {
    /// How many are back.
    pub(super) back: u64,
    /// What is not.
    pub(super) left: Vec<PathBuf>,
}

fn open_dir(original: &Folder, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(original.fd(), name, flags, Mode::empty())
}

fn clear(original: &Folder, name: &OsStr, dir: &OwnedFd) -> io::Result<()> {
    let mut here = names(dir.as_fd(), OsStr::new("."))?;
    here.retain(|name| is_ours(name));
    here.sort_by_key(|name| (name == APPLIED, name == JOURNAL));
    for one in here {
        match rustix::fs::unlinkat(dir, &one, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => rustix::fs::unlinkat(dir, &one, AtFlags::REMOVEDIR)?,
            done => done?,
        }
    }
    Ok(rustix::fs::unlinkat(original.fd(), name, AtFlags::REMOVEDIR)?)
}

fn is_ours(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    name == JOURNAL
        || name == APPLIED
        || name == IGNORE
        || [&b"new-"[..], b"old-"].iter().any(|one| bytes.starts_with(one))
}

/// Some paths, for a message.
pub(super) fn named(paths: &[PathBuf]) -> String {
    let names: Vec<String> =
        paths.iter().take(limits::CHANGES_NAMED_MAX).map(|path| path.display().to_string()).collect();
    let more = paths.len() - names.len();
    let names = names.join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}

/// Why nothing may be applied now.
#[derive(Debug)]
pub(super) enum NotRecovered {
    /// In words for the client.
    Refused(String),
    Failed(io::Error),
}

impl From<io::Error> for NotRecovered {
    fn from(why: io::Error) -> Self {
        NotRecovered::Failed(why)
    }
}

impl From<Errno> for NotRecovered {
    fn from(why: Errno) -> Self {
        NotRecovered::Failed(why.into())
    }
}

/// Undoes what an apply began that a crash cut off. Answers how many files were put back.
pub(super) fn recover(original: &Folder, path: &Path) -> Result<u64, NotRecovered> {
    let mut back = 0;
    let found = names(original.fd(), OsStr::new("."))?;
    for name in found.into_iter().filter(|name| name.as_bytes().starts_with(NAME.as_bytes())) {
        let dir = match open_dir(original, &name) {
            // A file, or a link: not of our making.
            Err(why) if is_absent(why) => continue,
            dir => dir?,
        };
        back += recover_one(original, &name, dir, &path.join(&name))?;
    }
    Ok(back)
}

fn recover_one(original: &Folder, name: &OsStr, dir: OwnedFd, path: &Path) -> Result<u64, NotRecovered> {
    let path = path.display();
    let refused = |why: String| Err(NotRecovered::Refused(format!("nothing was written: {why}")));
    if rustix::fs::fstat(&dir)?.st_uid != rustix::process::geteuid().as_raw() {
        return refused(format!("{path} was left by another user's apply; look at it and remove it"));
    }
    let here = names(dir.as_fd(), OsStr::new("."))?;
    let holds = |prefix: &[u8]| here.iter().any(|name| name.as_bytes().starts_with(prefix));
    let holds_old = holds(b"old-") || holds(b"taken-");
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let journal = match rustix::fs::openat(&dir, JOURNAL, flags, Mode::empty()) {
        Ok(journal) => Some(File::from(journal)),
        Err(why) if is_absent(why) => None,
        Err(why) => return Err(why.into()),
    };
    if let Some(journal) = &journal {
        match rustix::fs::flock(journal, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                let why = "another process applies changes to the folder at this moment";
                return refused(format!("{why} ({path}); try again when it is done"));
            }
            locked => locked?,
        }
    }
    if here.iter().any(|name| name == APPLIED) {
        // Only tidying up was left, once the mark is there for good.
        rustix::fs::fsync(&dir)?;
        clear(original, name, &dir)?;
        return Ok(0);
    }
    let moves = match &journal {
        Some(journal) => read(journal)?,
        None => None,
    };
    let (Some(journal), Some(moves)) = (journal, moves) else {
        if holds_old {
            return refused(format!(
                "an earlier apply was cut off, and {path} holds files that it had moved away but does not say where they \
                 belong; move back what you need and remove that folder"
            ));
        }
        // It had not moved anything yet.
        clear(original, name, &dir)?;
        return Ok(0);
    };
    let stage = Stage { original, name: name.to_owned(), dir, journal, moves };
    let undone = stage.undo()?;
    if !undone.left.is_empty() {
        return refused(format!(
            "an earlier apply was cut off and cannot be undone, because something else is now where these belong: {}; \
             move it away and apply again; the files are in {path}",
            named(&undone.left)
        ));
    }
    stage.clear()?;
    tracing::warn!(%path, put_back = undone.back, "an apply that was cut off was undone");
    Ok(undone.back)
}

/// `None`: it was not whole yet when the apply was cut off, or it is none.
fn read(journal: &File) -> io::Result<Option<Vec<Move>>> {
    let mut bytes = Vec::new();
    journal.take(limits::APPLY_JOURNAL_BYTES_MAX).read_to_end(&mut bytes)?;
    let Some(bytes) = bytes.strip_prefix(FORMAT) else { return Ok(None) };
    let Ok(stored) = postcard::from_bytes::<Vec<StoredMove>>(bytes) else { return Ok(None) };
    let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
    let moves: Vec<Move> =
        stored.into_iter().map(|one| Move { path: path(one.path), new: one.new }).collect();
    // We never write any other.
    let is_plain = |path: &Path| {
        path.components().all(|part| matches!(part, Component::Normal(_)))
            && !base::is_gits(path)
            && !is_stage(path)
    };
    Ok(moves.iter().all(|one| is_plain(&one.path)).then_some(moves))
}
