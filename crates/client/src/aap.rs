//! A client of the agent application protocol (AAP v3), for any server that speaks it.
//!
//! [`AapClient`] has a call for each route; [`Turn`] receives a turn, in any of the three delivery modes,
//! and resumes after a break where the server supports it; [`Fold`] turns the events into messages, from which
//! [`open_calls`] lists the calls that wait for an answer. Additions to the protocol are used only if the server offers them.
//!
//! It must never know how any one server works, not even ours.

mod client;
mod error;
mod events;
mod fold;
mod turn;
pub mod wire;

pub use client::AapClient;
pub use error::AapError;
pub use events::{OpenCall, Retraction, Stop, StopReason, TurnEvent, TurnFailure};
pub use fold::{Fold, open_calls};
pub use recount_transport::sse::Frame;
pub use turn::{Turn, TurnItem};
