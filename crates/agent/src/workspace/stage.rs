//! The stage of an apply: a folder in the original that holds new and replaced files while changes are applied, with a
//! journal of their paths.
//!
//! It must never know runs.
//!
//! Start at [`Stage`], and at [`recover`] for a stage that a crash left. Files are moved between the stage and their
//! paths by renaming, so the names in the stage show the progress. `old-N` was moved away, a missing `new-N` was
//! placed, and `taken-N` was removed again and may be another person's file.

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
use super::folder::{Fingerprint, Folder, is_absent, names};
use crate::workspace::limits;

/// The prefix of the folder's name. Such folders are never copied and never count as changes.
const NAME: &str = ".recount-apply-";

/// The paths of all files. Locked while changes are applied.
const JOURNAL: &str = "journal";

/// Exists once everything is placed.
const APPLIED: &str = "applied";

/// Makes git ignore the folder.
const IGNORE: &str = ".gitignore";

/// The journal's magic number and version.
const FORMAT: &[u8] = b"recount apply journal 1\n";

/// The path of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) path: PathBuf,
    /// The fingerprint of its staged file.
    pub(super) new: Option<Fingerprint>,
}

/// The stored form: paths need not be UTF-8.
#[derive(Serialize, Deserialize)]
struct StoredMove {
    path: Vec<u8>,
    new: Option<Fingerprint>,
}

/// The stage of one apply.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) original: &'a Folder,
    pub(super) name: OsString,
    dir: OwnedFd,
    /// Open, and therefore locked.
    journal: File,
    moves: Vec<Move>,
}

/// Whether a path is a stage or inside one.
pub(crate) fn is_stage(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().as_bytes().starts_with(NAME.as_bytes()))
}

pub(super) fn old(number: usize) -> OsString {
    format!("old-{number}").into()
}

pub(super) fn new(number: usize) -> OsString {
    format!("new-{number}").into()
}

