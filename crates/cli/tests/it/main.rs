//! Integration tests of the real binary: a server process, verbs that use it, and servers that are killed.

#![allow(clippy::unwrap_used, reason = "tests")]

mod crash;
mod crash_agents;
mod process;
mod server;
