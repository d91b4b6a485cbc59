//! The real binary: a server process, and verbs that ask it.

#![allow(clippy::unwrap_used)]

mod moving;
mod refusals;
mod server;
mod story;
mod verbs;
