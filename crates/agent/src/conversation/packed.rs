//! A conversation in one piece of memory, as it is kept between the messages of a session.
//!
//! A conversation is many small things, which take many times as much memory, and leave holes. The form is for this
//! program's memory alone: it is read by who wrote it, or not at all. Look at [`Conversation::packed`].

use recount_event::RunId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::Value;

use super::{Conversation, Place};

impl Conversation {
    pub(crate) fn packed(&self) -> Option<Box<[u8]>> {
        postcard::to_stdvec(self).map(Vec::into_boxed_slice).ok()
    }

    pub(crate) fn unpacked(packed: &[u8]) -> Option<Conversation> {
        postcard::from_bytes(packed).ok()
    }
}

/// Ids as numbers: as text they would be longer than much of what is said.
pub(super) mod place {
    use super::{Deserialize, Deserializer, Place, RunId, Serialize, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(at: &Option<Place>, to: S) -> Result<S::Ok, S::Error> {
        at.map(|(run, sequence)| (u128::from(run.ulid()), sequence)).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Place>, D::Error> {
        let at = Option::<(u128, u64)>::deserialize(from)?;
        Ok(at.map(|(run, sequence)| (RunId::new(run.into()), sequence)))
    }
}

/// Any JSON as text, because only the text itself says what it is.
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
    use crate::conversation::{Asked, ModelTurn, Picture, Said, StoredResult, Words};

    #[test]
    fn what_is_packed_is_unpacked_as_it_was() {
        let id = |text: &str| ForeignId::parse(text).unwrap();
        let picture = || Picture { artifact_id: id("art_1"), mime: "image/png".into() };
        let call = |input, result| Asked {
            tool_call_id: Some(id("call-1")),
            provider_call_id: "toolu_1".into(),
            name: "look".into(),
            input,
            result,
        };
        let told = StoredResult { words: vec![Words::Text("\"quoted\"\n\u{1f600}".into())], is_error: true };
        let turn = ModelTurn {
            texts: vec!["one".into(), String::new()],
            calls: vec![
                call(json!({ "deep": [1, -2.5, null, { "a": "b" }], "n": u64::MAX }), Some(told)),
                call(json!("text"), None),
            ],
        };
        let data = Words::Data { mime: "image/png".into(), bytes: Bytes::from_static(&[0, 255, 7]) };
        let words = vec![data, Words::Link("https://x/y".into()), Words::Image(picture())];
        let mut conversation = Conversation {
            system: vec!["be kind".into()],
            extract: Some("earlier".into()),
            open: turn.clone(),
            brought: vec![(id("call-1"), picture())],
            placed: vec![id("art_1")],
            ..Conversation::default()
        };
        conversation.push(Said::User(words), None);
        conversation.push(Said::Turn(turn), Some((RunId::new(u128::MAX.into()), u64::MAX)));
        conversation.push(Said::User(vec![]), Some((RunId::new(1.into()), 0)));
        for conversation in [conversation, Conversation::default()] {
            let packed = conversation.packed().unwrap();
            assert_eq!(Conversation::unpacked(&packed), Some(conversation));
            assert_eq!(Conversation::unpacked(&packed[..packed.len() - 1]), None, "cut off");
        }
    }
}
