//! The PostgreSQL store: each store is a schema of one database, owned by one node at a time.
//!
//! ```text
//!   appends ─▶ bounded queue ─▶ writer task ─▶ one statement per group ─▶ observer ─▶ results
//!                                    │           (checks the epoch, advances the counters, inserts records and rows)
//!                                    └ after a lost connection: skips the number of the group unless that was
//!                                      committed, so every group is known to be committed or never will be
//!   reads, blobs ─▶ a few pipelined connections that all stores of the process share
//!   lease task ─▶ renews the lease of the node; without it, other nodes may take over its stores
//! ```
//!
//! The schema `recount` has the nodes and the stores with their counters (`shared.rs`); the schema of a store has its
//! records, streams, rows and blobs (`schema.rs`). A store has one owner, which raised its epoch when it took over. Every
//! change checks the epoch in the same statement, so an owner that lost its lease changes nothing and gets
//! [`recount_log::FaultKind::Fenced`]. No statement of the writer leaves a transaction open: a frozen owner blocks
//! no successor.
//!
//! Everything read is checked against a checksum, as the SQLite store does. PostgreSQL does not promise to overwrite the
//! bytes of deleted rows: erased content stays in its files until they are vacuumed, in its write-ahead log, on standbys
//! and in backups.
//!
//! When a lease is renewed, whether effects may begin, and what became of a commit is decided in `rules.rs`, without a
//! database: the simulation tests it with many nodes.
//!
//! This crate must never know what a record contains. Start reading at [`Database`].

mod blobs;
mod connect;
mod core;
mod database;
mod examine;
mod fault;
mod group;
mod lease;
pub mod limits;
mod node;
mod options;
mod partitions;
mod queue;
mod reading;
mod rows;
pub mod rules;
mod schema;
mod shared;
mod sql;
mod store;
mod streams;
mod tls;
mod writer;

pub use database::Database;
pub use options::PostgresOptions;
pub use shared::{NodeRow, StoreOwner, StoreRow, Survey};
pub use store::PostgresStore;
