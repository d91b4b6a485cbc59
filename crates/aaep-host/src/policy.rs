//! The host's configuration for one producer: routes, limits and CORS. The values of all limits come from the
//! `limits.rs` of the calling crate.

use std::time::Duration;

use crate::Close;

/// The settings of one producer.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The legacy surface, if it is served.
    pub legacy: Option<LegacySurface>,
    /// Whether a manifest is served.
    pub manifest: bool,
    /// Maximum bytes of a message from a subscriber. A longer one is rejected with 413, or the connection ends.
    pub message_bytes_max: usize,
    /// How long the body of a request may take to arrive; `None` waits for it.
    pub body_wait: Option<Duration>,
    /// Bytes up to which frames that are ready are merged into one write; one frame may be longer.
    pub write_bytes: usize,
    /// How long a stream is idle before a comment or a ping is sent; `None` sends neither.
    pub heartbeat: Option<Duration>,
    pub sockets: Sockets,
    /// Maps to the code and reason of the close frame; `None` ends the connection without a close frame.
    pub closing: fn(Close) -> Option<(u16, &'static str)>,
    /// CORS for pages of other origins; `None` leaves it to outer layers.
    pub pages: Option<Pages>,
}

/// The routes of the legacy surface, which existing subscribers use.
#[derive(Debug, Clone, Copy)]
pub struct LegacySurface {
    /// The path before `/events`, such as `/aaep/legacy/{room}`; `admit` puts the room into the caller.
    pub base: &'static str,
    /// Whether `POST /sessions` starts sessions.
    pub sessions: bool,
}

/// How a WebSocket connection starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    /// As specified: the subprotocol, then a handshake within this time, then text frames only.
    Strict { handshake_wait: Option<Duration> },
    /// Opens a stream at once, passes the handshake to the producer like any other message and ignores binary frames.
    /// Only for producers that test subscribers.
    Lenient,
}

/// CORS settings for pages of other origins.
#[derive(Debug, Clone, Copy)]
pub struct Pages {
    pub allowed_headers: &'static str,
    pub exposed_headers: Option<&'static str>,
    /// Whether they may use `/aaep/v1` too, or only the legacy surface.
    pub versioned: bool,
    pub preflight: Preflight,
}

/// Which preflight requests are granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preflight {
    AtAnyPath,
    /// At the routes of the host, except its WebSockets and its manifest.
    AtRoutes,
}
