//! Why the host closes a WebSocket, with the codes of the protocol and of WebSockets.

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// Nothing more comes.
    Clean,
    Rejected,
    /// There was no handshake in time.
    NoHandshake,
    /// The subscriber asked for it.
    Asked,
    /// The subscription is not open any more, or there are too many readers.
    Unavailable,
    NotText,
    /// A frame is too large or broken.
    Unreadable,
}

impl Close {
    /// The code and the reason to close with.
    pub fn frame(self) -> (u16, &'static str) {
        match self {
            Close::Clean => (4000, "all was said"),
            Close::Rejected => (4001, "the subscription was rejected"),
            Close::NoHandshake => (4004, "a subscription.request comes first, and soon"),
            Close::Asked => (4005, "closed as asked"),
            Close::Unavailable => (1013, "too many subscribers listen already"),
            Close::NotText => (1003, "send text frames"),
            Close::Unreadable => (1009, "the frame cannot be read"),
        }
    }
}
