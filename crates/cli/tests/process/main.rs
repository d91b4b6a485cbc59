//! The real binary: a server process, and verbs that ask it.

#![allow(clippy::unwrap_used)]

mod backups;
mod checks;
mod crowd;
mod doctor;
mod dying;
mod moving;
mod prompts;
mod readme;
mod refusals;
mod retention;
mod server;
mod story;
mod tails;
mod tamper;
mod tokens;
mod verbs;
