//! Finds git folders of an original that are not called `.git`. Git executes or trusts their content, so nothing is
//! written there.
//!
//! It writes nothing and must never know runs.
//!
//! Start at [`linked_git_folders`] for folders that a `.git` refers to, and at [`GitFolderCheck`] for those that look
//! like one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::base::{Base, EntryState};
use super::folder::Folder;
use crate::limits::IGNORE_FILE_BYTES_MAX;
use crate::workspace::limits;

/// The targets of each `.git` that is a link or a file, and all links on the way: changing such a link redirects git.
/// `original` is a canonical path.
pub(super) fn linked_git_folders(original: &Path, base: &Base) -> io::Result<Vec<PathBuf>> {
    let top = Folder::open(Path::new("/"))?;
    let folders =
        base.entries.iter().filter(|(_, state)| **state == EntryState::Folder).map(|(path, _)| &**path);
    let mut found = Vec::new();
    for folder in [Path::new("")].into_iter().chain(folders) {
        let folder = original.join(folder);
        let at = follow(original, &folder.join(".git"), &mut found);
        let Ok(below) = at.strip_prefix("/") else { continue };
        // Opening succeeds only for an existing file.
        let Ok(file) = top.open_file(below) else { continue };
        let mut text = Vec::new();
        file.take(IGNORE_FILE_BYTES_MAX).read_to_end(&mut text)?;
        let Some(target) = text.trim_ascii_end().strip_prefix(b"gitdir: ") else { continue };
        follow(original, &folder.join(OsStr::from_bytes(target)), &mut found);
    }
    Ok(found)
}

/// Follows a path like the operating system, records the parts inside the original, and returns the end. Changes cannot
/// reach paths outside the original, and the original itself is not a git folder.
fn follow(original: &Path, path: &Path, found: &mut Vec<PathBuf>) -> PathBuf {
    let mut note = |path: &Path| {
        let within = path.strip_prefix(original).ok().filter(|within| !within.as_os_str().is_empty());
        found.extend(within.map(Path::to_owned));
    };
    let parts = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut at, mut rest, mut links) = (PathBuf::from("/"), parts(path), 0);
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::Normal(_)) => {
                let next = at.join(&part);
                match fs::read_link(&next) {
                    Ok(target) if links < limits::GIT_LINKS_MAX => {
                        links += 1;
                        note(&next);
                        rest.extend(parts(&target));
                    }
                    _ => at = next,
                }
            }
            _ => {}
        }
    }
    note(&at);
    at
}

/// A git folder contains `HEAD`, and either its own data or a reference to them.
const HEAD: &str = "HEAD";
const CONTENT: [&str; 2] = ["objects", "refs"];
const ELSEWHERE: &str = "commondir";

/// Whether a name is one that identifies git folders.
pub(super) fn is_sign(path: &Path) -> bool {
    let name = path.file_name();
    [HEAD, ELSEWHERE].iter().chain(&CONTENT).any(|sign| name == Some(OsStr::new(sign)))
}

/// Checks whether folders look like git folders, in the original or with the copy's additions. Caches its results.
pub(super) struct GitFolderCheck<'a> {
    original: &'a Folder,
    added: BTreeSet<PathBuf>,
    known: BTreeMap<PathBuf, bool>,
}

impl<'a> GitFolderCheck<'a> {
    pub(super) fn new(original: &'a Folder, added: BTreeSet<PathBuf>) -> Self {
        GitFolderCheck { original, added, known: BTreeMap::new() }
    }

    /// Whether a path is in such a folder, or is one.
    pub(super) fn is_within(&mut self, path: &Path) -> io::Result<bool> {
        for folder in path.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
            if self.is_git_folder(folder)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_git_folder(&mut self, folder: &Path) -> io::Result<bool> {
        if let Some(known) = self.known.get(folder) {
            return Ok(*known);
        }
        let is_git_folder = self.holds(folder, HEAD)?
            && (self.holds(folder, ELSEWHERE)?
                || self.holds(folder, CONTENT[0])? && self.holds(folder, CONTENT[1])?);
        self.known.insert(folder.to_owned(), is_git_folder);
        Ok(is_git_folder)
    }

    fn holds(&self, folder: &Path, name: &str) -> io::Result<bool> {
        let path = folder.join(name);
        Ok(self.added.contains(&path) || self.original.stat(&path)?.is_some())
    }
}
