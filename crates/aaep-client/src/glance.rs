//! Reads a few fields of a message without validating it: its kind, its session, parts of its envelope. See
//! [`Glance`]. Numbers stay unparsed.

use std::borrow::Cow;
use std::fmt;

use recount_aaep::MessageKind;
use recount_aaep::kind::{Kind, TypeClass, classify};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The string fields of a JSON object that have the names below. If a key appears twice, the first value is used.
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
    /// Parses the fields; `None` if the text is not a JSON object.
    pub fn at(text: &str) -> Option<Glance> {
        serde_json::from_str(text).ok()
    }

    /// The kind of the message; `None` for events and for unknown messages.
    pub fn kind(&self) -> Option<MessageKind> {
        self.name.as_deref().and_then(MessageKind::of_name)
    }

    /// Whether it is the response to a handshake.
    pub fn is_handshake_response(&self) -> bool {
        matches!(self.kind(), Some(MessageKind::SubscriptionAccepted | MessageKind::SubscriptionRejected))
    }

    /// The kind of a core event.
    pub fn event_kind(&self) -> Option<Kind> {
        match classify(self.name.as_deref()?) {
            TypeClass::Core(kind) => Some(kind),
            _ => None,
        }
    }

    /// Whether its type is an event type, including types of extensions.
    pub fn is_event(&self) -> bool {
        self.kind().is_none()
            && self.name.as_deref().is_some_and(|name| classify(name) != TypeClass::Malformed)
    }

    fn field_mut(&mut self, name: &str) -> Option<&mut Option<String>> {
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
        deserializer.deserialize_map(GlanceVisitor)
    }
}

struct GlanceVisitor;

impl<'de> Visitor<'de> for GlanceVisitor {
    type Value = Glance;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Glance, A::Error> {
        let mut glance = Glance::default();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match glance.field_mut(&key) {
                // A raw value: a number outside the range of parsers must not fail the whole parse.
                Some(field @ None) => {
                    let value = map.next_value::<&'de RawValue>()?;
                    *field = serde_json::from_str(value.get()).ok();
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(glance)
    }
}

/// Puts JSON on one line. A line end between tokens becomes a space; strings contain none.
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
    fn a_glance_reads_the_known_fields_only() {
        let glance = Glance::at(r#" {"type":"subscription.accepted","subscription_id":"sub_1","x":[1e999]}"#);
        let glance = glance.unwrap();
        assert!(glance.is_handshake_response() && !glance.is_event());
        assert_eq!(glance.subscription_id.as_deref(), Some("sub_1"));
        let glance = Glance::at(r#"{"type":"aaep:subscription.rejected"}"#).unwrap();
        assert_eq!(glance.kind(), Some(MessageKind::SubscriptionRejected));
        let glance = Glance::at(r#"{"type":7,"subscription_id":{},"event_id":1e999}"#).unwrap();
        assert_eq!((glance.kind(), glance.subscription_id, glance.event_id), (None, None, None));
        let glance =
            Glance::at(r#"{"type":"aaep:agent.x","type":"subscription.close","event_id":"evt\u005f1"}"#);
        let glance = glance.unwrap();
        assert_eq!(glance.name.as_deref(), Some("aaep:agent.x"), "the first value is used");
        assert_eq!(glance.event_id.as_deref(), Some("evt_1"));
        assert!(!Glance::at(r#"{"type":"ack"}"#).unwrap().is_event());
        for none in ["", "[1]", "7", "{\"a\"", "\"x\"", "{} {}"] {
            assert!(Glance::at(none).is_none(), "{none:?}");
        }
    }
}