/// An entry removed from a path where something had been placed, until its owner is known. Never deleted.
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

    pub(super) fn fingerprint(&self, name: &OsStr) -> io::Result<Option<Fingerprint>> {
        self.folder()?.fingerprint(Path::new(name))
    }

    fn folder(&self) -> io::Result<Folder> {
        self.dir.try_clone().map(Folder::from_fd)
    }

    pub(super) fn is_empty(&self, name: &OsStr) -> io::Result<bool> {
        Ok(names(self.dir.as_fd(), name)?.is_empty())
    }

    /// Records which file belongs to which path. Files may be moved from now on.
    pub(super) fn write_journal(&mut self, moves: Vec<Move>) -> io::Result<()> {
        let stored: Vec<StoredMove> = moves
            .iter()
            .map(|one| StoredMove { path: one.path.as_os_str().as_bytes().to_vec(), new: one.new })
            .collect();
        let mut bytes = FORMAT.to_vec();
        bytes.extend(postcard::to_stdvec(&stored).map_err(io::Error::other)?);
        if bytes.len() as u64 > limits::APPLY_JOURNAL_BYTES_MAX {
            let most = limits::APPLY_JOURNAL_BYTES_MAX;
            return Err(io::Error::other(format!(
                "the names of the changed files have more than {most} bytes"
            )));
        }
        self.journal.write_all(&bytes)?;
        self.journal.sync_all()?;
        rustix::fs::fsync(&self.dir)?;
        // The stage must be found again after a crash.
        self.original.sync(Path::new(""))?;
        self.moves = moves;
        Ok(())
    }

    /// Makes the current locations of files durable. A deleted folder has nothing to sync.
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

    /// Marks everything as placed: from now on nothing is restored, unless this fails.
    pub(super) fn mark_applied(&self) -> io::Result<()> {
        self.sync_places()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.dir, APPLIED, flags, Mode::RUSR)?;
        Ok(rustix::fs::fsync(&self.dir)?)
    }

    /// Undoes the apply: removes what was placed, then restores what was moved away. A placed file is removed only if
    /// it is still the same, and nothing is overwritten. Returns what could not be restored. An error: nothing was
    /// touched.
    pub(super) fn undo(&self) -> io::Result<UndoResult> {
        // Marking may have failed after the mark was created. With the mark, the files that were moved away would be
        // deleted.
        match rustix::fs::unlinkat(&self.dir, APPLIED, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => rustix::fs::fsync(&self.dir)?,
            Err(why) => return Err(why.into()),
        }
        let here = names(self.dir.as_fd(), OsStr::new("."))?;
        let holds = |name: &OsString| here.contains(name);
        let mut undone = UndoResult::default();
        for (number, one) in self.moves.iter().enumerate().rev() {
            if let Some(fingerprint) = one.new.filter(|_| !holds(&new(number)))
                && let Err(error) = self.remove_placed(number, one, fingerprint)
            {
                tracing::error!(path = %one.path.display(), %error, "an apply could not be undone");
                undone.not_restored.push(one.path.clone());
            }
        }
        for (number, one) in self.moves.iter().enumerate() {
            if !holds(&old(number)) {
                continue;
            }
            let restored = self.original.entry(&one.path);
            match restored.and_then(|entry| entry.rename_from(self.fd(), &old(number))) {
                Ok(()) => undone.restored += 1,
                Err(error) => {
                    tracing::error!(path = %one.path.display(), %error, "a file could not be restored");
                    if !undone.not_restored.contains(&one.path) {
                        undone.not_restored.push(one.path.clone());
                    }
                }
            }
        }
        Ok(undone)
    }

    /// Removes a placed entry, if it is still the same.
    fn remove_placed(&self, number: usize, one: &Move, fingerprint: Fingerprint) -> io::Result<()> {
        let name = taken(number);
        if self.fingerprint(&name)?.is_some() {
            // An earlier undo was interrupted here, or found the path taken.
            return self.return_or_keep(number, one, fingerprint);
        }
        if self.original.fingerprint(&one.path)? != Some(fingerprint) {
            // It is a person's own file by now, or was deleted.
            return Ok(());
        }
        let entry = match self.original.entry(&one.path) {
            Err(why) if is_absent(why) => return Ok(()),
            entry => entry?,
        };
        entry.rename_to(self.fd(), &name)?;
        self.return_or_keep(number, one, fingerprint)
    }

    /// Keeps a removed entry if it is the placed one. Otherwise something else arrived just before: it is moved back.
    fn return_or_keep(&self, number: usize, one: &Move, fingerprint: Fingerprint) -> io::Result<()> {
        let name = taken(number);
        let is_folder = self.folder()?.is_folder(Path::new(&name))?;
        if self.fingerprint(&name)? == Some(fingerprint) && (!is_folder || self.is_empty(&name)?) {
            return Ok(rustix::fs::renameat(self.fd(), &name, self.fd(), new(number))?);
        }
        Ok(self.original.entry(&one.path)?.rename_from(self.fd(), &name)?)
    }

    /// Deletes the stage with its content. The mark is deleted last, so that a crash meanwhile causes no undo.
    pub(super) fn remove(self) -> io::Result<()> {
        if rustix::fs::statat(&self.dir, APPLIED, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            // Everything is restored; it must not be restored a second time.
            self.sync_places()?;
            rustix::fs::fsync(&self.dir)?;
            self.journal.set_len(0)?;
            self.journal.sync_all()?;
        }
        remove_folder(self.original, &self.name, &self.dir)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // A command that starts at this moment inherits the open journal until it executes another program.
        rustix::fs::flock(&self.journal, FlockOperation::Unlock).ok();
    }
}

/// The result of an undo.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UndoResult {
    /// The number of restored files.
    pub(super) restored: u64,
    /// Paths that could not be restored.
    pub(super) not_restored: Vec<PathBuf>,
}

fn open_dir(original: &Folder, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(original.fd(), name, flags, Mode::empty())
}

