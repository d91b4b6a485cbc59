//! Applies a diff to a tree in memory. Look at [`TreePatch::apply`]: all of it fits, or nothing comes out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{FileMode, FilePatch, Hunk, Mark, PatchContent, PatchSide, TreePatch, TreePatchError};
use crate::limits;

/// The files that a diff is applied to.
pub(crate) trait ReadTree {
    /// `None`: no file and no link has this name.
    fn read(&self, path: &Path) -> Result<Option<TreeFile>, TreePatchError>;
}

/// A file, or a symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeFile {
    pub(crate) mode: FileMode,
    pub(crate) bytes: Vec<u8>,
}

/// What becomes of the paths of a diff; `None`: the file goes.
pub(crate) type TreeResult = BTreeMap<PathBuf, Option<TreeFile>>;

/// Why one file does not take its part.
enum FileMisfit {
    Drift(String),
    Failed(TreePatchError),
}

impl From<TreePatchError> for FileMisfit {
    fn from(why: TreePatchError) -> Self {
        FileMisfit::Failed(why)
    }
}

fn misfit(why: impl Into<String>) -> FileMisfit {
    FileMisfit::Drift(why.into())
}

impl TreePatch {
    /// The files as they are afterwards. Every file that does not fit is named.
    pub(crate) fn apply(&self, tree: &dyn ReadTree) -> Result<TreeResult, TreePatchError> {
        let leaving: BTreeSet<&Path> = self.files.iter().filter_map(FilePatch::leaves).collect();
        let mut made = Made { tree, leaving, removed: BTreeSet::new(), created: BTreeMap::new() };
        let mut drift = Vec::new();
        for file in &self.files {
            match made.file(file) {
                Ok(()) => {}
                Err(FileMisfit::Drift(why)) => drift.push((file.path(), why)),
                Err(FileMisfit::Failed(why)) => return Err(why),
            }
        }
        if !drift.is_empty() {
            return Err(TreePatchError::Drift(drift));
        }
        let mut result: TreeResult = made.removed.into_iter().map(|path| (path, None)).collect();
        result.extend(made.created.into_iter().map(|(path, file)| (path, Some(file))));
        Ok(result)
    }
}

/// A tree while it is changed.
struct Made<'a> {
    tree: &'a dyn ReadTree,
    /// What has gone when everything is applied, unless it is made anew.
    leaving: BTreeSet<&'a Path>,
    removed: BTreeSet<PathBuf>,
    created: BTreeMap<PathBuf, TreeFile>,
}

impl Made<'_> {
    fn file(&mut self, patch: &FilePatch) -> Result<(), FileMisfit> {
        let before = match &patch.old {
            Some(old) => Some(self.before(patch, old)?),
            None => None,
        };
        let bytes = patch.content.apply(before.as_ref().map(|file| file.bytes.as_slice()))?;
        if bytes.len() > limits::PATCHED_FILE_BYTES_MAX {
            let (count, most) = (bytes.len(), limits::PATCHED_FILE_BYTES_MAX);
            let path = patch.path();
            let why = format!("{} would have {count} bytes; {most} are the most", path.display());
            return Err(TreePatchError::Unsupported(why).into());
        }
        let Some(new) = &patch.new else {
            if !bytes.is_empty() {
                return Err(misfit("it holds more than the diff removes"));
            }
            if let Some(old) = &patch.old {
                self.created.remove(&old.path);
                self.removed.insert(old.path.clone());
            }
            return Ok(());
        };
        if patch.old.is_none() || patch.renames() {
            self.must_be_free(&new.path)?;
        }
        // Another file may have taken the name already: it stays.
        self.removed.extend(patch.old.as_ref().filter(|_| patch.renames()).map(|old| old.path.clone()));
        let mode = new.mode.or(before.map(|file| file.mode)).unwrap_or(FileMode::Plain);
        self.created.insert(new.path.clone(), TreeFile { mode, bytes });
        Ok(())
    }

    /// What a file holds before its part of the diff. What is renamed is taken as it was before everything.
    fn before(&self, patch: &FilePatch, old: &PatchSide) -> Result<TreeFile, FileMisfit> {
        let renames = patch.renames();
        let made = self.created.get(&old.path).filter(|_| !renames);
        let found = match made {
            Some(file) => Some(file.clone()),
            None if !renames && self.removed.contains(&old.path) => None,
            None => self.tree.read(&old.path)?,
        };
        let file = found.ok_or_else(|| misfit("the file is missing"))?;
        let is_link = |mode: FileMode| mode == FileMode::Link;
        match old.mode {
            Some(mode) if is_link(mode) != is_link(file.mode) => Err(misfit("it is of another type")),
            Some(mode) if mode != file.mode => Err(misfit("it has another mode")),
            // A diff that is not git's knows no links.
            None if is_link(file.mode) && !patch.is_gits => Err(misfit("it is a symbolic link")),
            _ => Ok(file),
        }
    }

    fn must_be_free(&self, path: &Path) -> Result<(), FileMisfit> {
        let is_taken = |path: &Path| -> Result<bool, TreePatchError> {
            if self.created.contains_key(path) {
                return Ok(true);
            }
            Ok(!self.leaving.contains(path) && self.tree.read(path)?.is_some())
        };
        if is_taken(path)? {
            return Err(misfit("it exists already"));
        }
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            if is_taken(above)? {
                return Err(misfit(format!("{} is a file and not a folder", above.display())));
            }
        }
        Ok(())
    }
}

