//! A run as a conversation: one message for each event that people read.
//!
//! Each message comes from one event, so that any part of a run can be read by itself. See [`message`].

use recount_event::family::tool::{Ended, Refused};
use recount_event::{Event, ForeignId, Json, Payload};

/// One message or action.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A person wrote something.
    User { text: String },
    /// A person sent something along.
    Attached { artifact_id: ForeignId },
    /// The agent wrote something; `aborted` when it was cut off.
    Assistant { text: String, aborted: bool },
    /// The agent called a tool.
    Called { tool_call_id: ForeignId, tool_name: String, input: Json },
    /// The result of a call.
    ToolResult { tool_call_id: ForeignId, tool_name: String, outcome: Outcome, output: Option<Json> },
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    Failed,
    Cancelled,
    TimedOut,
    Refused,
}

impl Outcome {
    /// As on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::TimedOut => "timed_out",
            Outcome::Refused => "refused",
        }
    }
}

/// An event as a message of the conversation; most events have none.
pub fn message(event: &Event) -> Option<Message> {
    match event.payload() {
        Payload::UserMessage(message) => Some(Message::User { text: message.text.clone() }),
        Payload::UserAttachment(sent) => Some(Message::Attached { artifact_id: sent.artifact_id.clone() }),
        Payload::AssistantTextComplete(message) => {
            Some(Message::Assistant { text: message.text.clone(), aborted: message.aborted == Some(true) })
        }
        Payload::AssistantToolCallProposed(call) => Some(Message::Called {
            tool_call_id: call.tool_call_id.clone(),
            tool_name: call.tool_name.clone(),
            input: call.input.clone(),
        }),
        Payload::ToolRefused(refused) => Some(refusal(refused)),
        Payload::ToolCompleted(ended) => Some(tool_result(ended, Outcome::Completed)),
        Payload::ToolFailed(ended) => Some(tool_result(ended, Outcome::Failed)),
        Payload::ToolCancelled(ended) => Some(tool_result(ended, Outcome::Cancelled)),
        Payload::ToolTimedOut(ended) => Some(tool_result(ended, Outcome::TimedOut)),
        _ => None,
    }
}

/// A refused call, with the message of its refusal.
fn refusal(refused: &Refused) -> Message {
    Message::ToolResult {
        tool_call_id: refused.tool_call_id.clone(),
        tool_name: refused.tool_name.clone(),
        outcome: Outcome::Refused,
        output: Json::of(&refused.message).ok(),
    }
}

fn tool_result(ended: &Ended, outcome: Outcome) -> Message {
    let words = || ended.error.as_ref().or(ended.summary.as_ref());
    Message::ToolResult {
        tool_call_id: ended.tool_call_id.clone(),
        tool_name: ended.tool_name.clone(),
        outcome,
        output: ended.output.clone().or_else(|| Json::of(words()?).ok()),
    }
}
