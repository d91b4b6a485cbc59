//! Executes own runs: performers, dispatch to workers, worker sessions, workspaces and deadlines. It must not depend
//! on models or tools.
//!
//! Start with [`performer`].

mod dispatch;
pub(crate) mod handle;
mod patches;
pub(crate) mod performer;
mod start_files;
pub(crate) mod timers;
pub(crate) mod worker_session;
pub(crate) mod workspace;
mod workspaces;

pub use handle::WorkHandle;
pub use patches::PatchRequest;
pub use performer::{ForeignDecision, ForeignMcpCall, ForeignVerdict, Performer};
pub use worker_session::{LentSlot, Watch, WorkerExit, WorkerSession};
pub use workspace::{
    ApplyTo, ChangeKind, ChangeState, Conflicts, FilesCheck, HeldFolders, StartFiles, WorkspaceChange,
    WorkspaceChanges, WorkspaceOf,
};
