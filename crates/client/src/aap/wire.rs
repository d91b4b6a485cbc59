//! The types of the protocol as they are on the wire.
//!
//! What is read is read with patience: unknown keys, blocks and roles are passed over, so that a server of another
//! make, or of a later day, is understood as far as it goes. What is written is written as the protocol has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the protocol that is spoken here.
pub const VERSION: u64 = 3;

/// The capabilities of a server.
#[derive(Debug, Clone, Deserialize)]
pub struct Meta {
    #[serde(default)]
    pub agents: Vec<AgentInfo>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct AgentInfo {
    pub name: String,
    pub title: Option<String>,
    #[serde(default)]
    pub version: String,
    pub description: Option<String>,
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    #[serde(default)]
    pub options: Vec<AgentOption>,
    #[serde(default)]
    pub capabilities: Capabilities,
}

/// Something that can be chosen. Values are always texts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AgentOption {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    #[serde(default)]
    pub default: String,
    /// `text`, `secret` or `select`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// What a `select` lets choose.
    #[serde(default)]
    pub options: Vec<String>,
}

impl AgentOption {
    pub fn is_secret(&self) -> bool {
        self.kind == "secret"
    }

    pub fn is_select(&self) -> bool {
        self.kind == "select"
    }
}

/// What an agent can do. Whatever is there, even as an empty object, can be done.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    pub history: HistoryKinds,
    pub stream: Ways,
    pub image: Images,
    /// Not of the protocol: servers of ours let a session name the folder that it works on.
    pub workspace: Option<WorkspaceKind>,
}

