//! Applies a diff to a tree in memory, completely or not at all.
//!
//! Start at [`TreePatch::apply`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{FileMode, FilePatch, Hunk, Mark, PatchContent, PatchSide, TreePatch, TreePatchError};
use crate::limits;

/// The files that a diff is applied to.
pub(crate) trait ReadTree {
    /// `None`: no file or link has this name.
    fn read(&self, path: &Path) -> Result<Option<TreeFile>, TreePatchError>;
}

/// A file or a symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeFile {
    pub(crate) mode: FileMode,
    pub(crate) bytes: Vec<u8>,
}

/// The new content of the paths of a diff; `None`: the file is deleted.
pub(crate) type TreeResult = BTreeMap<PathBuf, Option<TreeFile>>;

/// Why the part of one file cannot be applied.
enum FileMismatch {
    Drift(String),
    Failed(TreePatchError),
}

impl From<TreePatchError> for FileMismatch {
    fn from(why: TreePatchError) -> Self {
        FileMismatch::Failed(why)
    }
}

fn mismatch(why: impl Into<String>) -> FileMismatch {
    FileMismatch::Drift(why.into())
}

impl TreePatch {
    /// The files afterwards. The error names every file that does not fit.
    pub(crate) fn apply(&self, tree: &dyn ReadTree) -> Result<TreeResult, TreePatchError> {
        let removed_paths: BTreeSet<&Path> = self.files.iter().filter_map(FilePatch::removed_path).collect();
        let mut patched =
            PatchedTree { tree, removed_paths, removed: BTreeSet::new(), created: BTreeMap::new() };
        let mut drift = Vec::new();
        for file in &self.files {
            match patched.file(file) {
                Ok(()) => {}
                Err(FileMismatch::Drift(why)) => drift.push((file.path(), why)),
                Err(FileMismatch::Failed(why)) => return Err(why),
            }
        }
        if !drift.is_empty() {
            return Err(TreePatchError::Drift(drift));
        }
        let mut result: TreeResult = patched.removed.into_iter().map(|path| (path, None)).collect();
        result.extend(patched.created.into_iter().map(|(path, file)| (path, Some(file))));
        Ok(result)
    }
}

/// A tree while it is patched.
struct PatchedTree<'a> {
    tree: &'a dyn ReadTree,
    /// Paths that the whole diff removes, unless it creates them again.
    removed_paths: BTreeSet<&'a Path>,
    removed: BTreeSet<PathBuf>,
    created: BTreeMap<PathBuf, TreeFile>,
}

impl PatchedTree<'_> {
    fn file(&mut self, patch: &FilePatch) -> Result<(), FileMismatch> {
        let before = match &patch.old {
            Some(old) => Some(self.before(patch, old)?),
            None => None,
        };
        let bytes = patch.content.apply(before.as_ref().map(|file| file.bytes.as_slice()))?;
        if bytes.len() > limits::PATCHED_FILE_BYTES_MAX {
            let (count, most) = (bytes.len(), limits::PATCHED_FILE_BYTES_MAX);
            let path = patch.path();
            let why = format!("{} would have {count} bytes; the limit is {most}", path.display());
            return Err(TreePatchError::Unsupported(why).into());
        }
        let Some(new) = &patch.new else {
            if !bytes.is_empty() {
                return Err(mismatch("it has content that the diff does not remove"));
            }
            if let Some(old) = &patch.old {
                self.created.remove(&old.path);
                self.removed.insert(old.path.clone());
            }
            return Ok(());
        };
        if patch.old.is_none() || patch.renames() {
            self.check_free(&new.path)?;
        }
        // Another file may already have taken the name; that one stays.
        self.removed.extend(patch.old.as_ref().filter(|_| patch.renames()).map(|old| old.path.clone()));
        let mode = new.mode.or(before.map(|file| file.mode)).unwrap_or(FileMode::Plain);
        self.created.insert(new.path.clone(), TreeFile { mode, bytes });
        Ok(())
    }

    /// The content of a file before its part of the diff. A renamed file is read in its state before the whole diff.
    fn before(&self, patch: &FilePatch, old: &PatchSide) -> Result<TreeFile, FileMismatch> {
        let renames = patch.renames();
        let patched = self.created.get(&old.path).filter(|_| !renames);
        let found = match patched {
            Some(file) => Some(file.clone()),
            None if !renames && self.removed.contains(&old.path) => None,
            None => self.tree.read(&old.path)?,
        };
        let file = found.ok_or_else(|| mismatch("the file is missing"))?;
        let is_link = |mode: FileMode| mode == FileMode::Link;
        match old.mode {
            Some(mode) if is_link(mode) != is_link(file.mode) => Err(mismatch("its type differs")),
            Some(mode) if mode != file.mode => Err(mismatch("its mode differs")),
            // A diff without a git header does not support links.
            None if is_link(file.mode) && !patch.has_git_header => Err(mismatch("it is a symbolic link")),
            _ => Ok(file),
        }
    }

    fn check_free(&self, path: &Path) -> Result<(), FileMismatch> {
        let is_taken = |path: &Path| -> Result<bool, TreePatchError> {
            if self.created.contains_key(path) {
                return Ok(true);
            }
            Ok(!self.removed_paths.contains(path) && self.tree.read(path)?.is_some())
        };
        if is_taken(path)? {
            return Err(mismatch("it already exists"));
        }
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            if is_taken(above)? {
                return Err(mismatch(format!("{} is a file, not a folder", above.display())));
            }
        }
        Ok(())
    }
}