fn remove_folder(original: &Folder, name: &OsStr, dir: &OwnedFd) -> io::Result<()> {
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
pub(super) fn list_names(paths: &[PathBuf]) -> String {
    let names: Vec<String> =
        paths.iter().take(limits::CHANGES_NAMED_MAX).map(|path| path.display().to_string()).collect();
    let more = paths.len() - names.len();
    let names = names.join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}

/// Why nothing may be applied now.
#[derive(Debug)]
pub(super) enum NotRecovered {
    /// A message for the client.
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

/// Undoes applies that a crash interrupted. Returns the number of restored files.
pub(super) fn recover(original: &Folder, path: &Path) -> Result<u64, NotRecovered> {
    let mut restored = 0;
    let found = names(original.fd(), OsStr::new("."))?;
    for name in found.into_iter().filter(|name| name.as_bytes().starts_with(NAME.as_bytes())) {
        let dir = match open_dir(original, &name) {
            // A file or a link: not created by an apply.
            Err(why) if is_absent(why) => continue,
            dir => dir?,
        };
        restored += recover_one(original, &name, dir, &path.join(&name))?;
    }
    Ok(restored)
}

fn recover_one(original: &Folder, name: &OsStr, dir: OwnedFd, path: &Path) -> Result<u64, NotRecovered> {
    let path = path.display();
    let refused = |why: String| Err(NotRecovered::Refused(format!("nothing was written: {why}")));
    if rustix::fs::fstat(&dir)?.st_uid != rustix::process::geteuid().as_raw() {
        return refused(format!("{path} is left over from another user's apply; check it and delete it"));
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
                let why = "another process is applying changes to the folder";
                return refused(format!("{why} ({path}); try again when it has finished"));
            }
            locked => locked?,
        }
    }
    if here.iter().any(|name| name == APPLIED) {
        // Only the cleanup was left, once the mark is durable.
        rustix::fs::fsync(&dir)?;
        remove_folder(original, name, &dir)?;
        return Ok(0);
    }
    let moves = match &journal {
        Some(journal) => read(journal)?,
        None => None,
    };
    let (Some(journal), Some(moves)) = (journal, moves) else {
        if holds_old {
            return refused(format!(
                "an earlier apply was interrupted, and {path} has files that it moved away, without their \
                 original paths; move back what you need and delete that folder"
            ));
        }
        // Nothing was moved yet.
        remove_folder(original, name, &dir)?;
        return Ok(0);
    };
    let stage = Stage { original, name: name.to_owned(), dir, journal, moves };
    let undone = stage.undo()?;
    if !undone.not_restored.is_empty() {
        return refused(format!(
            "an earlier apply was interrupted and cannot be undone because these paths are in use again: {}; \
             move those files away and apply again; the original files are in {path}",
            list_names(&undone.not_restored)
        ));
    }
    stage.remove()?;
    tracing::warn!(%path, put_back = undone.restored, "an interrupted apply was undone");
    Ok(undone.restored)
}

/// `None`: the journal is incomplete, or it is another file.
fn read(journal: &File) -> io::Result<Option<Vec<Move>>> {
    let mut bytes = Vec::new();
    journal.take(limits::APPLY_JOURNAL_BYTES_MAX).read_to_end(&mut bytes)?;
    let Some(bytes) = bytes.strip_prefix(FORMAT) else { return Ok(None) };
    let Ok(stored) = postcard::from_bytes::<Vec<StoredMove>>(bytes) else { return Ok(None) };
    let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
    let moves: Vec<Move> =
        stored.into_iter().map(|one| Move { path: path(one.path), new: one.new }).collect();
    // Other paths are never written.
    let is_plain = |path: &Path| {
        path.components().all(|part| matches!(part, Component::Normal(_)))
            && !base::is_in_git_folder(path)
            && !is_stage(path)
    };
    Ok(moves.iter().all(|one| is_plain(&one.path)).then_some(moves))
}
