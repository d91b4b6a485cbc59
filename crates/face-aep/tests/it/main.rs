//! The face without sockets, where time is the test's own: heartbeats, slow bodies, places for streams.

#![allow(clippy::unwrap_used)]

mod damaged_ids;
mod once;
mod places;
mod quiet;
mod stage;
mod versions;
