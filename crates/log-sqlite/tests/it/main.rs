//! What the SQLite store promises: the contract of every store, and what only a store on a disk can break.
//!
//! One binary, one file a subject. `recount-faulty-disk` is the disk that can be cut, filled and broken.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod backups;
mod bits;
mod conformance;
mod damage;
mod disk;
mod fresh;
mod model;
mod open;
mod power;
mod queue;
mod releases;
mod salvage;
mod sealing;
mod tools;
mod wal;
mod work;
