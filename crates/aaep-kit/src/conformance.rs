//! Conformance tests of producers and subscribers over the wire. They observe only what is sent and received. Start at
//! [`Report`].

mod conversation;
pub mod judge;
pub mod producer;
mod report;
pub mod requirements;
pub mod subscriber;
pub mod transcript;

pub use report::{Check, LevelVerdict, Outcome, OutcomeCounts, Report, Side};

/// The name of the suite in claims.
pub const SUITE: &str = "recount-aaep-kit";
/// The edition of the suite. Two editions may give different verdicts.
pub const SUITE_VERSION: &str = env!("CARGO_PKG_VERSION");
