//! The open prompt of a session, and the calls that accepted prompts allow.

use crate::wire::{AwaitingClarification, AwaitingConfirmation, ReplyToken, ToolInvoked};

/// Identifies a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromptHandle(pub(super) u64);

/// A prompt that is waiting for a reply.
#[derive(Debug, Clone)]
pub(super) struct OpenPrompt {
    pub(super) handle: PromptHandle,
    pub(super) token: ReplyToken,
    pub(super) deadline_ms: i64,
    pub(super) request: PromptRequest,
}

#[derive(Debug, Clone)]
pub(super) enum PromptRequest {
    Confirmation { prompt: Box<AwaitingConfirmation>, grant: Box<Grant> },
    Clarification(Box<AwaitingClarification>),
}

/// A call that a prompt requests and its acceptance allows.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) call: ToolInvoked,
    /// The number of the call in the prompt.
    pub(super) number: u64,
}
