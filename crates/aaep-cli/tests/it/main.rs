//! Integration tests that run the program `aaep` as a process.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "in a test a surprise is a panic")]

mod capturing;
mod guide;
mod help;
mod judging_captures;
mod program;
mod replaying;
mod validating;
mod visualizing;

/// The binary, isolated from the environment of the test run.
fn aaep() -> std::process::Command {
    program::untouched(env!("CARGO_BIN_EXE_aaep"))
}
