//! How the host serves one producer: which routes, which bounds, which pages of browsers. All bounds come from the
//! `limits.rs` of the host's user.

use std::time::Duration;

use crate::Close;

/// The settings of one producer.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The surface in use, if it is served.
    pub in_use: Option<InUse>,
    /// Whether there is a manifest.
    pub manifest: bool,
    /// Bytes of a message from a subscriber; a longer one is refused with 413, or the connection ends.
    pub message_bytes_max: usize,
    /// Bytes of frames that are merged into one write, as far as they are ready; one frame may be longer.
    pub write_bytes: usize,
    /// How long a stream is silent before a comment or a ping shows that it lives; `None` sends neither.
    pub heartbeat: Option<Duration>,
    pub sockets: Sockets,
    /// The code and reason that a WebSocket is closed with; `None` ends the connection without them.
    pub closing: fn(Close) -> Option<(u16, &'static str)>,
    /// Whether pages of other origins may use the producer; `None` leaves that to layers around the host.
    pub pages: Option<Pages>,
}

/// The routes of the surface in use.
#[derive(Debug, Clone, Copy)]
pub struct InUse {
    /// The path before `/events`, such as `/aaep/legacy/{room}`; the caller that `admit` finds holds the room.
    pub base: &'static str,
    /// Whether `POST /sessions` starts sessions.
    pub sessions: bool,
}

/// How WebSockets begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    /// As the specification says: the subprotocol, then a handshake within this time, then text frames only.
    Strict { handshake_wait: Option<Duration> },
    /// A stream is opened at once, the producer receives the handshake like any other message, and binary frames are
    /// ignored. Only for producers that try subscribers.
    Lenient,
}

/// What pages of other origins may do.
#[derive(Debug, Clone, Copy)]
pub struct Pages {
    pub allowed_headers: &'static str,
    pub exposed_headers: Option<&'static str>,
    /// Whether `/aaep/v1` is for them too, or only the surface in use.
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
