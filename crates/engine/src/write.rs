//! Everything that changes a run or a record: the one writer of each run, how runs start, ingest, masking, requests that
//! are done once, artifacts. It must not know who works on a run, nor a wire format.
//!
//! Start reading at [`run_writer`].

pub(crate) mod admission;
pub(crate) mod allowances;
mod artifact_uses;
pub(crate) mod artifacts;
pub(crate) mod blobs;
mod child_runs;
pub(crate) mod commit;
pub(crate) mod damaged_rows;
pub(crate) mod deadlines;
pub(crate) mod ended_run;
mod group;
pub(crate) mod handle;
pub(crate) mod idempotency;
pub(crate) mod ingest;
mod listed_rows;
pub(crate) mod loaded_run;
pub(crate) mod new_run;
pub(crate) mod new_runs;
mod once;
pub(crate) mod owed_runs;
pub(crate) mod quotas;
pub(crate) mod redaction;
pub(crate) mod removal;
pub(crate) mod request;
mod resume_place;
pub(crate) mod room;
mod run_start;
pub(crate) mod run_writer;
mod say;
pub(crate) mod seal;
pub(crate) mod sealed;
mod session_redaction;
mod sessions;
mod setups;
pub(crate) mod start;
mod submit;
mod tasks;
pub(crate) mod with_rows;
mod writer_loop;
pub(crate) mod writers;

pub use artifacts::{Keep, KeptArtifact, OutputInLog, Target, Upload};
pub use ended_run::Past;
pub use handle::WriteHandle;
pub use idempotency::{CommandOutcome, KeptAnswer, KeyedReply, Made, Once, Standing, UnderWay, WordReply};
pub use ingest::Triple;
pub use new_run::NewRun;
pub use quotas::ArtifactQuota;
pub use removal::Pruned;
pub use resume_place::ResumeFrom;
pub use say::{Answering, Saying, Superseded};
pub use seal::SEAL_KEY_BYTES;
pub use setups::{NewFork, NewSetup};
pub use tasks::{NewTask, Raise};
