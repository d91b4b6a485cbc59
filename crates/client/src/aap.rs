//! A client of the agent application protocol (AAP v3), for any server that speaks it.
//!
//! [`AapClient`] has a call for each route; [`Turn`] hears a turn, in whichever of the three ways the server tells it,
//! and goes on after a break where the server says how; [`Fold`] makes messages of what was heard, from which
//! [`open_calls`] reads what waits for an answer. What servers add to the protocol is used only where they show it.
//!
//! It must never know how any one server works, ours neither.

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
pub use turn::{Heard, Turn};
