//! The current entries of a copy, without ignored files that were not copied.
//!
//! It writes nothing and must never know runs.
//!
//! Start at [`Scan::new`]. An [`Index`] of an earlier scan saves reading files that did not change since.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

use super::base::{self, Base, EntryState};
use super::folder::{self, Folder, nanoseconds};
use super::ignored::IgnoreRules;
use super::stage;
use crate::limits::WORKSPACE_DEPTH_MAX;
use crate::workspace::limits;

/// Git's own folder, at the top of a copy.
const GIT: &str = ".git";

/// Folders in it that only grow, or belong to other repositories.
const GIT_NOT_SCANNED: &[&str] = &["objects", "lfs", "modules", "worktrees"];

/// The entries that a scan found.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub(super) found: BTreeMap<PathBuf, EntryState>,
    /// Ignored files and folders of the copy.
    pub(super) ignored: u64,
    /// What the next scan need not read.
    pub(super) index: Index,
    /// Whether a file was read.
    pub(super) has_read: bool,
}

/// Identifies one version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileVersion {
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    fn of(stat: &Stat) -> FileVersion {
        FileVersion {
            inode: stat.st_ino,
            length: stat.st_size.cast_unsigned(),
            modified: (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
            changed: (stat.st_ctime, nanoseconds(stat.st_ctime_nsec)),
        }
    }
}

/// Files with their content at an earlier scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) files: BTreeMap<PathBuf, (FileVersion, EntryState)>,
}

/// What is known of files before they are read.
#[derive(Clone, Copy)]
pub(super) enum KnownFiles<'a> {
    /// Every file is read.
    None,
    /// Files of an unchanged version are not read.
    Index(&'a Index),
    /// These were written just now, and are not read.
    Written(&'a BTreeMap<PathBuf, EntryState>),
}

/// A scan of a copy.
pub(super) struct Scan<'a> {
    copy: &'a Path,
    /// The open folder of the copy.
    open: Folder,
    base: &'a Base,
    known: KnownFiles<'a>,
    /// Files that changed at or after this time may change again without another version. `None`: no index is needed.
    indexed_before: Option<(i64, i64)>,
    scanned: Scanned,
}

impl<'a> Scan<'a> {
    pub(super) fn new(copy: &'a Path, base: &'a Base) -> io::Result<Scan<'a>> {
        Ok(Scan {
            copy,
            open: Folder::open(copy)?,
            base,
            known: KnownFiles::None,
            indexed_before: None,
            scanned: Scanned::default(),
        })
    }

    /// Uses what is known, and indexes files that changed before a time of the file system.
    pub(super) fn indexed(self, known: KnownFiles<'a>, before: (i64, i64)) -> Scan<'a> {
        Scan { known, indexed_before: Some(before), ..self }
    }

    pub(super) fn files(mut self) -> io::Result<(Scanned, Folder)> {
        self.folder(Path::new(""), 0, None, false)?;
        Ok((self.scanned, self.open))
    }

    /// The same with the files of git's own folder that name commits and settings.
    pub(super) fn files_and_git(mut self) -> io::Result<Scanned> {
        self.folder(Path::new(""), 0, None, false)?;
        if self.open.is_folder(Path::new(GIT))? {
            self.add(PathBuf::from(GIT))?;
            self.git_folder(Path::new(GIT), 0)?;
        }
        Ok(self.scanned)
    }

    fn folder(
        &mut self,
        path: &Path,
        depth: usize,
        above: Option<Rc<IgnoreRules>>,
        within_ignored: bool,
    ) -> io::Result<()> {
        check_depth(path, depth)?;
        let rules = IgnoreRules::within(self.copy, path, above);
        for entry in self.entries(path)? {
            let name = path.join(entry.file_name());
            if base::is_in_git_folder(&name) || stage::is_stage(&name) {
                continue;
            }
            let is_folder = entry.file_type()?.is_dir();
            let is_ignored = within_ignored || IgnoreRules::ignores(rules.as_ref(), &name, is_folder);
            if is_ignored && !self.base_holds(&name) {
                self.scanned.ignored += 1;
                continue;
            }
            if self.add(name.clone())? && is_folder {
                self.folder(&name, depth + 1, rules.clone(), is_ignored)?;
            }
        }
        Ok(())
    }

    fn git_folder(&mut self, path: &Path, depth: usize) -> io::Result<()> {
        check_depth(path, depth)?;
        for entry in self.entries(path)? {
            let file_name = entry.file_name();
            let is_lock = Path::new(&file_name).extension() == Some(OsStr::new("lock"));
            if is_lock || depth == 0 && GIT_NOT_SCANNED.iter().any(|name| file_name == *name) {
                continue;
            }
            let name = path.join(file_name);
            if self.add(name.clone())? && entry.file_type()?.is_dir() {
                self.git_folder(&name, depth + 1)?;
            }
        }
        Ok(())
    }

    fn entries(&self, path: &Path) -> io::Result<Vec<fs::DirEntry>> {
        let mut entries: Vec<fs::DirEntry> =
            fs::read_dir(self.copy.join(path))?.collect::<io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        Ok(entries)
    }

    /// `false`: nothing exists there now, or neither a file, folder nor link.
    fn add(&mut self, name: PathBuf) -> io::Result<bool> {
        let Some(state) = self.state(&name)? else { return Ok(false) };
        self.scanned.found.insert(name, state);
        if self.scanned.found.len() as u64 > limits::WORKSPACE_FILES_MAX {
            let most = limits::WORKSPACE_FILES_MAX;
            return Err(io::Error::other(format!("there are more than {most} files")));
        }
        Ok(true)
    }

    fn state(&mut self, name: &Path) -> io::Result<Option<EntryState>> {
        let Some(before) = self.indexed_before else {
            // Digested even if the length alone shows the change: exactly this content must be written later.
            return self.open.entry_state(name, None);
        };
        let Some(stat) = self.open.stat(name)? else { return Ok(None) };
        if folder::kind(&stat) != FileType::RegularFile {
            return self.open.entry_state(name, None);
        }
        let version = FileVersion::of(&stat);
        let known = match self.known {
            KnownFiles::None => None,
            KnownFiles::Index(index) => {
                index.files.get(name).filter(|(then, _)| *then == version).map(|(_, state)| state)
            }
            KnownFiles::Written(entries) => entries.get(name),
        };
        let state = match known {
            Some(state) => Some(state.clone()),
            None => {
                self.scanned.has_read = true;
                self.open.entry_state(name, None)?
            }
        };
        if let Some(state) = state.clone().filter(|_| version.changed < before) {
            self.scanned.index.files.insert(name.to_owned(), (version, state));
        }
        Ok(state)
    }

    /// Whether this, or something below it, was copied.
    fn base_holds(&self, path: &Path) -> bool {
        let next = self.base.entries.range(path.to_owned()..).next();
        next.is_some_and(|(next, _)| next.starts_with(path))
    }
}

fn check_depth(path: &Path, depth: usize) -> io::Result<()> {
    if depth > WORKSPACE_DEPTH_MAX {
        let most = WORKSPACE_DEPTH_MAX;
        return Err(io::Error::other(format!("{} is nested more than {most} folders deep", path.display())));
    }
    Ok(())
}
