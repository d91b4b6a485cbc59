//! Changes runs and records: the writer of each run, run start, ingest, masking, idempotency keys, artifacts. It must
//! not know who executes a run, nor a wire format.
//!
//! Start with [`writer`].

pub(crate) mod allowances;
mod artifact_uses;
pub(crate) mod artifacts;
pub(crate) mod blobs;
pub(crate) mod commit;
pub(crate) mod context;
pub(crate) mod deadlines;
pub(crate) mod ended_run;
pub(crate) mod handle;
pub(crate) mod idempotency;
mod idempotency_store;
pub(crate) mod ingest;
mod listed_rows;
pub(crate) mod loaded_run;
pub(crate) mod new_run;
pub(crate) mod new_runs;
pub(crate) mod pending_runs;
pub(crate) mod quotas;
pub(crate) mod redaction;
pub(crate) mod removal;
pub(crate) mod request;
mod resume_point;
pub(crate) mod row_deletions;
mod run_start;
pub(crate) mod seal;
pub(crate) mod sealed;
mod session_cache;
mod session_redaction;
mod sessions;
mod setups;
pub(crate) mod start;
mod tasks;
mod user_messages;
pub(crate) mod writer;
pub(crate) mod writers;

pub use artifacts::{ArtifactInput, ArtifactReceipt, OutputInLog, PatchTarget, Upload};
pub use ended_run::EndedRun;
pub use handle::WriteHandle;
pub use idempotency::{IdempotencyKey, InFlight, RequestResult, RequestState, StoredResponse};
pub use ingest::BatchId;
pub use new_run::NewRun;
pub use quotas::ArtifactQuota;
pub use request::Pruned;
pub use resume_point::ResumeFrom;
pub use seal::SEAL_KEY_BYTES;
pub use setups::{NewFork, NewSetup};
pub use tasks::{NewTask, TaskChange};
pub use user_messages::{RunReply, SupersededRun, UserMessage};
