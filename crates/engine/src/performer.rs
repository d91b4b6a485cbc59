//! Who does what our own runs are owed. The engine knows that it is done, and by whom a run is held; what a model
//! or a tool is, it does not know.
//!
//! Look at [`Performer`]. It is given a [`crate::Desk`] for one run, works until nothing is owed any more, and
//! leaves; `dispatch` calls it again when something is.

use std::any::Any;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use recount_event::family::run::Queued;
use recount_event::{Code, RunId, SessionId, TaskId};

use crate::{Desk, Error, NewRun};

/// See the file's head.
pub trait Performer: Send + Sync + 'static {
    /// Fills in what a request for one of our runs left open, and refuses what cannot be done. Nothing was
    /// written by now; what stands in `new` afterwards is what the log says of the run for good.
    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable>;

    /// Of what [`Performer::accept`] does only the part about the folder: fills in where a run would work, and refuses a
    /// folder that may not be worked on. Whatever else could be refused of the run is not looked at.
    fn accept_workspace(&self, _new: &mut NewRun) -> Result<(), Unacceptable> {
        Ok(())
    }

    /// Refuses a run that could not keep to its budget, which is known only when the run is about to begin.
    fn afford(&self, _queued: &Queued) -> Result<(), Unacceptable> {
        Ok(())
    }

    /// Does what a run is owed. The run may have been asked for just now, so that the store has not confirmed its
    /// beginning yet: see [`Desk::settled`]. Dropping the future breaks it off, as a crash would: whoever comes next takes over.
    fn perform(&self, desk: Desk) -> BoxFuture<'static, Option<Desk>>;

    /// What a run changed in the copy that it worked in.
    fn changes(&self, copy: WorkspaceOf) -> BoxFuture<'static, Result<WorkspaceChanges, Unacceptable>> {
        Box::pin(std::future::ready(Err(no_copies(&copy))))
    }

    /// A copy, and what it was made of.
    fn folders(&self, _copy: WorkspaceOf) -> BoxFuture<'static, Result<Vec<PathBuf>, Unacceptable>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Keeps runs from beginning to work in a copy, or in what it was made of, until what is answered is dropped. Waits for
    /// tools that still work there, and refuses with `run_active` where they go on.
    fn hold(&self, _copy: WorkspaceOf) -> BoxFuture<'static, Result<HeldFolders, Unacceptable>> {
        Box::pin(std::future::ready(Ok(HeldFolders::default())))
    }

    /// Makes these changes where the copy was made from, and keeps what is held until that is done. Refused as a whole, or
    /// done as a whole.
    fn apply(
        &self,
        copy: WorkspaceOf,
        _to: ApplyTo,
        _held: HeldFolders,
    ) -> BoxFuture<'static, Result<WorkspaceChanges, Unacceptable>> {
        Box::pin(std::future::ready(Err(no_copies(&copy))))
    }

    /// A task, or a session, was deleted with all its runs: what was kept outside of the log for it goes, too.
    fn forget(&self, whose: Whose) -> BoxFuture<'static, ()>;
}

fn no_copies(copy: &WorkspaceOf) -> Unacceptable {
    Unacceptable {
        code: Code::WorkspaceGone,
        message: format!("the run's copy {} is not on this server", copy.path),
    }
}

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

/// What runs belong to: what was deleted, or what is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Task(TaskId),
    Session(SessionId),
}

impl From<TaskId> for Whose {
    fn from(task: TaskId) -> Self {
        Whose::Task(task)
    }
}

impl From<SessionId> for Whose {
    fn from(session: SessionId) -> Self {
        Whose::Session(session)
    }
}

/// Why a run cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unacceptable {
    pub code: Code,
    pub message: String,
}

impl From<Unacceptable> for Error {
    fn from(no: Unacceptable) -> Self {
        Error::rejected(no.code, no.message)
    }
}
