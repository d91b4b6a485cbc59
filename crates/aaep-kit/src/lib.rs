//! Tools around the Agent Accessibility Event Protocol, for people who use nothing else of ours: they record what a
//! producer says, say it again, draw it, and try producers and subscribers against the protocol's requirements.
//!
//! The protocol itself (types, rules, the session machine) is `recount_aaep`, which does no I/O. This crate does the
//! I/O and must never know the engine, nor any run of ours: a producer of another make is as good as our own.

pub mod capture;
pub mod conformance;
mod faults;
mod glance;
pub mod limits;
pub mod link;
pub mod recording;
pub mod replay;
pub mod scenario;
pub mod scripted;
pub mod scripted_subscriber;
pub mod trace;
pub mod validate;

pub use recount_aaep as aaep;
pub use recount_world::World;