impl FilePatch {
    pub(super) fn renames(&self) -> bool {
        matches!((&self.old, &self.new), (Some(old), Some(new)) if old.path != new.path)
    }

    /// What has gone afterwards.
    fn leaves(&self) -> Option<&Path> {
        let old = self.old.as_ref()?;
        (self.new.is_none() || self.renames()).then_some(&*old.path)
    }
}

impl PatchContent {
    fn apply(&self, before: Option<&[u8]>) -> Result<Vec<u8>, FileMisfit> {
        let before = before.unwrap_or_default();
        match self {
            PatchContent::Same => Ok(before.to_vec()),
            PatchContent::Binary { forward, back } => {
                let after = forward.apply(before).ok_or_else(|| misfit("its binary content is another"))?;
                // The way back says what was before, where the way there does not.
                match back {
                    Some(back) if back.apply(&after).is_none_or(|found| found != before) => {
                        Err(misfit("its binary content is another"))
                    }
                    _ => Ok(after),
                }
            }
            PatchContent::Text(hunks) => with_hunks(before, hunks),
        }
    }
}

fn with_hunks(before: &[u8], hunks: &[Hunk]) -> Result<Vec<u8>, FileMisfit> {
    let old: Vec<&[u8]> = before.split_inclusive(|byte| *byte == b'\n').collect();
    let mut new: Vec<&[u8]> = Vec::with_capacity(old.len());
    let mut at = 0;
    for hunk in hunks {
        let place = hunk.old_before;
        let kept = old.get(at..place).ok_or_else(|| misfit(format!("it ends before line {}", place + 1)))?;
        new.extend_from_slice(kept);
        if new.len() != hunk.new_before {
            return Err(misfit("the hunks do not follow on each other"));
        }
        at = place;
        for line in &hunk.lines {
            if line.mark != Mark::Added {
                if old.get(at) != Some(&line.text.as_slice()) {
                    return Err(misfit(format!("line {} is another", at + 1)));
                }
                at += 1;
            }
            if line.mark != Mark::Removed {
                new.push(&line.text);
            }
        }
        // As for git: lines that change without lines after them are the last of the file.
        if hunk.lines.last().is_some_and(|last| last.mark != Mark::Kept) && at < old.len() {
            return Err(misfit(format!("it goes on after line {at}")));
        }
    }
    new.extend_from_slice(&old[at..]);
    // Only the last line may lack its newline.
    let short = new.iter().position(|line| !line.ends_with(b"\n"));
    match short {
        Some(short) if short + 1 < new.len() => Err(misfit("a line without a newline would not be its last")),
        _ => Ok(new.concat()),
    }
}
