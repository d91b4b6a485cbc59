//! The engine: where rules, log and world meet.
//!
//! What it promises to faces:
//!
//! * Everything that changes a run is a command, judged by the pure rules of `run`, written by the one
//!   writer of that run, and answered only when it is durable ([`WriteHandle::submit`], [`WriteHandle::ingest`]).
//! * What is read, is read the same way by everybody: history from the store, joined with the live
//!   tail without a gap or a repetition ([`ReadHandle::follow_run`], [`ReadHandle::follow_feed`]).
//! * Killing the process at any point is equivalent to shutting it down: whatever is in memory can be
//!   made again from the log.
//!
//! It must never know a wire format, a model or a tool. Start reading at [`Engine`].

mod admin;
mod catalogue;
mod engine;
mod ground;
pub mod limits;
mod read;
mod work;
mod write;

/// The future of a handle's method is boxed. Without that, each crate that awaits the method compiles the whole body of the
/// method, and all that it awaits, once more (`docs/decisions/0085`).
pub(crate) use async_recursion::async_recursion as boxed;

pub use admin::{
    AdminHandle, ArtifactDeletion, EngineStats, Import, Imported, MissingBlob, Policy, Scrubbed, StoredSize,
    Swept, TokenRow, TokenRows, add_token, import, kept_blobs, missing_blobs, remove_token, salvage, tokens,
};
pub use catalogue::{
    AgentOption, AllowanceFilter, AllowanceRow, ApprovalRow, ArtifactRow, Attached, Budget, Capabilities,
    CatalogueHandle, Choice, ChosenWorkspace, ClarificationRow, ClientTool, Erased, FileOrder, FoundArtifact,
    HandoffRow, ListQuery, Listed, OptionKind, Order, OrderChange, Overrides, Pin, Profile, Profiles,
    Purpose, RunFilter, RunRow, SessionRow, Sets, Setup, SetupRow, SpawnedBy, TaskRow, Tombstone, ToolInfo,
    ToolRef, UploadRow, check as check_catalogue, tombstones,
};
pub use engine::{Engine, EngineInstance, Visitor};
pub use ground::{Caller, Error, Failure, Narrowing, Receipt, Scope, Unacceptable, Whose};
pub use read::{
    ArtifactContent, ArtifactFilter, Delivery, Digest, Events, FeedPage, FeedRecords, Framing, LoggedOutput,
    Messages, OutputPieces, PatchAction, PatchBytes, PatchOrder, ReadHandle, ReaderStats, RunEnd,
    SessionStanding, SharedEvent, Sieve, Subscription, Told, TypePattern,
};
pub use recount_log::Damage;
pub use recount_redact::Redactor;
pub use work::{
    ApplyTo, ChangeKind, ChangeState, Desk, ForeignFate, ForeignMcpCall, ForeignVerdict, HeldFolders, Left,
    LentPlace, PatchRequest, Performer, Watch, WorkHandle, WorkspaceChange, WorkspaceChanges, WorkspaceOf,
};
pub use write::{
    Answering, ArtifactQuota, CommandOutcome, Keep, KeptAnswer, KeptArtifact, KeyedReply, Made, NewFork,
    NewRun, NewSetup, NewTask, Once, OutputInLog, Past, Pruned, Raise, ResumeFrom, SEAL_KEY_BYTES, Saying,
    Standing, Superseded, Target, Triple, UnderWay, Upload, WordReply, WriteHandle,
};
