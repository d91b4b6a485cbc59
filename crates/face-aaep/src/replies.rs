//! Replies to prompts: `confirmation.reply` and `clarification.reply` become commands of the engine.
//!
//! See [`receive`]. Whatever a reply causes is visible as events alone: the sender learns nothing from the response. It
//! must not know how a reply came in.

use recount_aaep::wire::{ClarificationReply, ConfirmationReply};

use crate::subscription::Subscription;

/// A reply as it was sent.
#[expect(dead_code, reason = "what is done with them follows")]
pub(crate) enum PromptReply {
    Confirmation(ConfirmationReply),
    Clarification(ClarificationReply),
}

/// Takes a reply that was sent by the caller of this subscription.
pub(crate) async fn receive(subscription: &Subscription, reply: PromptReply) {
    tracing::debug!(subscription = %subscription.id(), kind = reply.kind(), "a reply was received");
}

impl PromptReply {
    /// The type of the message, for logs: never its token.
    fn kind(&self) -> &'static str {
        match self {
            PromptReply::Confirmation(_) => "confirmation.reply",
            PromptReply::Clarification(_) => "clarification.reply",
        }
    }
}
