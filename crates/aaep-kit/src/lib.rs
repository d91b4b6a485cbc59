//! Tools for the Agent Accessibility Event Protocol that need nothing else of Recount: record a producer, replay the
//! recording, draw it, and test producers and subscribers against the requirements.
//!
//! The protocol itself (types, rules, the session machine) is `recount_aaep`, which does no I/O, and serving it is
//! `recount_aaep_host`. This crate must not know the engine or runs: it treats every producer alike.

pub mod capture;
pub mod conformance;
mod faults;
mod glance;
pub mod limits;
pub mod link;
pub mod listener;
pub mod narrate;
pub mod recording;
pub mod replay;
pub mod scenario;
pub mod scripted;
pub mod scripted_subscriber;
pub mod ssip;
pub mod stdio;
pub mod trace;
pub mod validate;

pub use recount_aaep as aaep;
pub use recount_world::World;
