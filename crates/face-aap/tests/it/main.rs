//! Integration tests of the face for applications: whole conversations over HTTP, and runs as turns.

#![allow(clippy::unwrap_used, reason = "tests")]

mod http;
mod turns;
