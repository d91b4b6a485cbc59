//! Tries producers and subscribers against the protocol's requirements, from outside and over the wire: what goes to and
//! fro is all that is known of them. Start at [`Report`].

pub mod judge;
pub mod producer;
mod report;
pub mod requirements;
pub mod subscriber;
mod talk;
pub mod transcript;

pub use report::{Check, Outcome, Report, Side, Tally, Verdict};

/// What the suite is called in claims.
pub const SUITE: &str = "recount-aaep-kit";
/// Which edition of the suite it is: verdicts of two editions may differ.
pub const SUITE_VERSION: &str = env!("CARGO_PKG_VERSION");
