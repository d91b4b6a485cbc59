//! Turns: requests, and replies in one piece.

use recount_event::Json;
use serde::{Deserialize, Serialize};

use super::{AgentOverrides, ApplicationMessage, HistoryMessage, ToolSpec, Usage};

/// The response mode of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamMode {
    /// One JSON reply at the end.
    #[default]
    None,
    /// Whole blocks.
    Message,
    /// Pieces, as they are produced.
    Delta,
}

/// The body of `POST /sessions/{id}/turns`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PostSessionTurnRequest {
    /// One user message, or results and permissions.
    pub messages: Vec<ApplicationMessage>,
    #[serde(default)]
    pub stream: StreamMode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentOverrides>,
    /// Replaces the application's tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSpec>>,
}

/// Why a turn stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndTurn,
    ToolUse,
    MaxTokens,
    Refusal,
    Error,
}

/// Ours: why a turn stopped with `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnError {
    /// Stable, lower case.
    pub code: String,
    pub message: String,
    /// Whether the same turn may succeed if it is repeated.
    pub retryable: bool,
}

/// Ours: a turn that ended with `end_turn` because a person has to answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Awaiting {
    pub kind: AwaitingKind,
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<Json>>,
    /// The reason of the handoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

impl Awaiting {
    pub fn new(kind: AwaitingKind, id: String) -> Self {
        Awaiting {
            kind,
            id,
            question: None,
            choices: None,
            reason: None,
            target_kind: None,
            expires_at: None,
        }
    }
}

/// The kind of answer that is awaited. Permissions and results have their own stop reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AwaitingKind {
    /// The next user message is the answer.
    Clarification,
    /// A handoff waits to be taken.
    Handoff,
}

/// The reply to a turn in one piece: the generated messages and the stop reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostSessionTurnResponse {
    pub stop_reason: StopReason,
    /// Messages of the assistant and of tools.
    pub messages: Vec<HistoryMessage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaiting: Option<Awaiting>,
}
