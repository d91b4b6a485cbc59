//! Tests of the PostgreSQL store on a real PostgreSQL: the contract of every store, and the failures that only a database
//! over a network has.
//!
//! One binary, one file a subject. `recount-test-postgres` is the PostgreSQL, and `recount-faulty-link` the network.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod conformance;
mod damage;
mod failures;
mod lease;
mod outcomes;
mod partitions;
mod work;
