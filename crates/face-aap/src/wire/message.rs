//! Messages and their blocks.
//!
//! They are parsed from flat objects instead of serde-tagged enums, so that a wrong type is refused with its path and
//! the input of a tool keeps its text.

use std::fmt;

use recount_event::Json;
use serde::de::{self, SeqAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value and the text it was parsed from.
#[derive(Debug, Clone, PartialEq)]
pub struct AsSent<T> {
    value: T,
    text: Json,
}

impl<T> AsSent<T> {
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The text exactly as sent, except for white space.
    pub fn json(&self) -> &Json {
        &self.text
    }

    pub fn into_json(self) -> Json {
        self.text
    }
}

impl<T: Serialize> AsSent<T> {
    /// A value to send.
    pub fn of(value: T) -> Result<Self, serde_json::Error> {
        let text = Json::of(&value)?;
        Ok(AsSent { value, text })
    }
}

impl<T: de::DeserializeOwned> AsSent<T> {
    /// A stored value that was sent before.
    pub fn parse(text: Json) -> Result<Self, super::Unreadable> {
        let value = super::read_text(text.text())?;
        Ok(AsSent { value, text })
    }
}

impl<T> Serialize for AsSent<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de, T: de::DeserializeOwned> Deserialize<'de> for AsSent<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AsSent::parse(Json::deserialize(deserializer)?).map_err(|why| match why.path.as_str() {
            super::WHOLE => de::Error::custom(why.reason),
            _ => de::Error::custom(why),
        })
    }
}

/// The text of an object.
pub(super) fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
    let json = Json::deserialize(deserializer)?;
    if json.text().starts_with('{') { Ok(json) } else { Err(de::Error::custom("expected an object")) }
}

/// The content of a message: one text, or blocks.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Text(String),
    Blocks(Vec<ContentBlock>),
}

/// Why a text is not part of the agent's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextStatus {
    /// The turn ended before the response was complete.
    Aborted,
    /// The attempt failed, and another response replaced it.
    Abandoned,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentBlock {
    Text {
        text: String,
        /// Ours.
        status: Option<TextStatus>,
    },
    Thinking {
        thinking: String,
        /// Ours.
        status: Option<TextStatus>,
    },
    /// `input` is an object.
    ToolUse { tool_call_id: String, name: String, input: Json },
    /// `https:` or `data:`.
    Image { url: String },
}

/// A message of a history.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryMessage {
    System { content: String },
    User { content: Content },
    Assistant { content: Content },
    Tool { tool_call_id: String, content: Content },
}

/// A message of a turn request.
#[derive(Debug, Clone, PartialEq)]
pub enum ApplicationMessage {
    User {
        content: Content,
    },
    /// The result of a call.
    Tool {
        tool_call_id: String,
        content: Content,
    },
    /// Whether a call of a server's tool may be executed.
    ToolPermission {
        tool_call_id: String,
        granted: bool,
        reason: Option<String>,
    },
}

impl Content {
    /// All its text, joined by line feeds.
    pub fn text(&self) -> String {
        match self {
            Content::Text(text) => text.clone(),
            Content::Blocks(blocks) => {
                let texts = blocks.iter().filter_map(|block| match block {
                    ContentBlock::Text { text, .. } => Some(text.as_str()),
                    _ => None,
                });
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Content::Text(text) => serializer.serialize_str(text),
            Content::Blocks(blocks) => serializer.collect_seq(blocks),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrBlocks;

        impl<'de> Visitor<'de> for TextOrBlocks {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of content blocks")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = seq.next_element()? {
                    blocks.push(block);
                }
                Ok(Content::Blocks(blocks))
            }
        }

        deserializer.deserialize_any(TextOrBlocks)
    }
}

impl ContentBlock {
    /// A text without a status.
    pub fn text(text: String) -> Self {
        ContentBlock::Text { text, status: None }
    }
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            ContentBlock::Text { text, status } => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
                status.iter().try_for_each(|status| map.serialize_entry("status", status))?;
            }
            ContentBlock::Thinking { thinking, status } => {
                map.serialize_entry("type", "thinking")?;
                map.serialize_entry("thinking", thinking)?;
                status.iter().try_for_each(|status| map.serialize_entry("status", status))?;
            }
            ContentBlock::ToolUse { tool_call_id, name, input } => {
                map.serialize_entry("type", "tool_use")?;
                map.serialize_entry("toolCallId", tool_call_id)?;
                map.serialize_entry("name", name)?;
                map.serialize_entry("input", input)?;
            }
            ContentBlock::Image { url } => {
                map.serialize_entry("type", "image")?;
                map.serialize_entry("url", url)?;
            }
        }
        map.end()
    }
}

