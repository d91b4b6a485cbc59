//! The messages that are handled: replies of the protocol, and two of this producer's extension. Pure.
//!
//! `recount.extend` requests more time for a prompt, `recount.control` cancels a run, or accepts or declines a handoff. The
//! protocol has no such
//! messages, so their types begin with the prefix of this producer's extensions. Start with [`OwnMessage::parse`].

use recount_aaep::wire::{ClarificationReply, ConfirmationReply, ReplyToken, SessionId, SubscriptionId};
use serde::Deserialize;

/// A message as it was sent.
pub(crate) enum PromptReply {
    Confirmation(ConfirmationReply),
    Clarification(ClarificationReply),
    Extend(ExtendRequest),
    Control(ControlRequest),
}

impl PromptReply {
    /// The type of the message, for logs: never its token.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            PromptReply::Confirmation(_) => "confirmation.reply",
            PromptReply::Clarification(_) => "clarification.reply",
            PromptReply::Extend(_) => EXTEND,
            PromptReply::Control(_) => CONTROL,
        }
    }

    pub(crate) fn token(&self) -> Option<&ReplyToken> {
        match self {
            PromptReply::Confirmation(reply) => Some(&reply.reply_token),
            PromptReply::Clarification(reply) => Some(&reply.reply_token),
            PromptReply::Extend(extend) => Some(&extend.reply_token),
            PromptReply::Control(_) => None,
        }
    }
}

/// The types of this producer's own messages.
pub(crate) const EXTEND: &str = "recount.extend";
pub(crate) const CONTROL: &str = "recount.control";

/// A request for more time to answer a prompt.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendRequest {
    #[serde(rename = "type")]
    _type: String,
    pub(crate) subscription_id: SubscriptionId,
    pub(crate) reply_token: ReplyToken,
    /// Added to the deadline.
    pub(crate) seconds: u64,
    #[serde(default, rename = "correlation_id")]
    _correlation_id: Option<String>,
}

/// A control request for a run.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControlRequest {
    #[serde(rename = "type")]
    _type: String,
    pub(crate) subscription_id: SubscriptionId,
    pub(crate) session_id: SessionId,
    pub(crate) action: ControlAction,
    /// The handoff to accept or to decline, as `extensions.recount.handoff_id` of its event names it.
    #[serde(default)]
    pub(crate) handoff_id: Option<String>,
    #[serde(default)]
    pub(crate) reason: Option<String>,
    #[serde(default, rename = "correlation_id")]
    _correlation_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ControlAction {
    Cancel,
    AcceptHandoff,
    DeclineHandoff,
}

/// A message of this producer's own.
#[derive(Debug, PartialEq)]
pub(crate) enum OwnMessage {
    Extend(ExtendRequest),
    Control(ControlRequest),
}

impl OwnMessage {
    /// Parses a message. `None`: another type. `Some(Err)`: one of these types, but malformed.
    pub(crate) fn parse(text: &str) -> Option<Result<OwnMessage, serde_json::Error>> {
        #[derive(Deserialize)]
        struct Typed<'t> {
            #[serde(borrow, rename = "type")]
            name: std::borrow::Cow<'t, str>,
        }
        let Typed { name } = serde_json::from_str(text).ok()?;
        match &*name {
            EXTEND => Some(serde_json::from_str(text).map(OwnMessage::Extend)),
            CONTROL => Some(serde_json::from_str(text).map(OwnMessage::Control)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_messages_are_closed_objects() {
        let extend =
            r#"{"type":"recount.extend","subscription_id":"sub_1","reply_token":"rpl_1","seconds":60}"#;
        let control =
            r#"{"type":"recount.control","subscription_id":"sub_1","session_id":"sess_1","action":"cancel"}"#;
        assert!(matches!(
            OwnMessage::parse(extend),
            Some(Ok(OwnMessage::Extend(ExtendRequest { seconds: 60, .. })))
        ));
        let parsed = OwnMessage::parse(control).unwrap().unwrap();
        assert!(matches!(parsed, OwnMessage::Control(ControlRequest { reason: None, .. })));
        for unfit in [
            extend.replace("60", "-1"),
            extend.replace("60", "\"60\""),
            extend.replace("rpl_1", "1"),
            extend.replace("\"seconds\":60", "\"seconds\":60,\"by\":\"eve\""),
            control.replace("cancel", "delete"),
            control.replace("sess_1", "one"),
            control.replace(",\"action\":\"cancel\"", ""),
        ] {
            assert!(matches!(OwnMessage::parse(&unfit), Some(Err(_))), "{unfit}");
        }
        for other in ["", "[]", "{}", r#"{"type":7}"#, r#"{"type":"confirmation.reply"}"#] {
            assert!(OwnMessage::parse(other).is_none(), "{other}");
        }
    }
}
