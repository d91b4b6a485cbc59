//! The program `aaep` in processes of its own.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "in a test a surprise is a panic")]

mod capturing;
mod guide;
mod help;
mod judging_captures;
mod program;
mod replaying;
mod validating;
mod visualizing;

/// The binary, untouched by the environment of the person who runs the tests.
fn aaep() -> std::process::Command {
    program::untouched(env!("CARGO_BIN_EXE_aaep"))
}
