//! The interface of stores: streams of opaque records, small versioned rows and blobs.
//!
//! ```text
//!   position   1   2   3   4   5   6   7      commit order over the whole store, from 1
//!   stream A   0       1   2           3      sequence within a stream, from 0, no gaps
//!   stream B       0           1   2
//! ```
//!
//! The contract of every store, in words (the suite `recount-log-conformance` says it in code):
//!
//! * [`Store::append`] writes everything it is given, records of one or several streams and rows, or nothing. After
//!   `Ok` the change survives a killed process and, in strict durability, a power cut.
//! * Each stream append names the expected tail. A wrong one is refused with the real tail, so two writers of one
//!   stream cannot both succeed.
//! * Positions are given in commit order. A reader at a position has missed nothing before it: no record ever becomes
//!   visible before a cursor.
//! * [`Observer::committed`] is called once a commit, in commit order, after the commit is durable
//!   and before its writers are answered.
//! * Bytes are returned exactly as they were written, for as long as they are kept: a [`Cut`] removes the oldest records
//!   of a stream, erasing removes all of it, and every read shows which of these happened.
//!
//! This crate must never know what a record contains. Start reading at [`Store`].

mod admit;
pub mod chain;
mod fault;
mod forward;
pub mod limits;
mod memory;
mod meters;
mod readable;
mod store;
mod sum;
mod values;

pub use admit::admit_blob;
pub use fault::{AppendError, Damage, DropReason, DroppedEnd, Fault, FaultKind, Retry};
pub use memory::MemoryStore;
pub use meters::Meters;
pub use readable::{MaybeDamage, ReadResult, Readable};
pub use store::{Answer, Observer, Store};
pub use sum::Sum;
pub use values::*;

#[doc(hidden)]
pub use bytes::Bytes;
