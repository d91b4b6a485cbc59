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

/// Whether a new copy can start from recorded files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilesCheck {
    /// The copy has exactly these files now.
    Current,
    Restorable,
    /// The files were not recorded, and why.
    NotRecorded(String),
    /// Some files are missing, and which.
    NotRestorable(String),
}

/// The files that a run after an ended one starts from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StartFiles {
    /// Those of the place where it starts.
    #[default]
    Restore,
    /// Those in the folder of the ended run, as they are now.
    Current,
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

/// The target of an apply, and the selected changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplyTo {
    /// A new branch; without it, the folder itself.
    pub branch: Option<String>,
    /// The commit message.
    pub message: String,
    /// Changed paths, each with everything below it; empty: all changes.
    pub paths: Vec<String>,
    pub conflicts: Conflicts,
    /// The digest of the changes that a person was shown; others are refused.
    pub shown_digest: Option<String>,
}

/// What is done with changes that conflict with the folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Conflicts {
    /// Nothing is written.
    #[default]
    Refuse,
    /// They stay in the copy, and the other changes are written.
    Skip,
    /// Both versions are written, between conflict markers. Those that cannot be written so are skipped.
    Mark,
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
    /// Of all changes, with both sides and the state of each.
    pub digest: String,
}

/// A changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceChange {
    pub path: String,
    pub kind: ChangeKind,
    /// `file`, `folder` or `link`.
    pub thing: &'static str,
    pub state: ChangeState,
    /// The conflicting parts of the file, with both versions between conflict markers, if they can be shown so.
    pub conflict: Option<String>,
    /// What executes or obeys this file on its own, for example `direnv`.
    pub executed_by: Option<&'static str>,
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
    /// The original was changed in another part of the file: both changes can be kept.
    Mergeable,
    /// In the source.
    Applied,
    /// The source has another change at the same location.
    Conflict,
}
