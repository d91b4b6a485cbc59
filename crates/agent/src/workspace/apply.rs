//! Writes the changes of a copy into the original: all of them, or none.
//!
//! Look at [`write`]. Everything new is written to a [`Stage`] in the original first and compared with what was judged;
//! what is replaced is moved there, and moved back when something fails. Nothing is reached through a symbolic link, and
//! nothing of git's own. It must never know runs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::base::{self, Thing};
use super::changes::Change;
use super::folder::{Folder, is_absent};
use super::stage::{self, Move, Stage};
use crate::patch::TreeResult;

/// The bit that gives new files in a folder the folder's group.
const SET_GROUP: u32 = 0o2000;

/// Where what is written comes from.
#[derive(Clone, Copy)]
pub(super) enum NewContent<'a> {
    /// A folder that holds it at the same paths.
    Copy(&'a Folder),
    /// Memory. It is as it was judged.
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

/// Makes these changes, which were judged to be possible, in the original. Answers what was written, as it is now. `id`
/// names the stage and must not have been used before.
pub(super) fn write(
    copy: &Path,
    original: &Path,
    changes: &[&Change],
    id: u128,
) -> Result<Vec<(PathBuf, Option<Thing>)>, NotWritten> {
    let (copy, original) = (Folder::open(copy)?, Folder::open_real(original)?);
    write_in(&original, NewContent::Copy(&copy), changes, id)?;
    Ok(changes.iter().map(|change| (change.path.clone(), change.after.clone())).collect())
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
        .and_then(|()| make(&stage, changes))
        .and_then(|()| Ok(stage.settle()?));
    if let Err(why) = written {
        let undone = stage.undo().map_err(|error| {
            let at = stage.name.display();
            io::Error::other(format!(
                "writing failed and nothing could be put back ({error}); what was moved away is in {at}, and the next \
                 apply tries again"
            ))
        })?;
        if undone.left.is_empty() {
            clear(stage);
            return Err(why);
        }
        // What could not be put back is there and nowhere else.
        let named = stage::named(&undone.left);
        let message = format!(
            "not everything could be put back ({named}); what was moved away is in {}, and the next apply tries again",
            stage.name.display()
        );
        return Err(NotWritten::Failed(io::Error::other(message)));
    }
    clear(stage);
    Ok(())
}

/// What stays of a stage is removed by the next apply.
fn clear(stage: Stage<'_>) {
    let name = stage.name.clone();
    if let Err(error) = stage.clear() {
        tracing::warn!(name = %name.display(), %error, "the folder of an apply could not be removed");
    }
}

/// Writes everything new beside the places it is for. Nothing is changed by that.
pub(super) fn stage_all(
    stage: &mut Stage<'_>,
    from: NewContent<'_>,
    changes: &[&Change],
) -> Result<(), NotWritten> {
    let mut moves = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        if base::is_gits(&change.path) || stage::is_stage(&change.path) {
            let message = format!("{} is git's own, or an apply's", change.path.display());
            return Err(NotWritten::Failed(io::Error::other(message)));
        }
        let name = stage::new(number);
        let staged = match from {
            NewContent::Copy(copy) => stage_one(stage, &name, copy, change)?,
            NewContent::Memory(made) => stage_made(stage, &name, made, change)?,
        };
        if staged != change.after {
            return Err(NotWritten::Changed(change.path.clone()));
        }
        let new = stage.seen(&name)?;
        moves.push(Move { path: change.path.clone(), new });
    }
    Ok(stage.note(moves)?)
}

