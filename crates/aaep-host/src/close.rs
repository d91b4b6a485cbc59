//! Close codes: the reasons for which the host closes a WebSocket.

/// The reason for closing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// The stream has ended.
    Clean,
    Rejected,
    /// No handshake arrived in time.
    NoHandshake,
    /// The subscriber requested it.
    Requested,
    /// The subscription is no longer open, or the limit of readers is reached.
    Unavailable,
    /// The token is invalid or has expired.
    Unauthenticated,
    /// The token does not permit the subscription.
    Denied,
    /// The server shuts down.
    Shutdown,
    NotText,
    /// A text frame is not UTF-8.
    NotUtf8,
    /// A message exceeds the limit of the policy.
    TooLarge,
    /// A frame violates the WebSocket protocol.
    Unreadable,
}

impl Close {
    /// The close code and its reason text.
    pub fn frame(self) -> (u16, &'static str) {
        match self {
            Close::Clean => (4000, "all events were sent"),
            Close::Rejected => (4001, "the subscription was rejected"),
            Close::NoHandshake => (4004, "no subscription.request arrived in time"),
            Close::Requested => (4005, "closed on request"),
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
