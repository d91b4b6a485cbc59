//! Files and streams exchanged with the tools of the protocol's own authors, as they are published: what they record
//! is replayed here, what is replayed here they record, and the other way round.

#![allow(clippy::unwrap_used)]

mod capture;
mod public_suite;
pub(crate) mod python;
mod replay;
mod suite;
mod theirs;
