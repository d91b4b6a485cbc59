//! Tools for the Agent Accessibility Event Protocol that need nothing else of Recount: record a producer, replay the
//! recording, draw it, and test producers and subscribers against the requirements.
//!
//! The protocol itself (types, rules, the session machine) is `recount_aaep`, which does no I/O. Serving it is
//! `recount_aaep_host`, connecting to a producer is `recount_aaep_client`, and the scenarios of the conformance suite
//! are `recount_aaep_scenarios`. This crate must not know the engine or runs: it treats every producer alike.

pub mod capture;
pub mod conformance;
mod faults;
pub mod limits;
pub mod recording;
pub mod replay;
pub mod scripted;
pub mod scripted_subscriber;
pub mod stdio;
pub mod trace;
pub mod validate;

pub use recount_aaep as aaep;
pub(crate) use recount_aaep_client::glance;
pub use recount_aaep_client::link;
pub use recount_aaep_scenarios as scenario;
pub use recount_world::World;
