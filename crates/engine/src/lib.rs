//! The engine: applies the rules of `run` to commands and stores the events in the log.
//!
//! Guarantees for faces:
//!
//! * Every change of a run is a command. The pure rules of `run` check it, the only writer of the run appends it, and
//!   the method returns when it is durable ([`WriteHandle::submit`], [`WriteHandle::ingest`]).
//! * All readers read the same way: history from the store, joined with the live tail without a gap or a repetition
//!   ([`ReadHandle::follow_run`], [`ReadHandle::follow_feed`]).
//! * A crash at any point equals a shutdown: everything in memory can be rebuilt from the log.
//!
//! It must not depend on a wire format, a model or a tool. Start with [`Engine`].

mod admin;
mod catalogue;
mod engine;
mod ground;
pub mod limits;
mod read;
mod work;
mod write;

/// Boxes the future of a handle's method. Otherwise each crate that awaits the method compiles its whole body again
/// (`docs/decisions/0085`).
pub(crate) use async_recursion::async_recursion as boxed;

pub use admin::{
    AdminHandle, ArtifactDeletion, DeadLetter, DeadLetterRow, DisabledWebhook, EngineStats, Import,
    ImportedRun, KeyRow, MissingBlob, Policy, PromptWaits, ScrubReport, StoredSize, SweepPlan, SweepReport,
    TokenRow, TokenRows, WebhookRow, add_token, expected_blobs, import, missing_blobs, remove_token, salvage,
    signed_runs, signing_keys, stored_head, tokens,
};
pub use catalogue::{
    AgentOption, AllowanceFilter, AllowanceRow, ApprovalRow, ArtifactRow, Attachment, Budget, Capabilities,
    CatalogueHandle, Choice, ChosenWorkspace, ClarificationRow, ClientTool, ErasureRecord, FileCall,
    FilesFrom, FoundArtifact, HandoffRow, ListPage, ListQuery, OptionKind, OptionTarget, Overrides, PageEnd,
    Pin, Profile, Profiles, PromptRow, Purpose, RunConfig, RunConfigChange, RunFilter, RunOwner, RunRow,
    SessionRow, Setup, SetupRow, SpawnedBy, TaskRow, Tombstone, ToolInfo, ToolRef, UploadRow,
    check as check_catalogue, name_begins, tombstones,
};
pub use engine::{Engine, EngineInstance, RequestContext};
pub use ground::rows::SPACES as ROW_SPACES;
pub use ground::{Caller, Error, Failure, Narrowing, Scope, Unacceptable};
pub use read::{
    ArtifactContent, ArtifactFilter, Delivery, Digest, EventFilter, EventPage, Events, FeedRecords, Framing,
    LoggedOutput, Messages, OutputPieces, PatchAction, PatchBytes, PatchSet, ReadHandle, ReaderStats, RunEnd,
    SessionMessage, SessionTotals, SharedEvent, Subscription, TypePattern,
};
pub use recount_event::Receipt;
pub use recount_log::{Damage, MaybeDamage, ReadResult, Readable};
pub use recount_redact::Redactor;
pub use work::{
    ApplyTo, ChangeKind, ChangeState, Conflicts, FilesCheck, ForeignDecision, ForeignMcpCall, ForeignVerdict,
    HeldFolders, LentSlot, PatchRequest, Performer, StartFiles, Watch, WorkHandle, WorkerExit, WorkerSession,
    WorkspaceChange, WorkspaceChanges, WorkspaceOf,
};
pub use write::{
    ArtifactInput, ArtifactQuota, ArtifactReceipt, BatchId, EndedRun, IdempotencyKey, InFlight, NewFork,
    NewRun, NewSetup, NewTask, OutputInLog, PatchTarget, Pruned, RequestResult, RequestState, ResumeFrom,
    RunReply, SEAL_KEY_BYTES, StoredResponse, SupersededRun, TaskChange, Upload, UserMessage, WriteHandle,
};