/// See [`Capabilities::workspace`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct WorkspaceKind {
    /// The agent has a folder of its own.
    pub own: Option<Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HistoryKinds {
    pub full: Option<Value>,
    pub compacted: Option<Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Ways {
    pub delta: Option<Value>,
    pub message: Option<Value>,
    pub none: Option<Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Images {
    pub http: Option<Value>,
    pub data: Option<Value>,
}

impl Capabilities {
    /// The best delivery mode: deltas, else blocks, else one reply at the end.
    pub fn way(&self) -> Way {
        match &self.stream {
            Ways { delta: Some(_), .. } => Way::Delta,
            Ways { message: Some(_), .. } => Way::Message,
            _ => Way::None,
        }
    }

    /// The most complete history that the server offers, if any.
    pub fn history(&self) -> Option<HistoryKind> {
        match &self.history {
            HistoryKinds { full: Some(_), .. } => Some(HistoryKind::Full),
            HistoryKinds { compacted: Some(_), .. } => Some(HistoryKind::Compacted),
            _ => None,
        }
    }
}

/// The delivery mode of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Text in pieces.
    Delta,
    /// Text in whole blocks.
    Message,
    /// All of it in one reply.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryKind {
    Full,
    Compacted,
}

impl HistoryKind {
    pub fn as_str(self) -> &'static str {
        match self {
            HistoryKind::Full => "full",
            HistoryKind::Compacted => "compacted",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub parameters: Value,
}

/// An enabled tool of the server. Without trust, each call needs permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerToolRef {
    pub name: String,
    #[serde(default)]
    pub trust: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentConfig {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ServerToolRef>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewSession {
    pub agent: AgentConfig,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<HistoryMessage>,
    pub tools: Vec<ToolSpec>,
    /// Only for agents with that capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<SessionWorkspace>,
}

/// A folder of the server's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionWorkspace {
    /// From the root on.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_ignored: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedSession {
    pub session_id: String,
}

/// A session. Not of the protocol, but sent by servers of ours: everything from `title` on.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    pub session_id: String,
    pub agent: AgentConfig,
    /// Tools that the application brought.
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    pub title: Option<String>,
    pub updated_at: Option<String>,
    pub workspace: Option<SessionWorkspace>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SessionPage {
    pub sessions: Vec<SessionInfo>,
    pub next: Option<String>,
}

/// A message of a history, or of a turn that came as one reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum HistoryMessage {
    System {
        content: Content,
    },
    User {
        content: Content,
    },
    Assistant {
        content: Content,
    },
    Tool {
        #[serde(rename = "toolCallId")]
        tool_call_id: String,
        content: Content,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    Blocks(Vec<Block>),
    /// What the protocol does not have there.
    Other(Value),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
        /// `aborted` or `abandoned` if it is not part of the answer, from servers that mark it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
    },
    Thinking {
        thinking: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
    },
    ToolUse {
        #[serde(rename = "toolCallId")]
        tool_call_id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    Image {
        url: String,
    },
    #[serde(other)]
    Unknown,
}

impl Block {
    /// A text that counts.
    pub fn text(text: String) -> Self {
        Block::Text { text, status: None }
    }

    /// A thought that counts.
    pub fn thinking(thinking: String) -> Self {
        Block::Thinking { thinking, status: None }
    }
}

/// What begins a turn: a message of the user, or answers to what is open.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum TurnMessage {
    User {
        content: Content,
    },
    Tool {
        #[serde(rename = "toolCallId")]
        tool_call_id: String,
        content: Content,
    },
    ToolPermission {
        #[serde(rename = "toolCallId")]
        tool_call_id: String,
        granted: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewTurn {
    pub messages: Vec<TurnMessage>,
    pub stream: Way,
    /// New choices for the rest of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Overrides>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Overrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ServerToolRef>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<BTreeMap<String, String>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_parts_of_other_servers_are_accepted() {
        let meta = json!({
            "version": 3, "vendor": "x",
            "agents": [
                {"name": "bare", "version": "1.0.0"},
                {
                    "name": "full", "version": "0.2.0", "extra": 1,
                    "capabilities": {
                        "history": {"compacted": {}}, "stream": {"message": {}, "none": {}},
                        "image": {"data": {}}, "application": {"tools": {}},
                    },
                    "options": [{"type": "secret", "name": "key", "default": ""}],
                },
            ],
        });
        let meta: Meta = serde_json::from_value(meta).unwrap();
        let [bare, full] = &meta.agents[..] else { panic!("{meta:?}") };
        assert_eq!((bare.capabilities.way(), bare.capabilities.history()), (Way::None, None));
        assert_eq!(full.capabilities.way(), Way::Message);
        assert_eq!(full.capabilities.history(), Some(HistoryKind::Compacted));
        assert!(full.capabilities.image.data.is_some() && full.capabilities.image.http.is_none());
        assert!(full.options[0].is_secret());
        let history = json!([
            {"role": "user", "content": "hi", "at": 1},
            {"role": "assistant", "content": [{"type": "sound"}, {"type": "text", "text": "ho"}]},
            {"role": "judge", "content": "?"},
            {"role": "tool", "toolCallId": "c", "content": {"odd": true}},
        ]);
        let history: Vec<HistoryMessage> = serde_json::from_value(history).unwrap();
        assert_eq!(history[0], HistoryMessage::User { content: Content::Text("hi".into()) });
        let blocks = vec![Block::Unknown, Block::text("ho".into())];
        assert_eq!(history[1], HistoryMessage::Assistant { content: Content::Blocks(blocks) });
        assert_eq!(history[2], HistoryMessage::Unknown);
        let odd = Content::Other(json!({"odd": true}));
        assert_eq!(history[3], HistoryMessage::Tool { tool_call_id: "c".into(), content: odd });
    }

    #[test]
    fn turns_are_written_as_the_protocol_has_them() {
        let turn = NewTurn {
            messages: vec![
                TurnMessage::Tool { tool_call_id: "a".into(), content: Content::Text("no".into()) },
                TurnMessage::ToolPermission { tool_call_id: "b".into(), granted: true, reason: None },
            ],
            stream: Way::Delta,
            agent: None,
        };
        let expected = json!({
            "stream": "delta",
            "messages": [
                {"role": "tool", "toolCallId": "a", "content": "no"},
                {"role": "tool_permission", "toolCallId": "b", "granted": true},
            ],
        });
        assert_eq!(serde_json::to_value(&turn).unwrap(), expected);
        let session = NewSession {
            agent: AgentConfig { name: "a".into(), tools: Some(Vec::new()), options: None },
            messages: Vec::new(),
            tools: Vec::new(),
            workspace: None,
        };
        let expected = json!({"agent": {"name": "a", "tools": []}, "tools": []});
        assert_eq!(serde_json::to_value(&session).unwrap(), expected);
    }
}
