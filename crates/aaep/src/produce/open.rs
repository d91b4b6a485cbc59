//! The open prompt of a session, and the calls that accepted prompts allow.

use crate::wire::{AwaitingClarification, AwaitingConfirmation, ReplyToken, ToolInvoked};

/// A prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromptHandle(pub(super) u64);

/// A prompt that waits for a reply.
#[derive(Debug, Clone)]
pub(super) struct OpenPrompt {
    pub(super) handle: PromptHandle,
    pub(super) token: ReplyToken,
    pub(super) deadline_ms: i64,
    pub(super) asks: PromptAsk,
}

#[derive(Debug, Clone)]
pub(super) enum PromptAsk {
    Confirmation { prompt: Box<AwaitingConfirmation>, grant: Box<Grant> },
    Clarification(Box<AwaitingClarification>),
}

/// A call that a prompt asks for, and that its acceptance allows.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) call: ToolInvoked,
    /// The number of the call, which the prompt names.
    pub(super) number: u64,
}
