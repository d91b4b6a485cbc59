//! Reads a few fields of a message without validating it: its kind, its session, parts of its envelope. See
//! [`Glance`]. Numbers stay unparsed.

use std::borrow::Cow;
use std::fmt;

use recount_aaep::MessageKind;
use recount_aaep::kind::{Kind, Named, named};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A look at a JSON object: its fields that are texts, of the names below. Of a key that comes twice, the first counts.
#[derive(Debug, Default)]
pub struct Glance {
    pub name: Option<String>,
    pub event_id: Option<String>,
    pub session_id: Option<String>,
    pub reply_token: Option<String>,
    pub urgency: Option<String>,
    pub subscription_id: Option<String>,
}

impl Glance {
    /// `None` when the text is no JSON object.
    pub fn at(text: &str) -> Option<Glance> {
        serde_json::from_str(text).ok()
    }

    /// Which message it is; `None` for events and for what is none of the protocol's.
    pub fn kind(&self) -> Option<MessageKind> {
        self.name.as_deref().and_then(MessageKind::of_name)
    }

    /// Whether it answers a handshake.
    pub fn is_answer(&self) -> bool {
        matches!(self.kind(), Some(MessageKind::SubscriptionAccepted | MessageKind::SubscriptionRejected))
    }

    /// Which of the twelve events it is.
    pub fn event_kind(&self) -> Option<Kind> {
        match named(self.name.as_deref()?) {
            Named::Core(kind) => Some(kind),
            _ => None,
        }
    }

    /// Whether its type is one that events have, of an extension or not.
    pub fn is_event(&self) -> bool {
        self.kind().is_none() && self.name.as_deref().is_some_and(|name| named(name) != Named::Malformed)
    }

    fn place(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "type" => &mut self.name,
            "event_id" => &mut self.event_id,
            "session_id" => &mut self.session_id,
            "reply_token" => &mut self.reply_token,
            "urgency" => &mut self.urgency,
            "subscription_id" => &mut self.subscription_id,
            _ => return None,
        })
    }
}

impl<'de> Deserialize<'de> for Glance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Looking)
    }
}

struct Looking;

impl<'de> Visitor<'de> for Looking {
    type Value = Glance;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Glance, A::Error> {
        let mut glance = Glance::default();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match glance.place(&key) {
                // As it stands: a number that nobody could read must not spoil the look.
                Some(place @ None) => {
                    let value = map.next_value::<&'de RawValue>()?;
                    *place = serde_json::from_str(value.get()).ok();
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(glance)
    }
}

/// JSON on one line: between its parts a line end is a blank, and within a text there is none.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    match text.contains(['\n', '\r']) {
        true => Cow::Owned(text.replace("\r\n", " ").replace(['\n', '\r'], " ")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_sees_what_a_text_is_and_nothing_else() {
        let glance = Glance::at(r#" {"type":"subscription.accepted","subscription_id":"sub_1","x":[1e999]}"#);
        let glance = glance.unwrap();
        assert!(glance.is_answer() && !glance.is_event());
        assert_eq!(glance.subscription_id.as_deref(), Some("sub_1"));
        let glance = Glance::at(r#"{"type":"aaep:subscription.rejected"}"#).unwrap();
        assert_eq!(glance.kind(), Some(MessageKind::SubscriptionRejected));
        let glance = Glance::at(r#"{"type":7,"subscription_id":{},"event_id":1e999}"#).unwrap();
        assert_eq!((glance.kind(), glance.subscription_id, glance.event_id), (None, None, None));
        let glance =
            Glance::at(r#"{"type":"aaep:agent.x","type":"subscription.close","event_id":"evt\u005f1"}"#);
        let glance = glance.unwrap();
        assert_eq!(glance.name.as_deref(), Some("aaep:agent.x"), "the first of two counts");
        assert_eq!(glance.event_id.as_deref(), Some("evt_1"));
        assert!(!Glance::at(r#"{"type":"ack"}"#).unwrap().is_event());
        for none in ["", "[1]", "7", "{\"a\"", "\"x\"", "{} {}"] {
            assert!(Glance::at(none).is_none(), "{none:?}");
        }
    }
}
