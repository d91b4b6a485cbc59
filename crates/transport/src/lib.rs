//! Wire mechanics that every face shares: event streams, media types, stalled peers, shared limits.
//!
//! Entry point: [`sse`]; a stream reaches its socket through [`Handover`] and [`outlet`]. This crate must never know about
//! events: it moves frames and bytes.

mod handover;
mod heartbeat;
pub mod limits;
pub mod mcp_header;
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

/// The trace context in a `traceparent` header; `None` if it is invalid.
pub fn traceparent(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    match parts.as_slice() {
        [version, trace, parent, flags, rest @ ..]
            if hex(version, 2) && *version != "ff" && (rest.is_empty() || *version != "00") =>
        {
            let named = hex(trace, 32) && !zero(trace) && hex(parent, 16) && !zero(parent) && hex(flags, 2);
            named.then(|| format!("{version}-{trace}-{parent}-{flags}"))
        }
        _ => None,
    }
}