impl FilePatch {
    pub(super) fn renames(&self) -> bool {
        matches!((&self.old, &self.new), (Some(old), Some(new)) if old.path != new.path)
    }

    /// The path that does not exist afterwards.
    fn removed_path(&self) -> Option<&Path> {
        let old = self.old.as_ref()?;
        (self.new.is_none() || self.renames()).then_some(&*old.path)
    }
}

impl PatchContent {
    fn apply(&self, before: Option<&[u8]>) -> Result<Vec<u8>, FileMismatch> {
        let before = before.unwrap_or_default();
        match self {
            PatchContent::Same => Ok(before.to_vec()),
            PatchContent::Binary { forward, back } => {
                let after = forward.apply(before).ok_or_else(|| mismatch("its binary content differs"))?;
                // The reverse delta contains the earlier content, which the forward one may not.
                match back {
                    Some(back) if back.apply(&after).is_none_or(|found| found != before) => {
                        Err(mismatch("its binary content differs"))
                    }
                    _ => Ok(after),
                }
            }
            PatchContent::Text(hunks) => apply_hunks(before, hunks),
        }
    }
}

fn apply_hunks(before: &[u8], hunks: &[Hunk]) -> Result<Vec<u8>, FileMismatch> {
    let old: Vec<&[u8]> = before.split_inclusive(|byte| *byte == b'\n').collect();
    let mut new: Vec<&[u8]> = Vec::with_capacity(old.len());
    let mut at = 0;
    for hunk in hunks {
        let place = hunk.old_before;
        let kept =
            old.get(at..place).ok_or_else(|| mismatch(format!("it ends before line {}", place + 1)))?;
        new.extend_from_slice(kept);
        if new.len() != hunk.new_before {
            return Err(mismatch("the hunks are not in order"));
        }
        at = place;
        for line in &hunk.lines {
            if line.mark != Mark::Added {
                if old.get(at) != Some(&line.text.as_slice()) {
                    return Err(mismatch(format!("line {} differs", at + 1)));
                }
                at += 1;
            }
            if line.mark != Mark::Removed {
                new.push(&line.text);
            }
        }
        // As in git: changed lines without context after them are at the end of the file.
        if hunk.lines.last().is_some_and(|last| last.mark != Mark::Kept) && at < old.len() {
            return Err(mismatch(format!("it continues after line {at}")));
        }
    }
    new.extend_from_slice(&old[at..]);
    // Only the last line may lack a newline.
    let short = new.iter().position(|line| !line.ends_with(b"\n"));
    match short {
        Some(short) if short + 1 < new.len() => {
            Err(mismatch("a line without a newline would not be the last line"))
        }
        _ => Ok(new.concat()),
    }
}
