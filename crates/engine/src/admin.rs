//! What an operator asks for: retention, erasure, import, salvage, scrubbing, tokens, statistics, checks of the store.
//! Nothing below it knows of it.

mod artifacts;
mod erase;
pub(crate) mod handle;
mod health;
mod housekeeping;
pub mod import;
mod lost_blobs;
mod retention;
pub mod salvage;
mod scrub;
mod statistics;
mod tokens;

pub use crate::ground::counters::Scrubbed;
pub use artifacts::ArtifactDeletion;
pub use handle::AdminHandle;
pub use import::{Import, Imported};
pub use lost_blobs::{MissingBlob, kept_blobs, missing_blobs};
pub use retention::{Policy, StoredSize, Swept};
pub use statistics::EngineStats;
pub use tokens::{TokenRow, TokenRows, add_token, remove_token, tokens};
