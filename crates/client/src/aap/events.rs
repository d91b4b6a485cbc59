//! The events of a turn, read from frames. Pure; see [`TurnEvent::read`].

use recount_transport::sse::Frame;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::wire::{Block, Content, HistoryMessage};

/// One event of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEvent {
    Start,
    TextDelta(String),
    ThinkingDelta(String),
    /// The last text is not part of the answer: an addition of our server.
    TextRetracted(Retraction),
    ThinkingRetracted(Retraction),
    /// A whole block.
    Text(String),
    Thinking(String),
    ToolCall(OpenCall),
    ToolResult {
        tool_call_id: String,
        content: Content,
    },
    Stop(Stop),
    /// What the protocol does not have.
    Other(String),
}

/// An open call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall {
    pub tool_call_id: String,
    pub name: String,
    pub input: Value,
}

/// Streamed text that a server retracts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retraction {
    /// The number of Unicode code points to retract from the end of the stream.
    pub chars: usize,
    /// The replacement for clients that join all pieces.
    pub note: String,
}

impl Retraction {
    fn of(data: &Map<String, Value>) -> Result<Option<Self>, String> {
        let chars =
            data.get("retracts").and_then(Value::as_u64).and_then(|chars| usize::try_from(chars).ok());
        chars.map(|chars| Ok(Retraction { chars, note: text(data, "delta")? })).transpose()
    }
}

/// How a turn ended, with what servers add to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stop {
    pub reason: StopReason,
    pub error: Option<TurnFailure>,
    /// What it took, as the server counts.
    pub usage: Option<Value>,
    /// That it ended with an open question to people.
    pub awaiting: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    EndTurn,
    ToolUse,
    MaxTokens,
    Refusal,
    Error,
    Other(String),
}

impl StopReason {
    fn of(word: &str) -> Self {
        match word {
            "end_turn" => StopReason::EndTurn,
            "tool_use" => StopReason::ToolUse,
            "max_tokens" => StopReason::MaxTokens,
            "refusal" => StopReason::Refusal,
            "error" => StopReason::Error,
            other => StopReason::Other(other.to_owned()),
        }
    }
}

/// Why a turn failed, if the server gives a reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TurnFailure {
    pub code: String,
    pub message: String,
    pub retryable: bool,
}

impl Stop {
    /// From the keys next to `stopReason`; those of an unexpected type are ignored.
    fn of(data: &Map<String, Value>) -> Result<Self, String> {
        let reason = text(data, "stopReason")?;
        let error = match data.get("error") {
            Some(Value::String(message)) => {
                Some(TurnFailure { message: message.clone(), ..TurnFailure::default() })
            }
            Some(error) => serde_json::from_value(error.clone()).ok(),
            None => None,
        };
        Ok(Stop {
            reason: StopReason::of(&reason),
            error,
            usage: data.get("usage").filter(|usage| usage.is_object()).cloned(),
            awaiting: data.get("awaiting").filter(|awaiting| !awaiting.is_null()).cloned(),
        })
    }
}

impl TurnEvent {
    /// The event of a frame. As other clients do, a key `event` within the data goes before the name of the frame.
    pub fn read(frame: &Frame) -> Result<Self, String> {
        let data: Value = serde_json::from_str(&frame.data)
            .map_err(|why| format!("an event of the turn is not JSON: {why}"))?;
        let Value::Object(data) = data else {
            return Err("an event of the turn is not a JSON object".to_owned());
        };
        let name = data.get("event").and_then(Value::as_str).or(frame.event.as_deref()).unwrap_or("");
        let event = match name {
            "turn_start" => TurnEvent::Start,
            "text_delta" => match Retraction::of(&data)? {
                Some(retraction) => TurnEvent::TextRetracted(retraction),
                None => TurnEvent::TextDelta(text(&data, "delta")?),
            },
            "thinking_delta" => match Retraction::of(&data)? {
                Some(retraction) => TurnEvent::ThinkingRetracted(retraction),
                None => TurnEvent::ThinkingDelta(text(&data, "delta")?),
            },
            "text" => TurnEvent::Text(text(&data, "text")?),
            "thinking" => TurnEvent::Thinking(text(&data, "thinking")?),
            "tool_call" => TurnEvent::ToolCall(OpenCall {
                tool_call_id: text(&data, "toolCallId")?,
                name: text(&data, "name")?,
                input: data.get("input").cloned().unwrap_or_default(),
            }),
            "tool_result" => TurnEvent::ToolResult {
                tool_call_id: text(&data, "toolCallId")?,
                content: data.get("content").cloned().map_or(Content::Text(String::new()), content),
            },
            "turn_stop" => TurnEvent::Stop(Stop::of(&data)?),
            other => TurnEvent::Other(other.to_owned()),
        };
        Ok(event)
    }

