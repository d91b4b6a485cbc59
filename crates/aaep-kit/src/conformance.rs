//! Conformance tests of producers and subscribers, from outside and over the wire. They know only what is sent and
//! received. Start at [`Report`].

pub mod judge;
pub mod producer;
mod report;
pub mod requirements;
pub mod subscriber;
mod talk;
pub mod transcript;

pub use report::{Check, LevelVerdict, Outcome, Report, Side, Tally};

/// What the suite is called in claims.
pub const SUITE: &str = "recount-aaep-kit";
/// Which edition of the suite it is: verdicts of two editions may differ.
pub const SUITE_VERSION: &str = env!("CARGO_PKG_VERSION");
