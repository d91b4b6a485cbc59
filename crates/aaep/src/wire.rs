//! The protocol's messages as Rust types. [`Event`] is one of the twelve events, or one of an extension;
//! [`Message`] is whatever comes over the wire. What the protocol does not know is kept, text for text.
//!
//! These types say what a message is, not whether it is right: [`crate::rule`] says that, and [`crate::build`]
//! makes only right ones.

mod body;
mod envelope;
mod error;
mod event;
mod id;
mod message;
mod whole;
mod words;

pub use body::{
    AwaitingClarification, AwaitingConfirmation, Body, Choice, HandoffRequested, OutputStreaming, Progress,
    ProgressUpdated, SessionCancelled, SessionCompleted, SessionErrored, SessionStarted, StateChanged,
    ToolCompleted, ToolInvoked,
};
pub use envelope::{Context, Envelope, LocalizationHints, Producer, Summaries};
pub use error::ParseError;
pub use event::{Event, Members};
pub use id::{EventId, IdError, OutputId, ReplyToken, SessionId, SubscriptionId, Timestamp, ToolCallId};
pub use message::{
    Capabilities, ClarificationReply, ConfirmationReply, EventFilters, Message, ProducerManifest, Response,
    SubscriptionAccepted, SubscriptionClose, SubscriptionRejected, SubscriptionRenegotiate,
    SubscriptionRequest,
};
pub use words::{
    Boundary, CancelledBy, Decision, ErrorCategory, HandoffTarget, Level, Pace, Reversibility, TextDirection,
    ToolStatus, Urgency, Verbosity,
};
