//! The little that is read of a text on its way: its `type` and its `subscription_id`.

use std::borrow::Cow;

use recount_aaep::MessageKind;
use serde::Deserialize;

/// A look at a JSON object.
pub(super) struct Glance {
    kind: Option<MessageKind>,
    pub(super) subscription_id: Option<String>,
}

#[derive(Deserialize)]
struct Parts<'t> {
    #[serde(borrow, default, rename = "type")]
    name: Option<Word<'t>>,
    #[serde(borrow, default)]
    subscription_id: Option<Word<'t>>,
}

/// A text, where it is one: whatever else stands there is none of our business.
#[derive(Deserialize)]
#[serde(untagged)]
enum Word<'t> {
    Text(#[serde(borrow)] Cow<'t, str>),
    Other(serde::de::IgnoredAny),
}

impl Word<'_> {
    fn text(&self) -> Option<&str> {
        match self {
            Word::Text(text) => Some(text),
            Word::Other(_) => None,
        }
    }
}

impl Glance {
    /// `None` when the text is no JSON object.
    pub(super) fn at(text: &str) -> Option<Glance> {
        if !text.trim_start().starts_with('{') {
            return None;
        }
        let parts: Parts<'_> = serde_json::from_str(text).ok()?;
        Some(Glance {
            kind: parts.name.as_ref().and_then(Word::text).and_then(MessageKind::of_name),
            subscription_id: parts.subscription_id.as_ref().and_then(Word::text).map(str::to_owned),
        })
    }

    /// Which message it is; `None` for events and for what is none of the protocol's.
    pub(super) fn kind(&self) -> Option<MessageKind> {
        self.kind
    }

    /// Whether it answers a handshake.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self.kind, Some(MessageKind::SubscriptionAccepted | MessageKind::SubscriptionRejected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_sees_what_a_text_is_and_nothing_else() {
        let said = Glance::at(r#" {"type":"subscription.accepted","subscription_id":"sub_1","x":[1e999]}"#);
        let said = said.unwrap();
        assert!(said.is_answer());
        assert_eq!(said.subscription_id.as_deref(), Some("sub_1"));
        let said = Glance::at(r#"{"type":"aaep:subscription.rejected"}"#).unwrap();
        assert_eq!(said.kind(), Some(MessageKind::SubscriptionRejected));
        let said = Glance::at(r#"{"type":7,"subscription_id":{}}"#).unwrap();
        assert_eq!((said.kind(), said.subscription_id), (None, None));
        for none in ["", "[1]", "7", "{\"a\"", "\"x\""] {
            assert!(Glance::at(none).is_none(), "{none:?}");
        }
    }
}
