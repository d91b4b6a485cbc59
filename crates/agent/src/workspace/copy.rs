//! Copies a folder: files with their modes, symbolic links, holes, and nothing else.
//!
//! Start at [`tree`]. The folder is measured first; nothing is written if it exceeds the limits or does not fit on the
//! disk. Ignored files are skipped unless requested. Blocks are shared where the file system supports it. A failed copy
//! is deleted.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::io::Errno;

use super::WorkspaceError;
use super::base::{self, Base, EntryState};
use super::folder::{Folder, is_absent};
use super::ignored::IgnoreRules;
use super::stage;
use crate::git;
use crate::limits::WORKSPACE_DEPTH_MAX;
use crate::workspace::limits;

/// The size of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CopyCounts {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) folders: u64,
}

/// An entry to copy.
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

/// The ignore rules of the parent folder.
#[derive(Default)]
struct ParentRules {
    rules: Option<Rc<IgnoreRules>>,
    is_ignored: bool,
}

/// The content of a folder, before any of it is copied.
struct Survey<'a> {
    from: &'a Path,
    items: Vec<Item>,
    counted: CopyCounts,
    /// Ignored files that git tracks. `None`: ignored files are copied too.
    tracked: Option<BTreeSet<PathBuf>>,
}

/// Copies `from` to `to`, which does not exist yet. Returns its size and its base.
pub(crate) fn tree(from: &Path, to: &Path, ignored_too: bool) -> Result<(CopyCounts, Base), WorkspaceError> {
    let tracked = (!ignored_too).then(|| git::tracked_but_ignored(from));
    let mut survey = Survey { from, items: Vec::new(), counted: CopyCounts::default(), tracked };
    survey.folder(Path::new(""), 0, &ParentRules::default())?;
    check_free_space(to, survey.counted.bytes)?;
    let copied = survey.copy(to);
    if copied.is_err() {
        // A partial copy is useless and may fill the disk.
        fs::remove_dir_all(to).ok();
    }
    copied
}

/// The size of everything in a folder.
pub(super) fn measure(folder: &Path) -> Result<CopyCounts, WorkspaceError> {
    let mut survey =
        Survey { from: folder, items: Vec::new(), counted: CopyCounts::default(), tracked: None };
    survey.folder(Path::new(""), 0, &ParentRules::default())?;
    Ok(survey.counted)
}

impl Survey<'_> {
    fn folder(&mut self, path: &Path, depth: usize, within: &ParentRules) -> Result<(), WorkspaceError> {
        let from = self.from.join(path);
        if depth > WORKSPACE_DEPTH_MAX {
            let most = WORKSPACE_DEPTH_MAX;
            return Err(too_large(format!("{} is nested more than {most} folders deep", from.display())));
        }
        let rules = match self.tracked {
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
                // Deleted since the folder was listed.
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                Err(why) => return Err(failed(&entry.path(), why)),
            };
            if stage::is_stage(&name) {
                continue;
            }
            let is_ignored = self.is_ignored(&name, about.is_dir(), within.is_ignored, rules.as_ref());
            if is_ignored && !self.holds_tracked(&name) {
                continue;
            }
            if about.is_dir() {
                self.counted.folders += 1;
                self.check_bounds()?;
                self.folder(&name, depth + 1, &ParentRules { rules: rules.clone(), is_ignored })?;
            } else if about.is_file() || about.is_symlink() {
                self.counted.files += 1;
                if about.is_file() {
                    // Holes take no space.
                    self.counted.bytes += about.len().min(about.blocks() * 512);
                }
                self.check_bounds()?;
                let kind = if about.is_file() { EntryKind::File } else { EntryKind::Link };
                self.items.push(Item { path: name, kind });
            }
        }
        Ok(())
    }

    /// Whether git ignores this path. Everything in an ignored folder is ignored.
    fn is_ignored(
        &self,
        path: &Path,
        is_folder: bool,
        within: bool,
        rules: Option<&Rc<IgnoreRules>>,
    ) -> bool {
        self.tracked.is_some()
            && !base::is_in_git_folder(path)
            && (within || IgnoreRules::ignores(rules, path, is_folder))
    }

    /// Whether git tracks this path, or something below it, although it is ignored.
    fn holds_tracked(&self, path: &Path) -> bool {
        let next = self.tracked.iter().flat_map(|tracked| tracked.range(path.to_owned()..)).next();
        next.is_some_and(|next| next.starts_with(path))
    }

    fn check_bounds(&self) -> Result<(), WorkspaceError> {
        let CopyCounts { files, bytes, folders } = self.counted;
        if files + folders > limits::WORKSPACE_FILES_MAX || bytes > limits::WORKSPACE_BYTES_MAX {
            return Err(beyond_bounds());
        }
        Ok(())
    }

    fn copy(self, to: &Path) -> Result<(CopyCounts, Base), WorkspaceError> {
        let mut copied = CopyCounts { folders: self.counted.folders, ..CopyCounts::default() };
        let source = Folder::open(self.from).map_err(|why| failed(self.from, why))?;
        let mut base = Base { source: Some(self.from.to_owned()), ..Base::default() };
        for Item { path, kind } in &self.items {
            let (from, at) = (self.from.join(path), to.join(path));
            let state = match kind {
                EntryKind::Folder { .. } => {
                    fs::create_dir(&at).map_err(|why| failed(&at, why))?;
                    Some(EntryState::Folder)
                }
                EntryKind::Link => link(&source, path, &from, &at)?,
                EntryKind::File => file(&source, path, &from, &at, &mut copied.bytes)?,
            };
            let Some(state) = state else { continue };
            if !matches!(state, EntryState::Folder) {
                copied.files += 1;
            }
            if !path.as_os_str().is_empty() && !base::is_in_git_folder(path) {
                base.entries.insert(path.clone(), state);
            }
        }
        for Item { path, kind } in self.items.iter().rev() {
            if let EntryKind::Folder { mode } = kind {
                // The owner needs access, whatever the original's mode is.
                let (at, mode) = (to.join(path), fs::Permissions::from_mode(mode | 0o700));
                fs::set_permissions(&at, mode).map_err(|why| failed(&at, why))?;
            }
        }
        Ok((copied, base))
    }
}

