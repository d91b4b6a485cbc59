//! Serialises a conversation into one block of memory, for the cache between the messages of a session.
//!
//! A conversation has many small allocations, which take several times as much memory and fragment the heap. The format
//! never leaves the process, so it has no versions. It must not depend on a store. Start with [`Conversation::packed`].

use recount_event::RunId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::Value;

use super::{Conversation, EventRef};

impl Conversation {
    pub(crate) fn packed(&self) -> Option<Box<[u8]>> {
        postcard::to_stdvec(self).map(Vec::into_boxed_slice).ok()
    }

    pub(crate) fn unpacked(packed: &[u8]) -> Option<Conversation> {
        postcard::from_bytes(packed).ok()
    }
}

/// Run ids as numbers: as text they would be longer than many messages.
pub(super) mod event_ref {
    use super::{Deserialize, Deserializer, EventRef, RunId, Serialize, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        at: &Option<EventRef>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        at.map(|(run, sequence)| (u128::from(run.ulid()), sequence)).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<EventRef>, D::Error> {
        let at = Option::<(u128, u64)>::deserialize(from)?;
        Ok(at.map(|(run, sequence)| (RunId::new(run.into()), sequence)))
    }
}

/// JSON as text, because this format cannot read a value of unknown type.
pub(super) mod json {
    use super::{Deserialize, Deserializer, Serializer, Value, de, ser};

    pub(in super::super) fn serialize<S: Serializer>(value: &Value, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&serde_json::to_string(value).map_err(ser::Error::custom)?)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        serde_json::from_str(<&str>::deserialize(from)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use recount_event::ForeignId;
    use serde_json::json;

    use super::*;
    use crate::conversation::{HistoryCall, HistoryItem, ModelTurn, Picture, StoredPart, StoredResult};

    #[test]
    fn an_unpacked_conversation_equals_the_original() {
        let id = |text: &str| ForeignId::parse(text).unwrap();
        let picture = || Picture { artifact_id: id("art_1"), mime: "image/png".into() };
        let call = |input, result| HistoryCall {
            tool_call_id: Some(id("call-1")),
            provider_call_id: "toolu_1".into(),
            name: "look".into(),
            input,
            result,
        };
        let result =
            StoredResult { parts: vec![StoredPart::Text("\"quoted\"\n\u{1f600}".into())], is_error: true };
        let turn = ModelTurn {
            texts: vec!["one".into(), String::new()],
            calls: vec![
                call(json!({ "deep": [1, -2.5, null, { "a": "b" }], "n": u64::MAX }), Some(result)),
                call(json!("text"), None),
            ],
        };
        let data = StoredPart::Data { mime: "image/png".into(), bytes: Bytes::from_static(&[0, 255, 7]) };
        let parts = vec![data, StoredPart::Link("https://x/y".into()), StoredPart::Image(picture())];
        let mut conversation = Conversation {
            system: vec!["be kind".into()],
            summary: Some("earlier".into()),
            open: turn.clone(),
            pending_pictures: vec![(id("call-1"), picture())],
            inline_pictures: vec![id("art_1")],
            ..Conversation::default()
        };
        conversation.push(HistoryItem::User(parts), None);
        conversation.push(HistoryItem::Turn(turn), Some((RunId::new(u128::MAX.into()), u64::MAX)));
        conversation.push(HistoryItem::User(vec![]), Some((RunId::new(1.into()), 0)));
        for conversation in [conversation, Conversation::default()] {
            let packed = conversation.packed().unwrap();
            assert_eq!(Conversation::unpacked(&packed), Some(conversation));
            assert_eq!(Conversation::unpacked(&packed[..packed.len() - 1]), None, "cut off");
        }
    }
}
