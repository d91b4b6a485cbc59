//! Integration tests of the agent: whole runs, providers of models, and commands in a sandbox.

#![allow(clippy::unwrap_used, reason = "tests")]

#[cfg(target_os = "linux")]
mod escape;
mod providers;
mod runs;
mod sandbox;
mod texts;
