//! Wire mechanics that every face shares: event streams, media types, stalled peers, shared limits.
//!
//! Entry point: [`sse`]; a stream reaches its socket through [`Handover`] and [`outlet`]. This crate must never know about
//! events: it moves frames and bytes.

mod handover;
mod heartbeat;
pub mod limits;
pub mod media;
pub mod outlet;
mod shares;
pub mod sse;
mod stall;

pub use handover::{Handover, Piece, Pieces};
pub use heartbeat::Heartbeat;
pub use shares::{Share, ShareLimits, Shares};
pub use stall::StallGuard;

/// The id that a response and the server's log share; travels with a request.
#[derive(Debug, Clone)]
pub struct RequestId(pub std::sync::Arc<str>);
