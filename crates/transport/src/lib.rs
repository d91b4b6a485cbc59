//! Wire mechanics that every face shares: event streams, media types, peers that stop reading.
//!
//! Begin with [`sse`]. This crate must never know about events: it moves frames and bytes.

pub mod limits;
pub mod media;
pub mod sse;
mod stall;

pub use stall::StallGuard;
