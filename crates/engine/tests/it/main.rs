//! Tests of the engine in one process, on a store in memory, with paused time.

#![allow(clippy::unwrap_used)]

mod approvals;
mod artifacts;
mod budgets;
mod catalogue;
mod damaged_ids;
mod damaged_records;
mod deleted_artifacts;
mod delivery;
mod dispatch;
mod earlier;
mod erasure;
mod events;
mod faults;
mod follow;
mod identity;
mod import;
mod ingest;
mod lists;
mod logged_output;
mod older;
mod prompts;
mod redaction;
mod repairs;
mod retention;
mod runs;
mod scene;
mod sealed;
mod sessions;
mod setups;
mod signing;
mod tasks;
mod user_messages;
