//! Parts of user messages and results as a conversation stores them: texts and pictures, read from content blocks.
//!
//! A picture is named by artifact or URL. A picture of the seed messages may hold its bytes. It must never fetch
//! anything. Start with [`of_content`] and [`StoredPart::part`].

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
pub(super) enum StoredPart {
    Text(String),
    Image(Picture),
    /// A picture by its URL, which only the provider fetches.
    Link(String),
    /// A picture with its bytes.
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

/// The fetched pictures that the model can see; `None` for a model without image input.
pub type VisiblePictures<'a> = Option<&'a BTreeMap<ForeignId, Bytes>>;

impl StoredPart {
    pub(super) fn is_picture(&self) -> bool {
        !matches!(self, StoredPart::Text(_))
    }

    /// Whether it is more than white space.
    pub(super) fn has_content(&self) -> bool {
        self.is_picture() || !self.text().trim().is_empty()
    }

    pub(super) fn text(&self) -> &str {
        if let StoredPart::Text(text) = self { text } else { "" }
    }

    /// The part that is sent to the model. A note replaces a picture that the model cannot see.
    pub(super) fn part(&self, visible: VisiblePictures<'_>) -> Part {
        let hidden = |what: &str| Part::Text(format!("[image that cannot be shown: {what}]"));
        match (self, visible) {
            (StoredPart::Text(text), _) => Part::Text(text.clone()),
            (StoredPart::Image(picture), visible) => {
                match visible.and_then(|pictures| pictures.get(&picture.artifact_id)) {
                    Some(bytes) => Part::Image { mime: picture.mime.clone(), bytes: bytes.clone() },
                    None => hidden(&picture.artifact_id),
                }
            }
            (StoredPart::Link(url), Some(_)) => Part::ImageUrl(url.clone()),
            (StoredPart::Link(url), None) => hidden(url),
            (StoredPart::Data { mime, bytes }, Some(_)) if bytes.len() <= limits::PICTURE_BYTES_MAX => {
                Part::Image { mime: mime.clone(), bytes: bytes.clone() }
            }
            (StoredPart::Data { mime, .. }, _) => hidden(mime),
        }
    }
}

/// The output of a tool: texts and pictures of content blocks, a plain text, or any other JSON as text.
pub(super) fn of_output(output: &Json) -> Vec<StoredPart> {
    match serde_json::from_str::<Value>(output.text()) {
        Ok(Value::String(text)) => vec![StoredPart::Text(text)],
        Ok(Value::Array(blocks)) => {
            let parts: Option<Vec<StoredPart>> = blocks.iter().map(of_block).collect();
            let parts = parts.filter(|parts| !parts.is_empty());
            parts.unwrap_or_else(|| vec![StoredPart::Text(output.text().to_owned())])
        }
        _ => vec![StoredPart::Text(output.text().to_owned())],
    }
}

/// The content of a message: a text, or content blocks. Blocks that are not texts or pictures are left out.
pub(super) fn of_content(content: &Value) -> Vec<StoredPart> {
    match content {
        Value::String(text) => vec![StoredPart::Text(text.clone())],
        Value::Array(blocks) => blocks.iter().filter_map(of_block).collect(),
        _ => Vec::new(),
    }
}

/// The part of a content block that is a text or a picture.
pub(super) fn of_block(block: &Value) -> Option<StoredPart> {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    match text("type")? {
        "text" => text("text").map(|text| StoredPart::Text(text.to_owned())),
        "image" => match (text("artifact_id"), text("url")) {
            (Some(id), _) => {
                let artifact_id = ForeignId::parse(id).ok()?;
                Some(StoredPart::Image(Picture {
                    artifact_id,
                    mime: text("mime").unwrap_or_default().to_owned(),
                }))
            }
            (None, Some(url)) => {
                Some(picture_of_data_url(url).unwrap_or_else(|| StoredPart::Link(url.to_owned())))
            }
            (None, None) => None,
        },
        _ => None,
    }
}

/// The picture in a `data:` URL. A note replaces one that cannot be decoded.
fn picture_of_data_url(url: &str) -> Option<StoredPart> {
    let (mime, encoded) = url.strip_prefix("data:")?.split_once(',').unwrap_or_default();
    let mime = mime.strip_suffix(";base64").unwrap_or(mime).to_owned();
    Some(match STANDARD.decode(encoded) {
        Ok(bytes) => StoredPart::Data { mime, bytes: bytes.into() },
        Err(_) => StoredPart::Text("[image that cannot be read]".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_becomes_parts_only_if_all_items_are_blocks() {
        let parts = of_output(
            &Json::parse(r#"[{"type":"text","text":"a"},{"type":"image","url":"https://x/p"}]"#).unwrap(),
        );
        assert_eq!(parts, [StoredPart::Text("a".into()), StoredPart::Link("https://x/p".into())]);
        for other in ["[]", "[1]", r#"[{"type":"text","text":"a"},{"type":"odd"}]"#, r#"{"a":1}"#, "null"] {
            assert_eq!(of_output(&Json::parse(other).unwrap()), [StoredPart::Text(other.into())]);
        }
        assert_eq!(of_output(&Json::parse(r#""plain""#).unwrap()), [StoredPart::Text("plain".into())]);
    }

    #[test]
    fn a_picture_is_sent_to_models_that_see_images_and_named_to_others() {
        let url = serde_json::json!({ "type": "image", "url": "data:image/png;base64,iVA=" });
        let picture = of_block(&url).unwrap();
        let none = BTreeMap::new();
        assert!(
            matches!(picture.part(Some(&none)), Part::Image { mime, bytes } if mime == "image/png" && bytes.len() == 2)
        );
        assert!(matches!(picture.part(None), Part::Text(_)));
        let link = StoredPart::Link("https://x/p".into());
        assert_eq!(link.part(Some(&none)), Part::ImageUrl("https://x/p".into()));
        assert_eq!(link.part(None), Part::Text("[image that cannot be shown: https://x/p]".into()));
        let broken = serde_json::json!({ "type": "image", "url": "data:image/png;base64,***" });
        assert_eq!(of_block(&broken), Some(StoredPart::Text("[image that cannot be read]".into())));
    }
}
