//! The events of a turn's stream. The event name is next to the data, never in it.

use recount_event::Json;
use serde::{Deserialize, Serialize};

use super::{Awaiting, Content, StopReason, TextStatus, TurnError, Unreadable, Usage};

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum TurnEvent {
    TurnStart {},
    TextDelta {
        delta: String,
        /// Ours: the number of characters (Unicode code points) before this piece that are retracted. The piece itself
        /// is a note, not part of the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        retracts: Option<u64>,
    },
    ThinkingDelta {
        delta: String,
        /// Ours, as for text.
        #[serde(skip_serializing_if = "Option::is_none")]
        retracts: Option<u64>,
    },
    Text {
        text: String,
        /// Ours.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<TextStatus>,
    },
    Thinking {
        thinking: String,
        /// Ours.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<TextStatus>,
    },
    /// `input` is an object.
    ToolCall {
        tool_call_id: String,
        name: String,
        input: Json,
    },
    /// For tools of the server.
    ToolResult {
        tool_call_id: String,
        content: Content,
    },
    /// Keys from `usage` on are ours.
    TurnStop {
        stop_reason: StopReason,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<TurnError>,
        #[serde(skip_serializing_if = "Option::is_none")]
        awaiting: Option<Box<Awaiting>>,
    },
}

/// The data of any event, before its name is checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flat {
    delta: Option<String>,
    retracts: Option<u64>,
    status: Option<TextStatus>,
    text: Option<String>,
    thinking: Option<String>,
    tool_call_id: Option<String>,
    name: Option<String>,
    input: Option<Json>,
    content: Option<Content>,
    stop_reason: Option<StopReason>,
    usage: Option<Usage>,
    error: Option<TurnError>,
    awaiting: Option<Box<Awaiting>>,
}

impl TurnEvent {
    /// Its name in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            TurnEvent::TurnStart {} => "turn_start",
            TurnEvent::TextDelta { .. } => "text_delta",
            TurnEvent::ThinkingDelta { .. } => "thinking_delta",
            TurnEvent::Text { .. } => "text",
            TurnEvent::Thinking { .. } => "thinking",
            TurnEvent::ToolCall { .. } => "tool_call",
            TurnEvent::ToolResult { .. } => "tool_result",
            TurnEvent::TurnStop { .. } => "turn_stop",
        }
    }

    /// Reads an event; `None` for an unknown name, from another release.
    pub fn read(name: &str, data: &str) -> Result<Option<TurnEvent>, Unreadable> {
        let flat: Flat = super::read_text(data)?;
        let missing =
            |field: &str| Unreadable { path: field.into(), reason: format!("missing in a frame {name}") };
        let tool_call_id = flat.tool_call_id.ok_or_else(|| missing("toolCallId"));
        Ok(Some(match name {
            "turn_start" => TurnEvent::TurnStart {},
            "text_delta" => TurnEvent::TextDelta {
                delta: flat.delta.ok_or_else(|| missing("delta"))?,
                retracts: flat.retracts,
            },
            "thinking_delta" => TurnEvent::ThinkingDelta {
                delta: flat.delta.ok_or_else(|| missing("delta"))?,
                retracts: flat.retracts,
            },
            "text" => {
                TurnEvent::Text { text: flat.text.ok_or_else(|| missing("text"))?, status: flat.status }
            }
            "thinking" => TurnEvent::Thinking {
                thinking: flat.thinking.ok_or_else(|| missing("thinking"))?,
                status: flat.status,
            },
            "tool_call" => TurnEvent::ToolCall {
                tool_call_id: tool_call_id?,
                name: flat.name.ok_or_else(|| missing("name"))?,
                input: flat.input.ok_or_else(|| missing("input"))?,
            },
            "tool_result" => TurnEvent::ToolResult {
                tool_call_id: tool_call_id?,
                content: flat.content.ok_or_else(|| missing("content"))?,
            },
            "turn_stop" => TurnEvent::TurnStop {
                stop_reason: flat.stop_reason.ok_or_else(|| missing("stopReason"))?,
                usage: flat.usage,
                error: flat.error,
                awaiting: flat.awaiting,
            },
            _ => return Ok(None),
        }))
    }
}
