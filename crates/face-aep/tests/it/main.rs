//! The face without sockets, where time is the test's own: heartbeats, slow bodies, places for streams.

#![allow(clippy::unwrap_used)]

mod damaged_ids;
mod once;
mod places;
mod quiet;
mod stage;
#[path = "../../../engine/tests/it/store.rs"]
#[allow(dead_code, reason = "shared with the engine's own tests, which use all of it")]
mod store;
mod versions;
