//! Writes the changes of a copy into the original: all of them, or none.
//!
//! It must never know runs.
//!
//! Start at [`write`]. New content is first written to a [`Stage`] in the original and compared with the checked state.
//! Replaced files are moved to the stage, and moved back after a failure. Symbolic links are not followed, and git's
//! own folders are not touched.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RawMode, Uid};
use rustix::io::Errno;

use super::base::{self, EntryState};
use super::changes::Change;
use super::folder::{Folder, is_absent};
use super::stage::{self, Move, Stage};
use crate::patch::TreeResult;

/// The bit that gives new files in a folder the folder's group.
const SET_GROUP: RawMode = 0o2000;

/// The source of new content.
#[derive(Clone, Copy)]
pub(super) enum NewContent<'a> {
    /// A folder with the same paths, except for the files in memory.
    Copy(&'a Folder, &'a TreeResult),
    /// Memory. Its content is the checked one.
    Memory(&'a TreeResult),
}

/// Why nothing was written.
#[derive(Debug)]
pub(super) enum NotWritten {
    /// Another process changed this in the meantime.
    Changed(PathBuf),
    Failed(io::Error),
}

impl From<io::Error> for NotWritten {
    fn from(why: io::Error) -> Self {
        NotWritten::Failed(why)
    }
}

impl From<Errno> for NotWritten {
    fn from(why: Errno) -> Self {
        NotWritten::Failed(why.into())
    }
}

/// Writes checked changes into the original; `merged` has the content of files that are not as in the copy. `id` names
/// the stage and must not have been used before.
pub(super) fn write(
    copy: &Path,
    original: &Path,
    changes: &[&Change],
    merged: &TreeResult,
    id: u128,
) -> Result<(), NotWritten> {
    let (copy, original) = (Folder::open(copy)?, Folder::open_real(original)?);
    write_in(&original, NewContent::Copy(&copy, merged), changes, id)
}

/// The same in an open folder, from a copy or from memory.
pub(super) fn write_in(
    original: &Folder,
    from: NewContent<'_>,
    changes: &[&Change],
    id: u128,
) -> Result<(), NotWritten> {
    let mut stage = Stage::create(original, id)?;
    let written = stage_all(&mut stage, from, changes)
        .and_then(|()| place_all(&stage, changes))
        .and_then(|()| Ok(stage.mark_applied()?));
    if let Err(why) = written {
        let undo = stage.undo().map_err(|error| {
            let at = stage.name.display();
            io::Error::other(format!(
                "writing failed and the original files could not be restored ({error}); they are in {at}, \
                 and the next apply tries again"
            ))
        })?;
        if undo.not_restored.is_empty() {
            remove_stage(stage);
            return Err(why);
        }
        // The stage has the only copy of the files that were not restored.
        let named = stage::list_names(&undo.not_restored);
        let message = format!(
            "some original files could not be restored ({named}); they are in {}, and the next apply tries \
             again",
            stage.name.display()
        );
        return Err(NotWritten::Failed(io::Error::other(message)));
    }
    remove_stage(stage);
    Ok(())
}

/// The next apply removes what remains of a stage.
fn remove_stage(stage: Stage<'_>) {
    let name = stage.name.clone();
    if let Err(error) = stage.remove() {
        tracing::warn!(name = %name.display(), %error, "the temporary folder of an apply could not be deleted");
    }
}

/// Writes all new content to the stage. This changes nothing in the original.
pub(super) fn stage_all(
    stage: &mut Stage<'_>,
    from: NewContent<'_>,
    changes: &[&Change],
) -> Result<(), NotWritten> {
    let mut moves = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        if base::is_in_git_folder(&change.path) || stage::is_stage(&change.path) {
            let message = format!("{} belongs to git or to an apply", change.path.display());
            return Err(NotWritten::Failed(io::Error::other(message)));
        }
        let name = stage::new(number);
        let staged = match from {
            NewContent::Copy(_, merged) if merged.contains_key(&change.path) => {
                stage_from_memory(stage, &name, merged, change)?
            }
            NewContent::Copy(copy, _) => stage_from_copy(stage, &name, copy, change)?,
            NewContent::Memory(result) => stage_from_memory(stage, &name, result, change)?,
        };
        if staged != change.after {
            return Err(NotWritten::Changed(change.path.clone()));
        }
        let new = stage.fingerprint(&name)?;
        moves.push(Move { path: change.path.clone(), new });
    }
    Ok(stage.write_journal(moves)?)
}

