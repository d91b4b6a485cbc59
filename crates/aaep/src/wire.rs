//! The protocol's messages as Rust types. [`Event`] is one of the twelve events, or one of an extension;
//! [`Message`] is any message. Unknown fields are kept unchanged.
//!
//! These types parse messages but do not validate them: [`crate::rule`] does, and [`crate::build`] creates only valid
//! ones.

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
