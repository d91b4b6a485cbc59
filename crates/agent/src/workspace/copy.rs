//! Copies a folder: files with their modes, symlinks as symlinks, holes as holes, nothing that is not a file.
//!
//! Look at [`tree`]. The folder is measured first, and nothing is written where it is beyond the bounds or does not fit
//! on the disk. What git is told to ignore is left out unless it is asked for. Where the file system can share blocks it
//! does. What was copied before a refusal is removed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::io::Errno;

use super::NoWorkspace;
use super::base::{self, Base, Thing};
use super::folder::{Folder, is_absent};
use super::ignored::IgnoreRules;
use super::stage;
use crate::git;
use crate::limits::WORKSPACE_DEPTH_MAX;
use crate::workspace::limits;

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) folders: u64,
}

/// An entry that is to be copied.
struct Item {
    /// Relative to the folder.
    path: PathBuf,
    kind: EntryKind,
}

enum EntryKind {
    Folder { mode: u32 },
    File,
    Link,
}

/// What holds in the folder above.
#[derive(Default)]
struct Within {
    rules: Option<Rc<IgnoreRules>>,
    is_ignored: bool,
}

/// What a folder holds, before any of it is copied.
struct Survey<'a> {
    from: &'a Path,
    items: Vec<Item>,
    counted: Copied,
    /// Ignored files that git keeps all the same. `None`: ignored files are copied, too.
    kept: Option<BTreeSet<PathBuf>>,
}

/// Copies `from` to `to`, which does not exist yet, and says what it was.
pub(crate) fn tree(from: &Path, to: &Path, ignored_too: bool) -> Result<(Copied, Base), NoWorkspace> {
    let kept = (!ignored_too).then(|| git::tracked_although_ignored(from));
    let mut survey = Survey { from, items: Vec::new(), counted: Copied::default(), kept };
    survey.folder(Path::new(""), 0, &Within::default())?;
    fits(to, survey.counted.bytes)?;
    let made = survey.copy(to);
    if made.is_err() {
        // A copy that is not whole is of no use, and the disk may be full of it.
        fs::remove_dir_all(to).ok();
    }
    made
}

impl Survey<'_> {
    fn folder(&mut self, path: &Path, depth: usize, within: &Within) -> Result<(), NoWorkspace> {
        let from = self.from.join(path);
        if depth > WORKSPACE_DEPTH_MAX {
            let most = WORKSPACE_DEPTH_MAX;
            return Err(too_large(format!("{} is more than {most} folders deep", from.display())));
        }
        let rules = match self.kept {
            Some(_) => IgnoreRules::within(self.from, path, within.rules.clone()),
            None => None,
        };
        let mode = fs::metadata(&from).map_err(|why| failed(&from, why))?.permissions().mode();
        self.items.push(Item { path: path.to_owned(), kind: EntryKind::Folder { mode } });
        let mut entries: Vec<fs::DirEntry> =
            fs::read_dir(&from).and_then(Iterator::collect).map_err(|why| failed(&from, why))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = path.join(entry.file_name());
            let about = match entry.metadata() {
                Ok(about) => about,
                // Removed since the folder was read.
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                Err(why) => return Err(failed(&entry.path(), why)),
            };
            if stage::is_stage(&name) {
                continue;
            }
            let is_ignored = self.is_ignored(&name, about.is_dir(), within.is_ignored, rules.as_ref());
            if is_ignored && !self.holds_kept(&name) {
                continue;
            }
            if about.is_dir() {
                self.counted.folders += 1;
                self.within_bounds()?;
                self.folder(&name, depth + 1, &Within { rules: rules.clone(), is_ignored })?;
            } else if about.is_file() || about.is_symlink() {
                self.counted.files += 1;
                if about.is_file() {
                    // Holes take no room.
                    self.counted.bytes += about.len().min(about.blocks() * 512);
                }
                self.within_bounds()?;
                let kind = if about.is_file() { EntryKind::File } else { EntryKind::Link };
                self.items.push(Item { path: name, kind });
            }
        }
        Ok(())
    }

    /// Whether git is told to ignore this. What is in an ignored folder is ignored, too.
    fn is_ignored(
        &self,
        path: &Path,
        is_folder: bool,
        within: bool,
        rules: Option<&Rc<IgnoreRules>>,
    ) -> bool {
        self.kept.is_some()
            && !base::is_gits(path)
            && (within || IgnoreRules::ignores(rules, path, is_folder))
    }

    /// Whether git keeps this, or something below it, although it is ignored.
    fn holds_kept(&self, path: &Path) -> bool {
        let next = self.kept.iter().flat_map(|kept| kept.range(path.to_owned()..)).next();
        next.is_some_and(|next| next.starts_with(path))
    }

    fn within_bounds(&self) -> Result<(), NoWorkspace> {
        let Copied { files, bytes, folders } = self.counted;
        if files + folders > limits::WORKSPACE_FILES_MAX || bytes > limits::WORKSPACE_BYTES_MAX {
            return Err(beyond_bounds());
        }
        Ok(())
    }

    fn copy(self, to: &Path) -> Result<(Copied, Base), NoWorkspace> {
        let mut copied = Copied { folders: self.counted.folders, ..Copied::default() };
        let source = Folder::open(self.from).map_err(|why| failed(self.from, why))?;
        let mut made = Base { source: Some(self.from.to_owned()), ..Base::default() };
        for Item { path, kind } in &self.items {
            let (from, at) = (self.from.join(path), to.join(path));
            let thing = match kind {
                EntryKind::Folder { .. } => {
                    fs::create_dir(&at).map_err(|why| failed(&at, why))?;
                    Some(Thing::Folder)
                }
                EntryKind::Link => link(&source, path, &from, &at)?,
                EntryKind::File => file(&source, path, &from, &at, &mut copied.bytes)?,
            };
            let Some(thing) = thing else { continue };
            if !matches!(thing, Thing::Folder) {
                copied.files += 1;
            }
            if !path.as_os_str().is_empty() && !base::is_gits(path) {
                made.entries.insert(path.clone(), thing);
            }
        }
        for Item { path, kind } in self.items.iter().rev() {
            if let EntryKind::Folder { mode } = kind {
                // Its owner must get in, whatever the original's mode is.
                let (at, mode) = (to.join(path), fs::Permissions::from_mode(mode | 0o700));
                fs::set_permissions(&at, mode).map_err(|why| failed(&at, why))?;
            }
        }
        Ok((copied, made))
    }
}

