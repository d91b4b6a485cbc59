//! The interface to the code that executes own runs. The engine tracks which worker has a run; it must not know
//! models or tools.
//!
//! Start with [`Performer`]. It gets a [`crate::WorkerSession`] for one run, works until nothing is outstanding, and
//! returns; `dispatch` calls it again for new work.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use recount_event::Code;
use recount_event::family::approval::Reversibility;
use recount_event::family::run::Queued;
use recount_event::family::tool::RiskLevel;

use crate::{
    ApplyTo, FilesCheck, FilesFrom, HeldFolders, NewRun, PatchSet, RunOwner, Unacceptable, WorkerSession,
    WorkspaceChanges, WorkspaceOf,
};

/// Executes own runs.
pub trait Performer: Send + Sync + 'static {
    /// Fills in the missing options of a new run, and refuses an invalid one. Nothing is written yet; the log stores
    /// `new` as it is afterwards.
    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable>;

    /// The workspace part of [`Performer::accept`]: fills in the folder, and refuses a folder that runs may not use.
    /// Checks nothing else.
    fn accept_workspace(&self, _new: &mut NewRun) -> Result<(), Unacceptable> {
        Ok(())
    }

    /// Refuses a run that cannot keep its budget. Called right before the run starts, because the usage is only known
    /// then.
    fn afford(&self, _queued: &Queued) -> Result<(), Unacceptable> {
        Ok(())
    }

    /// The policy's verdict on a call of another agent. It has no effect on the call.
    fn judge_mcp_call(&self, _call: &ForeignMcpCall) -> Option<ForeignVerdict> {
        None
    }

    /// Executes the outstanding work of a run. The start of a new run may not be confirmed yet: see
    /// [`WorkerSession::wait_until_started`]. Dropping the future interrupts the worker like a crash: the next worker
    /// takes over.
    fn perform(&self, session: WorkerSession) -> BoxFuture<'static, Option<WorkerSession>>;

    /// The changes of a run in its copy of the workspace.
    fn changes(&self, copy: WorkspaceOf) -> BoxFuture<'static, Result<WorkspaceChanges, Unacceptable>> {
        Box::pin(std::future::ready(Err(no_copies(&copy))))
    }

    /// The folders of a copy and of its source.
    fn folders(&self, _copy: WorkspaceOf) -> BoxFuture<'static, Result<Vec<PathBuf>, Unacceptable>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Prevents runs from starting in a copy or its source until the result is dropped. Waits for tools that still
    /// run there, and refuses with `run_active` if they continue.
    fn hold(&self, _copy: WorkspaceOf) -> BoxFuture<'static, Result<HeldFolders, Unacceptable>> {
        Box::pin(std::future::ready(Ok(HeldFolders::default())))
    }

    /// Applies the changes to the source of the copy, and holds the folders until then. Applies all of them or none.
    fn apply(
        &self,
        copy: WorkspaceOf,
        _to: ApplyTo,
        _held: HeldFolders,
    ) -> BoxFuture<'static, Result<WorkspaceChanges, Unacceptable>> {
        Box::pin(std::future::ready(Err(no_copies(&copy))))
    }

    /// Checks whether patches fit the current files of a workspace. Writes nothing.
    fn check_patches(
        &self,
        workspace: WorkspaceOf,
        _order: PatchSet,
    ) -> BoxFuture<'static, Result<(), Unacceptable>> {
        Box::pin(std::future::ready(Err(no_copies(&workspace))))
    }

    /// Whether a new copy can start from recorded files. Writes nothing.
    fn check_files(
        &self,
        _mode: Option<String>,
        from: FilesFrom,
    ) -> BoxFuture<'static, Result<FilesCheck, Unacceptable>> {
        let why = format!("this server keeps no copy {}", from.workspace_path);
        Box::pin(std::future::ready(Ok(FilesCheck::NotRecorded(why))))
    }

    /// A run was deleted that worked alone in this folder: if it is a copy, it goes, too.
    fn forget_copy(&self, _path: String) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Called after a task or session was deleted with its runs: deletes what is stored for it outside of the log.
    fn forget(&self, owner: RunOwner) -> BoxFuture<'static, ()>;
}

/// An MCP tool call of another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignMcpCall {
    /// The name that the server reports.
    pub server: String,
    pub tool: String,
    /// Whether the server marks the call as destructive.
    pub destroys: bool,
}

/// The verdict as if it were a call of an own run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignVerdict {
    pub decision: ForeignDecision,
    pub risk: RiskLevel,
    pub reversibility: Reversibility,
    /// The digest of the rules; `None` for the default policy.
    pub policy_digest: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeignDecision {
    Allowed,
    NeedsApproval { reason: String },
    Blocked { policy_id: String, reason: String },
}

fn no_copies(copy: &WorkspaceOf) -> Unacceptable {
    Unacceptable {
        code: Code::WorkspaceGone,
        message: format!("the run's copy {} is not on this server", copy.path),
    }
}
