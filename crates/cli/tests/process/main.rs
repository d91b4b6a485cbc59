//! The real binary: a server process, and verbs that ask it.

#![allow(clippy::unwrap_used)]

mod allowing;
mod applications;
mod applications_start;
mod audit;
mod backups;
mod behind_tls;
mod between;
mod capturing;
mod chat;
mod checks;
mod crowd;
mod demo;
mod doctor;
mod dying;
mod forged;
mod future;
mod guide;
mod judging_captures;
mod lines;
mod listening;
mod logging;
mod lost_log;
mod moving;
mod narrating;
mod offline;
mod prompts;
mod public_suite;
mod readme;
mod refusals;
mod replaying;
mod retention;
mod runs;
mod sandboxed;
mod secrets;
mod server;
mod story;
mod tails;
mod tamper;
mod terminal;
mod tokens;
mod unfinished;
mod validating;
mod verbs;
mod visualizing;