/// Stages the current state in the copy. Returns that state.
fn stage_from_copy(
    stage: &Stage<'_>,
    name: &OsStr,
    copy: &Folder,
    change: &Change,
) -> Result<Option<EntryState>, NotWritten> {
    let Some(EntryState::File { .. }) = &change.after else {
        let now = copy.entry_state(&change.path, change.after.as_ref())?;
        match &now {
            Some(EntryState::Folder) => rustix::fs::mkdirat(stage.fd(), name, Mode::from_raw_mode(0o777))?,
            Some(EntryState::Link { target }) => {
                rustix::fs::symlinkat(OsStr::from_bytes(target), stage.fd(), name)?;
            }
            // It was not a file when it was checked.
            Some(EntryState::File { .. }) => return Ok(now),
            None => return Ok(None),
        }
        set_owner(stage, name, &change.path)?;
        return Ok(now);
    };
    let from = match copy.open_file(&change.path) {
        Ok(from) => from,
        // Deleted, or no longer a file.
        Err(why) if Errno::from_io_error(&why).is_none_or(is_absent) => return Ok(None),
        Err(why) => return Err(why.into()),
    };
    let about = from.metadata()?;
    let mode = base::plain_mode(about.permissions().mode());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let to = File::from(rustix::fs::openat(stage.fd(), name, flags, Mode::RUSR | Mode::WUSR)?);
    let (length, digest) = base::blocks(&from, about.len(), |place, piece| to.write_all_at(piece, place))?;
    to.set_len(length)?;
    set_owner(stage, name, &change.path)?;
    to.set_permissions(fs::Permissions::from_mode(mode))?;
    to.sync_all()?;
    Ok(Some(EntryState::File { mode, length, digest }))
}

/// Stages content from memory. Returns the checked state, because nothing can have changed it.
fn stage_from_memory(
    stage: &Stage<'_>,
    name: &OsStr,
    result: &TreeResult,
    change: &Change,
) -> Result<Option<EntryState>, NotWritten> {
    let file = result.get(&change.path).and_then(Option::as_ref);
    match (&change.after, file) {
        (None, _) => return Ok(None),
        (Some(EntryState::Folder), _) => {
            rustix::fs::mkdirat(stage.fd(), name, Mode::from_raw_mode(0o777))?;
        }
        (Some(EntryState::Link { target }), _) => {
            rustix::fs::symlinkat(OsStr::from_bytes(target), stage.fd(), name)?;
        }
        (Some(EntryState::File { mode, .. }), Some(file)) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let replaces = matches!(change.before, Some(EntryState::File { .. }));
            // A new file gets the process's default mode.
            let first =
                if replaces { Mode::RUSR | Mode::WUSR } else { Mode::from_raw_mode(*mode as RawMode) };
            let to = File::from(rustix::fs::openat(stage.fd(), name, flags, first)?);
            to.write_all_at(&file.bytes, 0)?;
            set_owner(stage, name, &change.path)?;
            if replaces {
                to.set_permissions(fs::Permissions::from_mode(*mode))?;
            }
            to.sync_all()?;
            return Ok(change.after.clone());
        }
        (Some(EntryState::File { .. }), None) => return Ok(None),
    }
    set_owner(stage, name, &change.path)?;
    Ok(change.after.clone())
}

/// Gives a staged entry the owner of the file that it replaces, or of the folder that it is new in. Only the superuser
/// can change owners; others keep the group if they may.
fn set_owner(stage: &Stage<'_>, name: &OsStr, path: &Path) -> Result<(), NotWritten> {
    let mut reference = stage.original.stat(path)?;
    let replaces = reference.is_some();
    if reference.is_none() {
        for parent in path.ancestors().skip(1) {
            reference = stage.original.folder_stat(parent)?;
            if reference.is_some() {
                break;
            }
        }
    }
    let Some(reference) = reference else { return Ok(()) };
    let (user, group) = (Uid::from_raw(reference.st_uid), Gid::from_raw(reference.st_gid));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    if rustix::process::geteuid().is_root() {
        return Ok(rustix::fs::chownat(stage.fd(), name, Some(user), Some(group), flags)?);
    }
    if replaces || reference.st_mode & SET_GROUP != 0 {
        rustix::fs::chownat(stage.fd(), name, None, Some(group), flags).ok();
    }
    Ok(())
}

/// Moves replaced entries to the stage, and staged ones to their paths.
pub(super) fn place_all(stage: &Stage<'_>, changes: &[&Change]) -> Result<(), NotWritten> {
    // Deleted entries, the deepest first; a folder is moved when it is empty.
    for (number, change) in changes.iter().enumerate().rev() {
        let changed = || NotWritten::Changed(change.path.clone());
        let is_folder = change.before == Some(EntryState::Folder);
        if change.before.is_none() || is_folder && change.after == Some(EntryState::Folder) {
            continue;
        }
        if is_folder && !stage.original.is_empty(&change.path).map_err(|_| changed())? {
            // It contains something else: then it stays.
            if change.after.is_none() {
                continue;
            }
            return Err(changed());
        }
        let name = stage::old(number);
        let entry = stage.original.entry(&change.path);
        match entry.and_then(|entry| entry.rename_to(stage.fd(), &name)) {
            Err(why) if is_absent(why) => return Err(changed()),
            moved => moved?,
        }
        if stage.fingerprint(&name)? != change.fingerprint || is_folder && !stage.is_empty(&name)? {
            return Err(changed());
        }
    }
    for (number, change) in changes.iter().enumerate().filter(|(_, change)| change.after.is_some()) {
        // Never overwrites what was created since.
        let entry = stage.original.entry(&change.path);
        match entry.and_then(|entry| entry.rename_from(stage.fd(), &stage::new(number))) {
            Err(why) if is_absent(why) || why == Errno::EXIST => {
                return Err(NotWritten::Changed(change.path.clone()));
            }
            placed => placed?,
        }
    }
    Ok(())
}
