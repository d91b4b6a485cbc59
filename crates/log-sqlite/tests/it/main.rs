//! Tests of the SQLite store: the contract of every store, and the failures that only a store on a disk has.
//!
//! One binary, one file a subject. `recount-faulty-disk` is the disk that can be cut, filled and broken.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod backups;
mod bits;
mod conformance;
mod damage;
mod disk;
mod model;
mod open;
mod pending_rows;
mod power;
mod queue;
mod releases;
mod sealing;
mod tools;
mod wal;
mod work;
