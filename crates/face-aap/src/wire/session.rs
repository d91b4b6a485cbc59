//! Sessions: requests to create one, and their representation.

use std::collections::BTreeMap;

use recount_event::Json;
use serde::{Deserialize, Serialize};

use super::{AsSent, HistoryMessage, ToolSpec, Usage};

/// A tool of the server to enable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerToolRef {
    pub name: String,
    /// Whether it may be called without approval; absent means no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<bool>,
}

/// An agent with the chosen tools and options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentConfig {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ServerToolRef>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<BTreeMap<String, String>>,
}

/// The changes of an agent's configuration from a turn on. Lists are replaced, options merged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentOverrides {
    /// Not part of the protocol: an agent cannot be changed. Read so that an attempt gets a clear refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ServerToolRef>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<BTreeMap<String, String>>,
}

/// The body of `POST /sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PostSessionsRequest {
    pub agent: AgentConfig,
    /// Seed messages: the conversation before the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<AsSent<HistoryMessage>>,
    /// Tools of the application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Ours: a display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Ours: the folder that the session works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<SessionWorkspace>,
}

/// A folder of the server's machine, instead of the agent's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionWorkspace {
    /// An absolute path.
    pub path: String,
    /// `clone`, which is the default, or `in_place`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Whether files that git ignores are copied, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_ignored: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostSessionsResponse {
    pub session_id: String,
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    Idle,
    Running,
    /// Waits for an answer.
    Waiting,
}

impl SessionStatus {
    pub const ALL: &[SessionStatus] = &[SessionStatus::Idle, SessionStatus::Running, SessionStatus::Waiting];

    pub fn as_str(self) -> &'static str {
        match self {
            SessionStatus::Idle => "idle",
            SessionStatus::Running => "running",
            SessionStatus::Waiting => "waiting",
        }
    }
}

/// The representation of a session. Keys from `title` on are ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    pub session_id: String,
    /// Secret options are masked.
    pub agent: AgentConfig,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSpec>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tools that were sent when the session was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<SessionWorkspace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SessionStatus>,
    /// While the session is running: the id of its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_turn_id: Option<String>,
    /// The total of all its turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The reply of `GET /sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionsResponse {
    pub sessions: Vec<SessionInfo>,
    /// Send it as `after`; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Ours: sessions with damaged stored data. They are omitted, or lack their status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
}

/// The reply of `GET /sessions/{id}/history`: only the requested kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryResponse {
    pub history: HistoryLists,
}

/// See [`HistoryResponse`]. Seed messages are returned exactly as sent, so messages are kept as text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryLists {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Vec<Json>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Vec<Json>>,
}
