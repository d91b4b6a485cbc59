//! The engine: where rules, log and world meet.
//!
//! What it promises to faces:
//!
//! * Everything that changes a run is a command, judged by the pure rules of `run`, written by the one
//!   writer of that run, and answered only when it is durable ([`Engine::submit`], [`Engine::ingest`]).
//! * What is read, is read the same way by everybody: history from the store, joined with the live
//!   tail without a gap or a repetition ([`Engine::follow_run`], [`Engine::follow_feed`]).
//! * Killing the process at any point is equivalent to shutting it down: whatever is in memory can be
//!   made again from the log.
//!
//! It must never know a wire format, a model or a tool. Start reading at [`Engine`].

mod allowances;
mod artifact;
mod catalogue;
mod desk;
mod dispatch;
mod engine;
mod erase;
mod error;
mod follow;
mod fresh;
mod history;
mod identity;
pub mod import;
mod ingest;
mod journal;
pub mod limits;
mod live;
mod messages;
mod metered;
mod meters;
mod once;
mod order;
mod past;
mod performer;
mod profile;
mod prompts;
mod publish;
mod queue;
mod redaction;
mod remembered;
mod retention;
mod row_pages;
mod rows;
pub mod salvage;
mod say;
mod scrub;
mod sealed;
mod sessions;
mod setup;
mod shared_event;
mod sieve;
mod standing;
mod subscribe;
mod tasks;
mod timers;
mod tokens;
mod workspaces;
mod writer;
mod writers;

pub use allowances::{AllowanceFilter, AllowanceRow};
pub use artifact::{
    ArtifactFilter, Keep, Kept as KeptArtifact, MissingBlob, Target, Upload, UploadRow, kept_blobs,
    missing_blobs,
};
pub use catalogue::{
    ApprovalRow, ArtifactRow, ClarificationRow, HandoffRow, RunRow, check as check_catalogue,
};
pub use desk::{Desk, Left, Watch};
pub use engine::{Digest, Engine, EngineInstance, FeedPage, ListQuery, Listed, NewRun, RunFilter};
pub use erase::{Erased, Tombstone, tombstones};
pub use error::{Error, Failure};
pub use follow::Events;
pub use identity::{Caller, Narrowing, Scope, Visitor};
pub use import::{Import, Imported};
pub use ingest::Triple;
pub use live::Framing;
pub use messages::{Messages, Told};
pub use meters::{EngineStats, ReaderStats};
pub use once::{CommandOutcome, KeptAnswer, KeyedReply, Once, Standing, UnderWay, WordReply};
pub use order::{Attached, ClientTool, FileOrder, Order, OrderChange, Purpose};
pub use past::Past;
pub use performer::{
    ApplyTo, ChangeKind, ChangeState, HeldFolders, Performer, Unacceptable, Whose, WorkspaceChange,
    WorkspaceChanges, WorkspaceOf,
};
pub use profile::{
    AgentOption, Capabilities, Choice, ChosenWorkspace, OptionKind, Profile, Profiles, Sets, ToolInfo,
    ToolRef,
};
pub use recount_log::Damage;
pub use recount_redact::Redactor;
pub use retention::{Kept, Pin, Policy, Pruned, Swept};
pub use say::{Answering, Saying, Superseded};
pub use scrub::Scrubbed;
pub use sealed::SEAL_KEY_BYTES;
pub use sessions::SessionRow;
pub use setup::{NewFork, NewSetup, Overrides, Setup, SetupRow};
pub use shared_event::SharedEvent;
pub use sieve::{Sieve, TypePattern};
pub use standing::SessionStanding;
pub use subscribe::{Delivery, Subscription};
pub use tasks::{Budget, NewTask, Raise, TaskRow};
pub use tokens::{TokenRow, add_token, remove_token, tokens};
pub use writer::Receipt;
