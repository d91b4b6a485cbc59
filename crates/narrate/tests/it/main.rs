//! The client of speech-dispatcher, against a real one.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "in a test a surprise is a panic")]

mod dispatcher;
mod ssip;
