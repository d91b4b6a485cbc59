//! Validates the content of a message: a text, or blocks of text and pictures. Pure.

use bytes::Bytes;
use recount_engine::{Attachment, Capabilities};
use recount_event::{Code, Json};
use serde_json::{Value, json};

use super::image::{Picture, data_url, picture_of};
use super::{Accepted, encoded_len, malformed};
use crate::error::Refusal;
use crate::limits;
use crate::wire::{Content, ContentBlock};

/// A message as it was sent. A text and a list with one text stay different, so that the message can be returned
/// unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MessageContent {
    Text(String),
    Pieces(Vec<ContentPart>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContentPart {
    Text(String),
    Picture(Picture),
}

impl MessageContent {
    /// All its texts.
    pub(crate) fn text(&self) -> String {
        match self {
            MessageContent::Text(text) => text.clone(),
            MessageContent::Pieces(pieces) => {
                let texts = pieces.iter().filter_map(|piece| match piece {
                    ContentPart::Text(text) => Some(text.as_str()),
                    ContentPart::Picture(_) => None,
                });
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }

    pub(crate) fn has_pictures(&self) -> bool {
        matches!(self, MessageContent::Pieces(pieces) if pieces.iter().any(|piece| matches!(piece, ContentPart::Picture(_))))
    }

    /// The pictures that were sent as data, in order.
    pub(crate) fn data(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        let pieces = match self {
            MessageContent::Text(_) => &[],
            MessageContent::Pieces(pieces) => pieces.as_slice(),
        };
        pieces.iter().filter_map(|piece| match piece {
            ContentPart::Picture(Picture::Data { mime, bytes }) => Some((mime.as_str(), bytes)),
            ContentPart::Picture(Picture::At(_)) | ContentPart::Text(_) => None,
        })
    }

    /// The content as blocks of a request; pictures that were sent as data are artifacts by now.
    pub(crate) fn blocks(&self, kept: &[Attachment]) -> Vec<Json> {
        let mut kept = kept.iter();
        self.blocks_with(|_, _| {
            kept.next()
                .map(|kept| json!({ "type": "image", "artifact_id": kept.artifact_id, "mime": kept.mime }))
        })
    }

    /// The content as the outcome of a call: complete, because nothing else stores its pictures.
    pub(crate) fn output(&self) -> Json {
        match self {
            MessageContent::Text(text) => of(&json!(text)),
            MessageContent::Pieces(_) => {
                let image =
                    |mime: &str, bytes: &Bytes| json!({ "type": "image", "url": data_url(mime, bytes) });
                let blocks = self.blocks_with(|mime, bytes| Some(image(mime, bytes)));
                Json::of(&blocks).expect("blocks are JSON")
            }
        }
    }

    fn blocks_with(&self, mut data: impl FnMut(&str, &Bytes) -> Option<Value>) -> Vec<Json> {
        let MessageContent::Pieces(pieces) = self else { return Vec::new() };
        let block = |piece: &ContentPart| match piece {
            ContentPart::Text(text) => Some(json!({ "type": "text", "text": text })),
            ContentPart::Picture(Picture::At(url)) => Some(json!({ "type": "image", "url": url })),
            ContentPart::Picture(Picture::Data { mime, bytes }) => data(mime, bytes),
        };
        pieces.iter().filter_map(block).map(|block| of(&block)).collect()
    }
}

fn of(value: &Value) -> Json {
    Json::of(value).expect("a value is JSON")
}

/// Validates the content of a message or result by the capabilities of the agent.
pub(super) fn message_content(whose: &str, content: Content, can: Capabilities) -> Accepted<MessageContent> {
    let content = match content {
        Content::Text(text) => MessageContent::Text(text),
        Content::Blocks(blocks) => MessageContent::Pieces(pieces(whose, blocks, can)?),
    };
    let bytes = match &content {
        MessageContent::Text(text) => encoded_len(text),
        MessageContent::Pieces(pieces) => pieces
            .iter()
            .map(|piece| match piece {
                ContentPart::Text(text) => encoded_len(text),
                ContentPart::Picture(Picture::At(url)) => url.len(),
                ContentPart::Picture(Picture::Data { .. }) => 0,
            })
            .sum(),
    };
    fits(whose, bytes)?;
    Ok(content)
}

/// Refuses content that does not fit into an event.
pub(super) fn fits(whose: &str, bytes: usize) -> Accepted<()> {
    let most = limits::MESSAGE_BYTES_MAX;
    if bytes <= most {
        return Ok(());
    }
    let detail =
        format!("the texts of {whose} have {bytes} bytes as JSON; send at most {most} (MESSAGE_BYTES_MAX)");
    Err(Refusal::new(Code::BodyTooLarge, detail))
}

fn pieces(whose: &str, blocks: Vec<ContentBlock>, can: Capabilities) -> Accepted<Vec<ContentPart>> {
    if blocks.is_empty() {
        return Err(malformed(format!("the content of {whose} is empty; send at least one block")));
    }
    few_blocks(whose, &blocks)?;
    let piece = |(index, block)| match block {
        ContentBlock::Text { text, .. } => Ok(ContentPart::Text(text)),
        ContentBlock::Image { url } => Ok(ContentPart::Picture(picture_of(whose, index, &url, can)?)),
        ContentBlock::Thinking { .. } | ContentBlock::ToolUse { .. } => {
            Err(malformed(format!("the content of {whose} may hold text and image blocks only")))
        }
    };
    let pieces = blocks.into_iter().enumerate().map(piece).collect::<Accepted<Vec<_>>>()?;
    let pictures = pieces.iter().filter(|piece| matches!(piece, ContentPart::Picture(_))).count();
    if pictures > limits::IMAGES_MAX {
        let most = limits::IMAGES_MAX;
        let detail = format!("{whose} has {pictures} images; send at most {most} (IMAGES_MAX)");
        return Err(Refusal::new(Code::ImageRefused, detail));
    }
    Ok(pieces)
}

pub(super) fn few_blocks(whose: &str, blocks: &[ContentBlock]) -> Accepted<()> {
    if blocks.len() > limits::BLOCKS_MAX {
        let (count, most) = (blocks.len(), limits::BLOCKS_MAX);
        let detail = format!("{whose} has {count} blocks; send at most {most} (BLOCKS_MAX)");
        return Err(Refusal::new(Code::LimitReached, detail));
    }
    Ok(())
}

/// The title of the run that answers this message: the beginning of the first line with text.
pub(crate) fn run_title(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    match line.char_indices().nth(limits::RUN_TITLE_CHARS) {
        None => Some(line.to_owned()),
        Some((end, _)) => Some(format!("{}…", line[..end].trim_end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &str) -> Accepted<MessageContent> {
        let can = Capabilities { images_http: true, ..Capabilities::default() };
        message_content("messages[0]", serde_json::from_str(content).unwrap(), can)
    }

    #[test]
    fn a_text_and_a_list_with_one_text_stay_apart() {
        assert_eq!(check(r#""hi""#).unwrap(), MessageContent::Text("hi".into()));
        let list = check(r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#).unwrap();
        assert_eq!(list.text(), "a\nb");
        assert_eq!(list.blocks(&[]).len(), 2);
        assert!(check(r#""hi""#).unwrap().blocks(&[]).is_empty());
    }

    // P-066
    #[test]
    fn a_result_is_kept_as_it_came() {
        let list =
            r#"[{"type":"text","text":"a"},{"type":"image","url":"data:image/png;base64,iVBORw0KGgo="}]"#;
        let kept: Value = serde_json::from_str(check(list).unwrap().output().text()).unwrap();
        assert_eq!(kept, serde_json::from_str::<Value>(list).unwrap());
    }

    #[test]
    fn invalid_content_is_refused() {
        for bad in ["[]", r#"[{"type":"thinking","thinking":"x"}]"#] {
            assert_eq!(check(bad).unwrap_err().code, Code::BodyMalformed, "{bad}");
        }
        let second = r#"[{"type":"text","text":"x"},{"type":"image","url":"http://a.b/c"}]"#;
        let detail = check(second).unwrap_err().detail;
        assert!(detail.starts_with("messages[0].content[1]: "), "{detail}");
        let many = format!("[{}]", vec![r#"{"type":"image","url":"https://a.b/c"}"#; 21].join(","));
        assert_eq!(check(&many).unwrap_err().code, Code::ImageRefused);
    }

    // P-027
    #[test]
    fn a_text_at_the_limit_is_accepted_and_a_longer_one_is_refused() {
        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        assert!(check(&text(256 << 10)).is_ok());
        assert!(check(&text(limits::MESSAGE_BYTES_MAX)).is_ok());
        assert_eq!(check(&text(limits::MESSAGE_BYTES_MAX + 1)).unwrap_err().code, Code::BodyTooLarge);
        // Each of these is six bytes as JSON.
        let controls = format!("\"{}\"", "\\u0000".repeat(limits::MESSAGE_BYTES_MAX / 6 + 1));
        assert_eq!(check(&controls).unwrap_err().code, Code::BodyTooLarge);
    }

    #[test]
    fn the_title_of_a_run_is_the_beginning_of_its_message() {
        assert_eq!(run_title("\n  Hello \nyou"), Some("Hello".into()));
        assert_eq!(run_title(" \n"), None);
        let title = run_title(&"é".repeat(200)).unwrap();
        assert_eq!(title.chars().count(), limits::RUN_TITLE_CHARS + 1);
    }
}
