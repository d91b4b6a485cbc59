//! The messages that the narrator sends: [`Outgoing`], of the protocol and of Recount's extension. Pure.

use recount_aaep::Message;
use recount_aaep::wire::{ReplyToken, SessionId, SubscriptionId};
use serde_json::json;

use crate::limits;

/// One message to the producer.
#[derive(Debug, Clone, PartialEq)]
pub enum Outgoing {
    Message(Box<Message>),
    /// Cancels a session. The protocol has no message for it.
    Cancel {
        subscription: SubscriptionId,
        session: SessionId,
    },
    /// Requests more time to answer a prompt. The protocol has no message for it.
    Extend {
        subscription: SubscriptionId,
        token: ReplyToken,
    },
}

impl Outgoing {
    /// The encoded message.
    pub fn to_json(&self) -> String {
        match self {
            Outgoing::Message(message) => message.to_json(),
            Outgoing::Cancel { subscription, session } => json!({
                "type": "recount.control",
                "subscription_id": subscription.as_str(),
                "session_id": session.as_str(),
                "action": "cancel",
                "reason": "cancelled by a listener",
            })
            .to_string(),
            Outgoing::Extend { subscription, token } => json!({
                "type": "recount.extend",
                "subscription_id": subscription.as_str(),
                "reply_token": token.as_str(),
                "seconds": limits::EXTENSION_SECONDS,
            })
            .to_string(),
        }
    }
}

impl From<Message> for Outgoing {
    fn from(message: Message) -> Outgoing {
        Outgoing::Message(Box::new(message))
    }
}