/// `None`: the link no longer exists. `from` is for messages.
fn link(source: &Folder, path: &Path, from: &Path, to: &Path) -> Result<Option<EntryState>, WorkspaceError> {
    let found = source.entry_state(path, None).map_err(|why| failed(from, why))?;
    let Some(EntryState::Link { target }) = found else { return Ok(None) };
    symlink(OsStr::from_bytes(&target), to).map_err(|why| failed(to, why))?;
    Ok(Some(EntryState::Link { target }))
}

/// `None`: the file no longer exists. Adds its size on disk to `bytes`. `from` is for messages.
fn file(
    source: &Folder,
    path: &Path,
    from: &Path,
    to: &Path,
    bytes: &mut u64,
) -> Result<Option<EntryState>, WorkspaceError> {
    let source = match source.open_file(path) {
        Ok(source) => source,
        // It was deleted or replaced.
        Err(why) if Errno::from_io_error(&why).is_none_or(is_absent) => return Ok(None),
        Err(why) => return Err(failed(from, why)),
    };
    let mode = source.metadata().map_err(|why| failed(from, why))?.permissions().mode();
    let written = File::options().read(true).write(true).create_new(true).mode(0o600).open(to);
    let written = written.map_err(|why| failed(to, why))?;
    let shares = shares_blocks(&source, &written);
    let most = limits::WORKSPACE_BYTES_MAX.saturating_sub(*bytes);
    let content = fill(&source, &written, shares, most).map_err(|why| failed(from, why))?;
    let Some((length, digest, written_bytes)) = content else { return Err(beyond_bounds()) };
    *bytes += written_bytes;
    let mode = base::plain_mode(mode);
    written.set_permissions(fs::Permissions::from_mode(mode)).map_err(|why| failed(to, why))?;
    Ok(Some(EntryState::File { mode, length, digest }))
}

/// Writes a file's content, unless the new file already shares its blocks. Returns the length and digest of what was
/// written, even if the source changed meanwhile, and the space that it takes. `None`: more than `most` bytes.
pub(super) fn fill(
    source: &File,
    written: &File,
    shares: bool,
    most: u64,
) -> io::Result<Option<(u64, [u8; 32], u64)>> {
    let from = if shares { written } else { source };
    let mut written_bytes = 0;
    let digest = base::blocks(from, from.metadata()?.len(), |at, piece| {
        written_bytes += piece.len() as u64;
        if written_bytes > most {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if shares { Ok(()) } else { written.write_all_at(piece, at) }
    });
    if written_bytes > most {
        return Ok(None);
    }
    let (length, digest) = digest?;
    if !shares {
        written.set_len(length)?;
    }
    Ok(Some((length, digest, written_bytes)))
}

/// Lets a new file share the blocks of another, if the file system supports it.
#[cfg(target_os = "linux")]
pub(super) fn shares_blocks(from: &File, to: &File) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn shares_blocks(_from: &File, _to: &File) -> bool {
    false
}

/// Checks that the disk has space for the copy and for the reserve.
pub(super) fn check_free_space(to: &Path, bytes: u64) -> Result<(), WorkspaceError> {
    let disk = to.parent().unwrap_or(to);
    let Ok(stat) = rustix::fs::statvfs(disk) else { return Ok(()) };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if bytes.saturating_add(limits::WORKSPACE_DISK_RESERVE_BYTES) > free {
        let message = format!(
            "{}: {free} bytes are free, but the copy needs {bytes} and {} must stay free; free disk space, \
             use a smaller folder, or work in place",
            disk.display(),
            limits::WORKSPACE_DISK_RESERVE_BYTES
        );
        return Err(WorkspaceError::new("workspace_full", message));
    }
    Ok(())
}

fn failed(path: &Path, why: io::Error) -> WorkspaceError {
    let code = if why.kind() == io::ErrorKind::StorageFull { "workspace_full" } else { "workspace_failed" };
    WorkspaceError::new(code, format!("{}: {why}", path.display()))
}

fn beyond_bounds() -> WorkspaceError {
    let (files, bytes) = (limits::WORKSPACE_FILES_MAX, limits::WORKSPACE_BYTES_MAX);
    too_large(format!(
        "the folder has more than {files} files or {bytes} bytes; use a smaller folder, add what is not \
         needed to .gitignore, or work in place"
    ))
}

fn too_large(message: String) -> WorkspaceError {
    WorkspaceError::new("workspace_too_large", message)
}
