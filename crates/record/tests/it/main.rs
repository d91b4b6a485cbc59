//! Integration tests of recording: hooks, transcripts and ACP messages, without a server.

#![allow(clippy::unwrap_used, reason = "tests")]

mod acp;
mod hooks;
mod legal;
mod transcripts;
