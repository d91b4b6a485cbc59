//! Where a run worked, and what it changed there. It must not know how copies are made.

use std::any::Any;
use std::path::PathBuf;

use recount_event::RunId;

/// Where a run worked, as its log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceOf {
    pub mode: Option<String>,
    pub path: String,
}

/// Folders in which no run begins to work until this is dropped.
#[derive(Default)]
pub struct HeldFolders {
    pub folders: Vec<PathBuf>,
    _held: Option<Box<dyn Any + Send>>,
}

impl HeldFolders {
    pub fn new(folders: Vec<PathBuf>, held: impl Any + Send) -> Self {
        HeldFolders { folders, _held: Some(Box::new(held)) }
    }
}

/// Where changes go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplyTo {
    /// A new branch; without it, the folder itself.
    pub branch: Option<String>,
    /// Of the commit.
    pub message: String,
}

/// What a run changed in its copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceChanges {
    /// The copy.
    pub path: String,
    /// What it was made of.
    pub source: String,
    /// In the order of their paths; fewer than `count` where there are very many.
    pub changes: Vec<WorkspaceChange>,
    pub count: u64,
    /// Files and folders in the copy that git is told to ignore; they take no part.
    pub ignored: u64,
    /// What is not in the original yet, and whether something is left out of it.
    pub diff: String,
    pub diff_cut: bool,
    /// Where they were put.
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// The run that works in the copy, or in the original, at this moment; nothing can be applied before it ends.
    pub active: Option<RunId>,
    /// Files of the original that an earlier apply, which a crash cut off, had moved away and that were put back first.
    pub put_back: u64,
}

/// One path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceChange {
    pub path: String,
    pub kind: ChangeKind,
    /// `file`, `folder` or `link`.
    pub thing: &'static str,
    pub state: ChangeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Changed,
    Deleted,
}

/// How a change stands to the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeState {
    /// Not in the original, which is there as it was when it was copied.
    Open,
    /// In the original.
    Applied,
    /// The original was changed in the same place.
    Conflict,
}
