//! Integration tests of recording: hooks, transcripts, ACP messages and OTLP, without a server.

#![allow(clippy::unwrap_used, reason = "tests")]

mod acp;
mod hooks;
mod legal;
mod otlp;
mod transcripts;
