//! Work on our own runs: who does it, how runs are given to workers, what a worker holds in hand, and deadlines. It must
//! not know models or tools.
//!
//! Start reading at [`performer`].

mod admission;
mod dispatch;
pub(crate) mod handle;
pub(crate) mod lent_place;
mod patches;
pub(crate) mod performer;
pub(crate) mod session;
pub(crate) mod timers;
pub(crate) mod workspace;
mod workspaces;

pub use handle::WorkHandle;
pub use lent_place::LentPlace;
pub use patches::PatchRequest;
pub use performer::{ForeignFate, ForeignMcpCall, ForeignVerdict, Performer};
pub use session::{Desk, Left, Watch};
pub use workspace::{
    ApplyTo, ChangeKind, ChangeState, HeldFolders, WorkspaceChange, WorkspaceChanges, WorkspaceOf,
};
