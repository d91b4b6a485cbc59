//! `GET /meta`: the agents and their capabilities.

use recount_event::Json;
use serde::{Deserialize, Serialize};

/// The supported version of the protocol.
pub const VERSION: u8 = 3;

/// See [`VERSION`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetaResponse {
    pub version: u8,
    pub agents: Vec<AgentInfo>,
}

impl MetaResponse {
    pub fn of(agents: Vec<AgentInfo>) -> Self {
        MetaResponse { version: VERSION, agents }
    }
}

/// An agent, for applications.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentInfo {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A semantic version.
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Tools of the server that a session may enable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSpec>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<AgentOption>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
}

/// An option of a session. Values are always text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentOption {
    #[serde(flatten)]
    pub kind: OptionKind,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The value without a choice.
    pub default: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum OptionKind {
    Text,
    /// Never returned.
    Secret,
    /// One of these.
    Select {
        options: Vec<String>,
    },
}

/// A capability; present means supported: `{}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present {}

impl Present {
    pub fn when(yes: bool) -> Option<Present> {
        yes.then_some(Present {})
    }
}

/// The capabilities of an agent; a missing one is not supported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryCapability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamCapability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationCapability>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageCapability>,
    /// Ours: a session may name the folder that it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceCapability>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryCapability {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Present>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Present>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCapability {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<Present>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Present>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub none: Option<Present>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationCapability {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Present>,
}

/// See [`Capabilities::workspace`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceCapability {
    /// The agent has its own folder for sessions that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Present>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageCapability {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Present>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Present>,
}

/// A tool: the server's in `/meta`, the application's in requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    /// A JSON Schema of the tool's input.
    #[serde(deserialize_with = "super::message::object")]
    pub parameters: Json,
}