/// A block as received, before its type is checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FlatBlock {
    r#type: String,
    text: Option<String>,
    thinking: Option<String>,
    tool_call_id: Option<String>,
    name: Option<String>,
    input: Option<Json>,
    url: Option<String>,
    /// An unknown status of another server is ignored.
    status: Option<Json>,
}

fn needed<T, E: de::Error>(value: Option<T>, field: &'static str, of: &str) -> Result<T, E> {
    value.ok_or_else(|| de::Error::custom(format_args!("{field} is missing for type {of:?}")))
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat = FlatBlock::deserialize(deserializer)?;
        let status = flat.status.and_then(|status| serde_json::from_str(status.text()).ok());
        match flat.r#type.as_str() {
            of @ "text" => Ok(ContentBlock::Text { text: needed(flat.text, "text", of)?, status }),
            of @ "thinking" => {
                Ok(ContentBlock::Thinking { thinking: needed(flat.thinking, "thinking", of)?, status })
            }
            of @ "tool_use" => {
                let input = needed(flat.input, "input", of)?;
                if !input.text().starts_with('{') {
                    return Err(de::Error::custom("input of tool_use must be an object"));
                }
                Ok(ContentBlock::ToolUse {
                    tool_call_id: needed(flat.tool_call_id, "toolCallId", of)?,
                    name: needed(flat.name, "name", of)?,
                    input,
                })
            }
            of @ "image" => Ok(ContentBlock::Image { url: needed(flat.url, "url", of)? }),
            other => Err(de::Error::custom(format_args!(
                "type is {other:?}; it must be text, thinking, tool_use or image"
            ))),
        }
    }
}

impl Serialize for HistoryMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            HistoryMessage::System { content } => {
                map.serialize_entry("role", "system")?;
                map.serialize_entry("content", content)?;
            }
            HistoryMessage::User { content } => {
                map.serialize_entry("role", "user")?;
                map.serialize_entry("content", content)?;
            }
            HistoryMessage::Assistant { content } => {
                map.serialize_entry("role", "assistant")?;
                map.serialize_entry("content", content)?;
            }
            HistoryMessage::Tool { tool_call_id, content } => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("toolCallId", tool_call_id)?;
                map.serialize_entry("content", content)?;
            }
        }
        map.end()
    }
}

impl Serialize for ApplicationMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            ApplicationMessage::User { content } => {
                map.serialize_entry("role", "user")?;
                map.serialize_entry("content", content)?;
            }
            ApplicationMessage::Tool { tool_call_id, content } => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("toolCallId", tool_call_id)?;
                map.serialize_entry("content", content)?;
            }
            ApplicationMessage::ToolPermission { tool_call_id, granted, reason } => {
                map.serialize_entry("role", "tool_permission")?;
                map.serialize_entry("toolCallId", tool_call_id)?;
                map.serialize_entry("granted", granted)?;
                if let Some(reason) = reason {
                    map.serialize_entry("reason", reason)?;
                }
            }
        }
        map.end()
    }
}

/// A message as received, before its role is checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FlatMessage {
    role: String,
    content: Option<Content>,
    tool_call_id: Option<String>,
    granted: Option<bool>,
    reason: Option<String>,
}

impl<'de> Deserialize<'de> for HistoryMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat = FlatMessage::deserialize(deserializer)?;
        match flat.role.as_str() {
            of @ "system" => match needed(flat.content, "content", of)? {
                Content::Text(content) => Ok(HistoryMessage::System { content }),
                Content::Blocks(_) => Err(de::Error::custom("content of system must be a string")),
            },
            of @ "user" => Ok(HistoryMessage::User { content: needed(flat.content, "content", of)? }),
            of @ "assistant" => {
                Ok(HistoryMessage::Assistant { content: needed(flat.content, "content", of)? })
            }
            of @ "tool" => Ok(HistoryMessage::Tool {
                tool_call_id: needed(flat.tool_call_id, "toolCallId", of)?,
                content: needed(flat.content, "content", of)?,
            }),
            other => Err(de::Error::custom(format_args!(
                "role is {other:?}; it must be system, user, assistant or tool"
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for ApplicationMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat = FlatMessage::deserialize(deserializer)?;
        match flat.role.as_str() {
            of @ "user" => Ok(ApplicationMessage::User { content: needed(flat.content, "content", of)? }),
            of @ "tool" => Ok(ApplicationMessage::Tool {
                tool_call_id: needed(flat.tool_call_id, "toolCallId", of)?,
                content: needed(flat.content, "content", of)?,
            }),
            of @ "tool_permission" => Ok(ApplicationMessage::ToolPermission {
                tool_call_id: needed(flat.tool_call_id, "toolCallId", of)?,
                granted: needed(flat.granted, "granted", of)?,
                reason: flat.reason,
            }),
            other => Err(de::Error::custom(format_args!(
                "role is {other:?}; it must be user, tool or tool_permission"
            ))),
        }
    }
}
