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
    /// The token is not valid, or not any more.
    Unauthenticated,
    /// The token does not permit to subscribe.
    Denied,
    /// The server ends.
    Shutdown,
    NotText,
    /// A text frame is not UTF-8.
    NotUtf8,
    /// A message is larger than the policy permits.
    TooLarge,
    /// A frame is broken, or against the rules of WebSockets.
    Unreadable,
}

impl Close {
    /// The code and the reason to close with.
    pub fn frame(self) -> (u16, &'static str) {
        match self {
            Close::Clean => (4000, "all events were sent"),
            Close::Rejected => (4001, "the subscription was rejected"),
            Close::NoHandshake => (4004, "no subscription.request arrived in time"),
            Close::Asked => (4005, "closed on request"),
            Close::Unavailable => {
                (1013, "the subscription is no longer open, or the limit of subscribers is reached")
            }
            Close::Unauthenticated => (4002, "the token is no longer valid"),
            Close::Denied => (4003, "the token does not permit this subscription"),
            Close::Shutdown => (1001, "the server is shutting down"),
            Close::NotText => (1003, "send text frames"),
            Close::NotUtf8 => (1007, "the text is not UTF-8"),
            Close::TooLarge => (1009, "the message is too large"),
            Close::Unreadable => (1002, "the frame cannot be read"),
        }
    }
}
