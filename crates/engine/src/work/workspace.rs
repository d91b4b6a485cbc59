//! The workspace of a run and the changes in it. It must not know how copies are made.

use std::any::Any;
use std::path::PathBuf;

use recount_event::RunId;

/// The workspace of a run, according to its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceOf {
    pub mode: Option<String>,
    pub path: String,
}

/// Folders in which no run can start until this is dropped.
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

/// The target of an apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplyTo {
    /// A new branch; without it, the folder itself.
    pub branch: Option<String>,
    /// The commit message.
    pub message: String,
}

/// The changes of a run in its copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceChanges {
    /// The copy.
    pub path: String,
    /// The source of the copy.
    pub source: String,
    /// Ordered by path; fewer than `count` if there are very many.
    pub changes: Vec<WorkspaceChange>,
    pub count: u64,
    /// Files and folders in the copy that git ignores; they are not part of the changes.
    pub ignored: u64,
    /// The changes that are not in the source yet, and whether the diff is truncated.
    pub diff: String,
    pub diff_cut: bool,
    /// The target after an apply.
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// The active run in the copy or in the source; changes cannot be applied before it ends.
    pub active: Option<RunId>,
    /// Files of the source that an interrupted apply had moved away and that were restored first.
    pub put_back: u64,
}

/// A changed path.
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

/// The state of a change in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeState {
    /// Not in the source, which is unchanged since the copy.
    Open,
    /// In the source.
    Applied,
    /// The source has another change at the same location.
    Conflict,
}