/// What the copy holds now is what is staged. Answers what that is.
fn stage_one(
    stage: &Stage<'_>,
    name: &OsStr,
    copy: &Folder,
    change: &Change,
) -> Result<Option<Thing>, NotWritten> {
    let Some(Thing::File { .. }) = &change.after else {
        let now = copy.look(&change.path, change.after.as_ref())?;
        match &now {
            Some(Thing::Folder) => rustix::fs::mkdirat(stage.fd(), name, Mode::from_raw_mode(0o777))?,
            Some(Thing::Link { target }) => {
                rustix::fs::symlinkat(OsStr::from_bytes(target), stage.fd(), name)?;
            }
            // It was judged to be none.
            Some(Thing::File { .. }) => return Ok(now),
            None => return Ok(None),
        }
        own(stage, name, &change.path)?;
        return Ok(now);
    };
    let from = match copy.open_file(&change.path) {
        Ok(from) => from,
        // Gone, or no file any more.
        Err(why) if Errno::from_io_error(&why).is_none_or(is_absent) => return Ok(None),
        Err(why) => return Err(why.into()),
    };
    let about = from.metadata()?;
    let mode = base::plain_mode(about.permissions().mode());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let to = File::from(rustix::fs::openat(stage.fd(), name, flags, Mode::RUSR | Mode::WUSR)?);
    let (length, digest) = base::blocks(&from, about.len(), |place, piece| to.write_all_at(piece, place))?;
    to.set_len(length)?;
    own(stage, name, &change.path)?;
    to.set_permissions(fs::Permissions::from_mode(mode))?;
    to.sync_all()?;
    Ok(Some(Thing::File { mode, length, digest }))
}

/// What was made in memory is staged. Answers what was judged, because nothing came between.
fn stage_made(
    stage: &Stage<'_>,
    name: &OsStr,
    made: &TreeResult,
    change: &Change,
) -> Result<Option<Thing>, NotWritten> {
    let file = made.get(&change.path).and_then(Option::as_ref);
    match (&change.after, file) {
        (None, _) => return Ok(None),
        (Some(Thing::Folder), _) => {
            rustix::fs::mkdirat(stage.fd(), name, Mode::from_raw_mode(0o777))?;
        }
        (Some(Thing::Link { target }), _) => {
            rustix::fs::symlinkat(OsStr::from_bytes(target), stage.fd(), name)?;
        }
        (Some(Thing::File { mode, .. }), Some(file)) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let replaces = matches!(change.before, Some(Thing::File { .. }));
            // A new file has the mode that the process gives to new files.
            let first = if replaces { Mode::RUSR | Mode::WUSR } else { Mode::from_raw_mode(*mode) };
            let to = File::from(rustix::fs::openat(stage.fd(), name, flags, first)?);
            to.write_all_at(&file.bytes, 0)?;
            own(stage, name, &change.path)?;
            if replaces {
                to.set_permissions(fs::Permissions::from_mode(*mode))?;
            }
            to.sync_all()?;
            return Ok(change.after.clone());
        }
        (Some(Thing::File { .. }), None) => return Ok(None),
    }
    own(stage, name, &change.path)?;
    Ok(change.after.clone())
}

/// Gives what is staged to whom the file belongs that it replaces, or the folder that it is new in. Only the superuser
/// can give files away; others keep what they may of the group.
fn own(stage: &Stage<'_>, name: &OsStr, path: &Path) -> Result<(), NotWritten> {
    let mut like = stage.original.stat(path)?;
    let replaces = like.is_some();
    if like.is_none() {
        for parent in path.ancestors().skip(1) {
            like = stage.original.folder_stat(parent)?;
            if like.is_some() {
                break;
            }
        }
    }
    let Some(like) = like else { return Ok(()) };
    let (user, group) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    if rustix::process::geteuid().is_root() {
        return Ok(rustix::fs::chownat(stage.fd(), name, Some(user), Some(group), flags)?);
    }
    if replaces || like.st_mode & SET_GROUP != 0 {
        rustix::fs::chownat(stage.fd(), name, None, Some(group), flags).ok();
    }
    Ok(())
}

/// Moves what is replaced away and what is staged to its place.
pub(super) fn make(stage: &Stage<'_>, changes: &[&Change]) -> Result<(), NotWritten> {
    // What goes, the deepest first; a folder goes when nothing is left in it.
    for (number, change) in changes.iter().enumerate().rev() {
        let changed = || NotWritten::Changed(change.path.clone());
        let is_folder = change.before == Some(Thing::Folder);
        if change.before.is_none() || is_folder && change.after == Some(Thing::Folder) {
            continue;
        }
        if is_folder && !stage.original.is_empty(&change.path).map_err(|_| changed())? {
            // Something else is in it by now, or all along: then it stays.
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
        if stage.seen(&name)? != change.seen || is_folder && !stage.is_empty(&name)? {
            return Err(changed());
        }
    }
    for (number, change) in changes.iter().enumerate().filter(|(_, change)| change.after.is_some()) {
        // Never over something that came there since.
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