    /// The events of a turn that came as one reply.
    pub(super) fn of_reply(reply: &Value) -> Result<Vec<Self>, String> {
        let Value::Object(data) = reply else { return Err("the turn is not a JSON object".to_owned()) };
        let messages = data.get("messages").cloned().unwrap_or(Value::Array(Vec::new()));
        let messages: Vec<HistoryMessage> = serde_json::from_value(messages)
            .map_err(|why| format!("the messages of the turn are malformed: {why}"))?;
        let mut events = vec![TurnEvent::Start];
        for message in messages {
            match message {
                HistoryMessage::Assistant { content: Content::Text(text) } => {
                    events.push(TurnEvent::Text(text))
                }
                HistoryMessage::Assistant { content: Content::Blocks(blocks) } => {
                    events.extend(blocks.into_iter().filter_map(TurnEvent::of_block));
                }
                HistoryMessage::Tool { tool_call_id, content } => {
                    events.push(TurnEvent::ToolResult { tool_call_id, content });
                }
                _ => {}
            }
        }
        events.push(TurnEvent::Stop(Stop::of(data)?));
        Ok(events)
    }

    fn of_block(block: Block) -> Option<Self> {
        match block {
            Block::Text { text, .. } => Some(TurnEvent::Text(text)),
            Block::Thinking { thinking, .. } => Some(TurnEvent::Thinking(thinking)),
            Block::ToolUse { tool_call_id, name, input } => {
                Some(TurnEvent::ToolCall(OpenCall { tool_call_id, name, input }))
            }
            Block::Image { .. } | Block::Unknown => None,
        }
    }
}

fn text(data: &Map<String, Value>, key: &str) -> Result<String, String> {
    let value = data.get(key).ok_or_else(|| format!("an event of the turn has no {key}"))?;
    let text = value.as_str().ok_or_else(|| format!("{key} of an event of the turn is not a string"))?;
    Ok(text.to_owned())
}

fn content(value: Value) -> Content {
    serde_json::from_value(value.clone()).unwrap_or(Content::Other(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(event: Option<&str>, data: &str) -> Result<TurnEvent, String> {
        TurnEvent::read(&Frame { id: None, event: event.map(str::to_owned), data: data.to_owned() })
    }

    #[test]
    fn events_are_known_by_the_frame_or_by_their_data() {
        assert_eq!(read(Some("turn_start"), "{}"), Ok(TurnEvent::Start));
        assert_eq!(read(Some("text_delta"), r#"{"delta":"a"}"#), Ok(TurnEvent::TextDelta("a".into())));
        assert_eq!(read(None, r#"{"event":"thinking","thinking":"t"}"#), Ok(TurnEvent::Thinking("t".into())));
        assert_eq!(read(Some("text"), r#"{"event":"turn_start","text":"x"}"#), Ok(TurnEvent::Start));
        assert_eq!(read(Some("progress"), r#"{"step":1}"#), Ok(TurnEvent::Other("progress".into())));
        assert_eq!(read(None, "{}"), Ok(TurnEvent::Other(String::new())));
        let call = OpenCall { tool_call_id: "c".into(), name: "n".into(), input: json!({"a": 1}) };
        let data = r#"{"toolCallId":"c","name":"n","input":{"a":1}}"#;
        assert_eq!(read(Some("tool_call"), data), Ok(TurnEvent::ToolCall(call)));
    }

    #[test]
    fn what_is_no_event_is_refused_with_what_is_wrong() {
        let wrong = |event, data: &str| read(Some(event), data).unwrap_err();
        assert!(wrong("text_delta", "[DONE]").contains("not JSON"));
        assert!(wrong("text_delta", "[1]").contains("not a JSON object"));
        assert!(wrong("text_delta", "{}").contains("no delta"));
        assert!(wrong("tool_call", r#"{"toolCallId":7,"name":"x"}"#).contains("toolCallId"));
    }

    #[test]
    fn a_stop_has_what_servers_add_and_needs_nothing_of_it() {
        let stop = |data: &str| match read(Some("turn_stop"), data) {
            Ok(TurnEvent::Stop(stop)) => stop,
            other => panic!("{other:?}"),
        };
        let bare = stop(r#"{"stopReason":"end_turn"}"#);
        assert_eq!((bare.reason, bare.error, bare.usage), (StopReason::EndTurn, None, None));
        let failed =
            stop(r#"{"stopReason":"error","error":{"code":"model_cut","message":"cut","retryable":true}}"#);
        let failure = TurnFailure { code: "model_cut".into(), message: "cut".into(), retryable: true };
        assert_eq!(failed.error, Some(failure));
        assert_eq!(stop(r#"{"stopReason":"error","error":"why"}"#).error.unwrap().message, "why");
        assert_eq!(stop(r#"{"stopReason":"later","usage":7}"#).reason, StopReason::Other("later".into()));
        assert_eq!(stop(r#"{"stopReason":"end_turn","usage":7}"#).usage, None);
    }
}
