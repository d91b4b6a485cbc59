//! What people and tools say before it is told to a model: texts and pictures, and how content blocks are read.
//!
//! Pictures are named by artifact or address, or lie there as data when they came with what was said before a session.
//! It must never fetch anything.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use recount_event::{ForeignId, Json};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;
use crate::model::Part;

/// A part of a message before pictures are fetched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Words {
    Text(String),
    Image(Picture),
    /// A picture by its address, which only the provider looks at.
    Link(String),
    /// A picture that lies here.
    Data {
        mime: String,
        bytes: Bytes,
    },
}

/// A picture, by artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    pub artifact_id: ForeignId,
    pub mime: String,
}

/// What a model that is asked can be shown: `None` when it sees no pictures at all.
pub type Shown<'a> = Option<&'a BTreeMap<ForeignId, Bytes>>;

impl Words {
    pub(super) fn is_picture(&self) -> bool {
        !matches!(self, Words::Text(_))
    }

    /// Whether there is more to it than white space.
    pub(super) fn says(&self) -> bool {
        self.is_picture() || !self.text().trim().is_empty()
    }

    pub(super) fn text(&self) -> &str {
        if let Words::Text(text) = self { text } else { "" }
    }

    /// As the model is told. In place of a picture that it cannot see it is told that there is one.
    pub(super) fn part(&self, shown: Shown<'_>) -> Part {
        let hidden = |what: &str| Part::Text(format!("[a picture that cannot be shown: {what}]"));
        match (self, shown) {
            (Words::Text(text), _) => Part::Text(text.clone()),
            (Words::Image(picture), shown) => {
                match shown.and_then(|pictures| pictures.get(&picture.artifact_id)) {
                    Some(bytes) => Part::Image { mime: picture.mime.clone(), bytes: bytes.clone() },
                    None => hidden(&picture.artifact_id),
                }
            }
            (Words::Link(url), Some(_)) => Part::ImageUrl(url.clone()),
            (Words::Link(url), None) => hidden(url),
            (Words::Data { mime, bytes }, Some(_)) if bytes.len() <= limits::PICTURE_BYTES_MAX => {
                Part::Image { mime: mime.clone(), bytes: bytes.clone() }
            }
            (Words::Data { mime, .. }, _) => hidden(mime),
        }
    }
}

/// What a tool told: its texts and pictures where it told content blocks, else its text, or the JSON as it stands.
pub(super) fn told(output: &Json) -> Vec<Words> {
    match serde_json::from_str::<Value>(output.text()) {
        Ok(Value::String(text)) => vec![Words::Text(text)],
        Ok(Value::Array(blocks)) => {
            let words: Option<Vec<Words>> = blocks.iter().map(block).collect();
            let words = words.filter(|words| !words.is_empty());
            words.unwrap_or_else(|| vec![Words::Text(output.text().to_owned())])
        }
        _ => vec![Words::Text(output.text().to_owned())],
    }
}

/// The content of a message: a text, or blocks, of which those that say nothing to a model are left out.
pub(super) fn content(content: &Value) -> Vec<Words> {
    match content {
        Value::String(text) => vec![Words::Text(text.clone())],
        Value::Array(blocks) => blocks.iter().filter_map(block).collect(),
        _ => Vec::new(),
    }
}

/// A content block that is a text or a picture.
pub(super) fn block(block: &Value) -> Option<Words> {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    match text("type")? {
        "text" => text("text").map(|text| Words::Text(text.to_owned())),
        "image" => match (text("artifact_id"), text("url")) {
            (Some(id), _) => {
                let artifact_id = ForeignId::parse(id).ok()?;
                Some(Words::Image(Picture { artifact_id, mime: text("mime").unwrap_or_default().to_owned() }))
            }
            (None, Some(url)) => Some(data(url).unwrap_or_else(|| Words::Link(url.to_owned()))),
            (None, None) => None,
        },
        _ => None,
    }
}

/// A picture whose address is itself. One that cannot be read is told as such.
fn data(url: &str) -> Option<Words> {
    let (mime, encoded) = url.strip_prefix("data:")?.split_once(',').unwrap_or_default();
    let mime = mime.strip_suffix(";base64").unwrap_or(mime).to_owned();
    Some(match STANDARD.decode(encoded) {
        Ok(bytes) => Words::Data { mime, bytes: bytes.into() },
        Err(_) => Words::Text("[a picture that cannot be read]".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_become_words_where_all_of_them_are_blocks() {
        let words = told(
            &Json::parse(r#"[{"type":"text","text":"a"},{"type":"image","url":"https://x/p"}]"#).unwrap(),
        );
        assert_eq!(words, [Words::Text("a".into()), Words::Link("https://x/p".into())]);
        for other in ["[]", "[1]", r#"[{"type":"text","text":"a"},{"type":"odd"}]"#, r#"{"a":1}"#, "null"] {
            assert_eq!(told(&Json::parse(other).unwrap()), [Words::Text(other.into())]);
        }
        assert_eq!(told(&Json::parse(r#""plain""#).unwrap()), [Words::Text("plain".into())]);
    }

    #[test]
    fn a_picture_is_shown_to_who_can_see_it_and_named_to_others() {
        let url = serde_json::json!({ "type": "image", "url": "data:image/png;base64,iVA=" });
        let picture = block(&url).unwrap();
        let none = BTreeMap::new();
        assert!(
            matches!(picture.part(Some(&none)), Part::Image { mime, bytes } if mime == "image/png" && bytes.len() == 2)
        );
        assert!(matches!(picture.part(None), Part::Text(_)));
        let link = Words::Link("https://x/p".into());
        assert_eq!(link.part(Some(&none)), Part::ImageUrl("https://x/p".into()));
        assert_eq!(link.part(None), Part::Text("[a picture that cannot be shown: https://x/p]".into()));
        let broken = serde_json::json!({ "type": "image", "url": "data:image/png;base64,***" });
        assert_eq!(block(&broken), Some(Words::Text("[a picture that cannot be read]".into())));
    }
}
