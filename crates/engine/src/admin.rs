//! Admin operations: retention, erasure, import, salvage, scrub, tokens, statistics and store checks. No module below
//! `admin` may depend on it.

mod artifacts;
mod cursors;
mod erase;
pub(crate) mod handle;
mod health;
mod housekeeping;
pub mod import;
mod lost_blobs;
mod retention;
pub mod salvage;
mod scrub;
mod signer;
mod signing;
mod statistics;
mod tokens;
mod webhooks;

pub use crate::ground::counters::{PromptWaits, ScrubReport};
pub use artifacts::ArtifactDeletion;
pub use handle::AdminHandle;
pub use import::{Import, ImportedRun};
pub use lost_blobs::{MissingBlob, expected_blobs, missing_blobs};
pub use retention::{Policy, StoredSize, SweepPlan, SweepReport};
pub use signing::{KeyRow, signed_runs, signing_keys, stored_head};
pub use statistics::EngineStats;
pub use tokens::{TokenRow, TokenRows, add_token, remove_token, tokens};
pub use webhooks::{DeadLetter, DeadLetterRow, DisabledWebhook, WebhookRow};
