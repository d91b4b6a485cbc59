//! Integration tests of the face for listeners: routes and streams, and runs as sessions.

#![allow(clippy::unwrap_used, reason = "tests")]

mod serve;
mod sessions;
