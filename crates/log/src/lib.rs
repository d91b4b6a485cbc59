//! The storage seam: streams of opaque records, small versioned rows and blobs.
//!
//! ```text
//!   position   1   2   3   4   5   6   7      commit order over the whole store, from 1
//!   stream A   0       1   2           3      sequence within a stream, from 0, no gaps
//!   stream B       0           1   2
//! ```
//!
//! The contract of every store, in words (the `conformance` suite, behind the feature of that name,
//! says it in code):
//!
//! * [`Store::append`] lands everything it was given, records of one or several streams and rows,
//!   or changes nothing at all; when it has answered `Ok`, the change survives a killed process and,
//!   in strict durability, a power cut.
//! * Each stream append names the tail its writer believes in; a wrong belief is refused with the
//!   real tail, so two writers of one stream cannot both win.
//! * Positions are given in commit order. Whoever has read up to a position has missed nothing
//!   before it: no record ever becomes visible behind a cursor.
//! * [`Observer::committed`] is called once a commit, in commit order, after the commit is durable
//!   and before its writers are answered.
//! * Bytes come back exactly as they went in, for as long as they are there: a [`Cut`] takes the oldest
//!   records of a stream, erasing takes all of it, and no read passes either off as something else.
//!
//! This crate must never know what a record contains. Start reading at [`Store`].

mod admit;
pub mod chain;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod fault;
mod forward;
pub mod limits;
mod memory;
mod store;
mod values;

pub use admit::admit_blob;
pub use fault::{AppendError, Damage, Fault, FaultKind, Retry};
pub use memory::MemoryStore;
pub use store::{Answer, Framing, Observer, Store};
pub use values::*;

#[doc(hidden)]
pub use bytes::Bytes;
