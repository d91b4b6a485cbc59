//! Tests of the tools with files, real sockets and real programs.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "in a test a surprise is a panic")]

mod captures;
mod conformance_page;
mod exchange;
mod mutants;
#[expect(dead_code, reason = "the tests of links use more of it")]
#[path = "../../../aaep-client/tests/it/server.rs"]
mod producer;
mod recordings;
mod reference_producer;
mod replay;
mod requirements;
mod scripted;
mod subscriber;
mod subscriber_push;
mod trace_files;
mod traces;
mod validate;
