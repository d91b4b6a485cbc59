//! Settings of MCP servers: `[mcp.servers.NAME]`.
//!
//! Start at [`McpSettings`]. The module must not depend on the source of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::model::Secret;
use crate::tool::Approval;

/// The section `[mcp]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpSettings {
    pub servers: BTreeMap<String, McpServerSettings>,
}

/// One server: a command or a URL, and the approval that its calls need.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerSettings {
    pub command: Vec<String>,
    /// Environment variables of the command.
    pub env: BTreeMap<String, Secret>,
    /// Names of Recount's own variables that the command receives.
    pub env_from: Vec<String>,
    /// Whether the command may use the network.
    pub network: bool,
    pub url: Option<String>,
    pub headers: BTreeMap<String, Secret>,
    /// Header name to the variable that holds its value.
    pub headers_env: BTreeMap<String, String>,
    /// Header name to the file that holds its value.
    pub headers_file: BTreeMap<String, PathBuf>,
    /// The approval that its calls need. Default: a person must approve.
    pub approval: Approval,
    /// The approval of single tools, by their names on the server.
    pub tools: BTreeMap<String, Approval>,
    pub start_timeout_ms: Option<u64>,
    pub call_timeout_ms: Option<u64>,
}

/// Why the configuration of a server is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpSettingsError {
    #[error(
        "mcp.servers: {name:?} is not a valid server name; use 1 to {} letters, digits, `-` and single `_`",
        super::limits::MCP_SERVER_NAME_CHARS_MAX
    )]
    Name { name: String },
    #[error("mcp.servers: {count} servers are configured; the limit is {}", super::limits::MCP_SERVERS_MAX)]
    TooMany { count: usize },
    #[error("mcp.servers.{server}: set command or url, not both")]
    Reach { server: String },
    #[error("mcp.servers.{server}.{key}: {why}")]
    Key { server: String, key: String, why: String },
}
