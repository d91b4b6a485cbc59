//! Which folders of an original are git's under another name: what is in them is run or believed by git, so that nothing is
//! written there.
//!
//! Look at [`named`] for those that a `.git` leads to, and at [`Looks`] for those that look like one, whatever names them. It
//! writes nothing and must never know runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::base::{Base, Thing};
use super::folder::Folder;
use crate::limits::IGNORE_FILE_BYTES_MAX;
use crate::workspace::limits;

/// Where each `.git` of an original that is a link or a file leads, with every link on the way: who changes such a link says
/// where git looks. `original` is a real path, without links.
pub(super) fn named(original: &Path, base: &Base) -> io::Result<Vec<PathBuf>> {
    let top = Folder::open(Path::new("/"))?;
    let folders = base.entries.iter().filter(|(_, thing)| **thing == Thing::Folder).map(|(path, _)| &**path);
    let mut found = Vec::new();
    for folder in [Path::new("")].into_iter().chain(folders) {
        let folder = original.join(folder);
        let at = follow(original, &folder.join(".git"), &mut found);
        let Ok(below) = at.strip_prefix("/") else { continue };
        // Opening says whether there is one, and that it is a file.
        let Ok(file) = top.open_file(below) else { continue };
        let mut text = Vec::new();
        file.take(IGNORE_FILE_BYTES_MAX).read_to_end(&mut text)?;
        let Some(target) = text.trim_ascii_end().strip_prefix(b"gitdir: ") else { continue };
        follow(original, &folder.join(OsStr::from_bytes(target)), &mut found);
    }
    Ok(found)
}

/// Goes a path as the operating system does, notes what lies within the original and answers where it ends. What leads out
/// of the original is reached by no change, and the original itself is no folder of git's.
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

/// What a folder of git's holds: `HEAD`, and either what is kept itself or where that is.
const HEAD: &str = "HEAD";
const KEPT: [&str; 2] = ["objects", "refs"];
const ELSEWHERE: &str = "commondir";

/// Whether the name is one that a folder of git's is known by.
pub(super) fn is_sign(path: &Path) -> bool {
    let name = path.file_name();
    [HEAD, ELSEWHERE].iter().chain(&KEPT).any(|sign| name == Some(OsStr::new(sign)))
}

/// Whether folders look like git's, in the original or with what was added in the copy. Remembers what it looked at.
pub(super) struct Looks<'a> {
    original: &'a Folder,
    added: BTreeSet<PathBuf>,
    known: BTreeMap<PathBuf, bool>,
}

impl<'a> Looks<'a> {
    pub(super) fn new(original: &'a Folder, added: BTreeSet<PathBuf>) -> Self {
        Looks { original, added, known: BTreeMap::new() }
    }

    /// Whether a path is in such a folder, or is one.
    pub(super) fn is_within(&mut self, path: &Path) -> io::Result<bool> {
        for folder in path.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
            if self.looks_like_git_s(folder)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn looks_like_git_s(&mut self, folder: &Path) -> io::Result<bool> {
        if let Some(known) = self.known.get(folder) {
            return Ok(*known);
        }
        let is_git_s = self.holds(folder, HEAD)?
            && (self.holds(folder, ELSEWHERE)?
                || self.holds(folder, KEPT[0])? && self.holds(folder, KEPT[1])?);
        self.known.insert(folder.to_owned(), is_git_s);
        Ok(is_git_s)
    }

    fn holds(&self, folder: &Path, name: &str) -> io::Result<bool> {
        let path = folder.join(name);
        Ok(self.added.contains(&path) || self.original.stat(&path)?.is_some())
    }
}
