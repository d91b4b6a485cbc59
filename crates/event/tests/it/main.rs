//! What the vocabulary promises, held against files that are committed.

#![allow(clippy::unwrap_used, reason = "in a test a surprise is a panic")]

mod blessed;
mod codec;
mod door;
mod fixtures;
mod generated;
mod json_text;
mod mutations;
mod prompts;
mod rfc;
mod schemas;