/// `None`: there is no such link any more. `from` is for messages.
fn link(source: &Folder, path: &Path, from: &Path, to: &Path) -> Result<Option<Thing>, NoWorkspace> {
    let found = source.look(path, None).map_err(|why| failed(from, why))?;
    let Some(Thing::Link { target }) = found else { return Ok(None) };
    symlink(OsStr::from_bytes(&target), to).map_err(|why| failed(to, why))?;
    Ok(Some(Thing::Link { target }))
}

/// `None`: there is no such file any more. Counts what it takes on the disk. `from` is for messages.
fn file(
    source: &Folder,
    path: &Path,
    from: &Path,
    to: &Path,
    bytes: &mut u64,
) -> Result<Option<Thing>, NoWorkspace> {
    let source = match source.open_file(path) {
        Ok(source) => source,
        // It went, or something else is there by now.
        Err(why) if Errno::from_io_error(&why).is_none_or(is_absent) => return Ok(None),
        Err(why) => return Err(failed(from, why)),
    };
    let mode = source.metadata().map_err(|why| failed(from, why))?.permissions().mode();
    let written = File::options().read(true).write(true).create_new(true).mode(0o600).open(to);
    let written = written.map_err(|why| failed(to, why))?;
    let shares = shares_blocks(&source, &written);
    let most = limits::WORKSPACE_BYTES_MAX.saturating_sub(*bytes);
    let content = fill(&source, &written, shares, most).map_err(|why| failed(from, why))?;
    let Some((length, digest, took)) = content else { return Err(beyond_bounds()) };
    *bytes += took;
    let mode = base::plain_mode(mode);
    written.set_permissions(fs::Permissions::from_mode(mode)).map_err(|why| failed(to, why))?;
    Ok(Some(Thing::File { mode, length, digest }))
}

/// Writes a file's content, unless the new file shares its blocks already. Answers the length and the digest of what was
/// written, whatever the source has become meanwhile, and how many bytes it takes. `None`: more than is allowed.
pub(super) fn fill(
    source: &File,
    written: &File,
    shares: bool,
    most: u64,
) -> io::Result<Option<(u64, [u8; 32], u64)>> {
    let from = if shares { written } else { source };
    let mut took = 0;
    let digest = base::blocks(from, from.metadata()?.len(), |at, piece| {
        took += piece.len() as u64;
        if took > most {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if shares { Ok(()) } else { written.write_all_at(piece, at) }
    });
    if took > most {
        return Ok(None);
    }
    let (length, digest) = digest?;
    if !shares {
        written.set_len(length)?;
    }
    Ok(Some((length, digest, took)))
}

/// Lets a new file share the blocks of another, where the file system can.
#[cfg(target_os = "linux")]
fn shares_blocks(from: &File, to: &File) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn shares_blocks(_from: &File, _to: &File) -> bool {
    false
}

/// Whether there is room for so many bytes where `to` will be, and for others after that.
fn fits(to: &Path, bytes: u64) -> Result<(), NoWorkspace> {
    let disk = to.parent().unwrap_or(to);
    let Ok(stat) = rustix::fs::statvfs(disk) else { return Ok(()) };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if bytes.saturating_add(limits::WORKSPACE_DISK_RESERVE_BYTES) > free {
        let message = format!(
            "{}: {free} bytes are free, and the copy needs {bytes} and leaves {} to others; free some, name a smaller \
             folder, or work in place",
            disk.display(),
            limits::WORKSPACE_DISK_RESERVE_BYTES
        );
        return Err(NoWorkspace::new("workspace_full", message));
    }
    Ok(())
}

fn failed(path: &Path, why: io::Error) -> NoWorkspace {
    let code = if why.kind() == io::ErrorKind::StorageFull { "workspace_full" } else { "workspace_failed" };
    NoWorkspace::new(code, format!("{}: {why}", path.display()))
}

fn beyond_bounds() -> NoWorkspace {
    let (files, bytes) = (limits::WORKSPACE_FILES_MAX, limits::WORKSPACE_BYTES_MAX);
    too_large(format!(
        "there are more than {files} files or {bytes} bytes; name a smaller folder, have git ignore what is not \
         needed, or work in place"
    ))
}

fn too_large(message: String) -> NoWorkspace {
    NoWorkspace::new("workspace_too_large", message)
}
