//! Who does what our own runs are owed. The engine knows that it is done, and by whom a run is held; what a model
//! or a tool is, it does not know.
//!
//! Look at [`Performer`]. It is given a [`crate::Desk`] for one run, works until nothing is owed any more, and
//! leaves; `dispatch` calls it again when something is.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use recount_event::Code;
use recount_event::family::approval::Reversibility;
use recount_event::family::run::Queued;
use recount_event::family::tool::RiskLevel;

use crate::{
    ApplyTo, Desk, HeldFolders, NewRun, PatchOrder, Unacceptable, Whose, WorkspaceChanges, WorkspaceOf,
};

/// See the file's head.
pub trait Performer: Send + Sync + 'static {
    /// Fills in what a request for one of our runs left open, and refuses what cannot be done. Nothing was
    /// written by now; what `new` holds afterwards is what the log says of the run for good.
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

    /// The policy's verdict on a call of another agent. It has no effect on the call.
    fn judge_mcp_call(&self, _call: &ForeignMcpCall) -> Option<ForeignVerdict> {
        None
    }

    /// Does what a run is owed. The run may have been asked for just now, so that the store has not confirmed its
    /// beginning yet: see [`Desk::settled`]. Dropping the future breaks it off, as a crash would: the next worker takes over.
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

    /// Whether patches fit the files of a workspace as they are now. Writes nothing.
    fn check_patches(
        &self,
        workspace: WorkspaceOf,
        _order: PatchOrder,
    ) -> BoxFuture<'static, Result<(), Unacceptable>> {
        Box::pin(std::future::ready(Err(no_copies(&workspace))))
    }

    /// A task, or a session, was deleted with all its runs: what was kept outside of the log for it goes, too.
    fn forget(&self, whose: Whose) -> BoxFuture<'static, ()>;
}

/// A call of an MCP server's tool by an agent that is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignMcpCall {
    /// As it calls itself.
    pub server: String,
    pub tool: String,
    /// Whether the server says that a call may destroy something.
    pub destroys: bool,
}

/// What would become of it if it were a call of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignVerdict {
    pub fate: ForeignFate,
    pub risk: RiskLevel,
    pub reversibility: Reversibility,
    /// Of the rules; nothing for the default.
    pub policy_digest: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeignFate {
    Allowed,
    Asked { reason: String },
    Blocked { policy_id: String, reason: String },
}

fn no_copies(copy: &WorkspaceOf) -> Unacceptable {
    Unacceptable {
        code: Code::WorkspaceGone,
        message: format!("the run's copy {} is not on this server", copy.path),
    }
}
