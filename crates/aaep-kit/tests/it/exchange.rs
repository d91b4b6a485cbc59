//! Exchanges files and streams with the published tools of the protocol's authors: each side replays what the other
//! recorded.

#![allow(clippy::unwrap_used)]

mod capture;
mod public_suite;
pub(crate) mod python;
mod replay;
mod suite;
mod theirs;
