//! Unified diffs as values: parsed, applied in memory, inverted and written, for `diff`, `git diff` and `git diff
//! --binary`.
//!
//! Pure: it must never know folders, runs or artifacts.
//!
//! Start at [`TreePatch`]. Everything is bytes, so line endings, a missing last newline and any text encoding are
//! preserved. A hunk fits only at the line that it names; there is no fuzzy matching.

mod apply;
mod binary;
mod limits;
mod names;
mod parse;
mod write;

use std::path::PathBuf;

pub(crate) use apply::{ReadTree, TreeFile, TreeResult};
use binary::BinaryPiece;

/// A diff of one or more files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreePatch {
    pub(crate) files: Vec<FilePatch>,
}

/// The part of a diff for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePatch {
    /// `None`: the file is added.
    pub(crate) old: Option<PatchSide>,
    /// `None`: the file is deleted.
    pub(crate) new: Option<PatchSide>,
    pub(crate) content: PatchContent,
    /// Whether it has a `diff --git` header.
    has_git_header: bool,
    /// The object names before and after, which git needs for binary content.
    index: Option<(String, String)>,
}

/// The path and mode of a file before or after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatchSide {
    pub(crate) path: PathBuf,
    /// `None`: the diff does not name it.
    pub(crate) mode: Option<FileMode>,
}

/// The file modes that git distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileMode {
    Plain,
    Executable,
    /// A symbolic link; its content is its target.
    Link,
}

/// The change of the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PatchContent {
    Same,
    Text(Vec<Hunk>),
    Binary { forward: BinaryPiece, back: Option<BinaryPiece> },
}

/// Changed lines with their context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The number of lines before the hunk, in the old and in the new content.
    old_before: usize,
    new_before: usize,
    lines: Vec<HunkLine>,
}

/// A line with its newline, which the last line of a file may lack.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HunkLine {
    mark: Mark,
    text: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Kept,
    Removed,
    Added,
}

/// Why a diff cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TreePatchError {
    #[error("line {line} of the diff: {what}")]
    Malformed { line: usize, what: String },
    #[error("{0}")]
    Unsupported(String),
    /// The files differ from those that the diff was made for.
    #[error("{}", drift_message(.0))]
    Drift(Vec<(PathBuf, String)>),
    /// A file could not be read.
    #[error("{0}")]
    Unreadable(String),
}

fn drift_message(found: &[(PathBuf, String)]) -> String {
    let each: Vec<String> = found.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect();
    each.join("; ")
}

impl FileMode {
    fn as_str(self) -> &'static str {
        match self {
            FileMode::Plain => "100644",
            FileMode::Executable => "100755",
            FileMode::Link => "120000",
        }
    }

    fn parse(word: &[u8]) -> Option<Self> {
        match word {
            b"120000" => Some(FileMode::Link),
            // Older diffs also have the other mode bits. Like git, only this one counts.
            [b'1', b'0', b'0', user, ..] if word.len() == 6 && user.is_ascii_digit() => {
                Some(if (user - b'0') & 1 == 1 { FileMode::Executable } else { FileMode::Plain })
            }
            _ => None,
        }
    }
}

impl TreePatch {
    /// The patch that reverts this one. An error if the diff does not contain everything that is needed.
    pub(crate) fn inverse(&self) -> Result<TreePatch, TreePatchError> {
        let files = self.files.iter().rev().map(FilePatch::inverse).collect::<Result<_, _>>()?;
        Ok(TreePatch { files })
    }

    /// The numbers of added lines, removed lines and hunks.
    pub(crate) fn figures(&self) -> [u64; 3] {
        let mut figures = [0; 3];
        for file in &self.files {
            let PatchContent::Text(hunks) = &file.content else { continue };
            figures[2] += hunks.len() as u64;
            for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
                match line.mark {
                    Mark::Added => figures[0] += 1,
                    Mark::Removed => figures[1] += 1,
                    Mark::Kept => {}
                }
            }
        }
        figures
    }

    /// Every path that it reads or writes, once, in the order of the diff.
    pub(crate) fn paths(&self) -> Vec<&PathBuf> {
        let mut paths: Vec<&PathBuf> = Vec::new();
        for side in self.files.iter().flat_map(|file| [&file.old, &file.new]).flatten() {
            if !paths.contains(&&side.path) {
                paths.push(&side.path);
            }
        }
        paths
    }
}

impl FilePatch {
    /// The path of the file: the new one if it has one.
    fn path(&self) -> PathBuf {
        self.new.as_ref().or(self.old.as_ref()).map(|side| side.path.clone()).unwrap_or_default()
    }

    fn inverse(&self) -> Result<FilePatch, TreePatchError> {
        let content = match &self.content {
            PatchContent::Same => PatchContent::Same,
            PatchContent::Text(hunks) => PatchContent::Text(hunks.iter().map(Hunk::inverse).collect()),
            PatchContent::Binary { forward, back: Some(back) } => {
                PatchContent::Binary { forward: back.clone(), back: Some(forward.clone()) }
            }
            PatchContent::Binary { back: None, .. } => {
                let path = self.path();
                let why = "the diff does not contain the earlier binary content";
                return Err(TreePatchError::Unsupported(format!("{}: {why}", path.display())));
            }
        };
        Ok(FilePatch {
            old: self.new.clone(),
            new: self.old.clone(),
            content,
            has_git_header: self.has_git_header,
            index: self.index.clone().map(|(old, new)| (new, old)),
        })
    }
}

impl Hunk {
    fn inverse(&self) -> Hunk {
        let mut lines = Vec::with_capacity(self.lines.len());
        let mut added = Vec::new();
        // Removed lines come before added ones, as in every unified diff.
        for line in &self.lines {
            let text = line.text.clone();
            match line.mark {
                Mark::Removed => added.push(HunkLine { mark: Mark::Added, text }),
                Mark::Added => lines.push(HunkLine { mark: Mark::Removed, text }),
                Mark::Kept => {
                    lines.append(&mut added);
                    lines.push(line.clone());
                }
            }
        }
        lines.append(&mut added);
        Hunk { old_before: self.new_before, new_before: self.old_before, lines }
    }
}

#[cfg(test)]
mod tests;
