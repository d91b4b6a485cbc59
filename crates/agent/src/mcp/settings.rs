//! Servers as they are configured: `[mcp.servers.NAME]`.
//!
//! Look at [`McpSettings`]. It must never know where the configuration came from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::model::Secret;
use crate::tool::Approval;

/// All that is configured: `[mcp]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpSettings {
    pub servers: BTreeMap<String, McpServerSettings>,
}

/// One server: a command or an address, and what its calls need.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerSettings {
    pub command: Vec<String>,
    /// Variables of the command.
    pub env: BTreeMap<String, Secret>,
    /// Names of variables of this server that the command is given.
    pub env_from: Vec<String>,
    /// Whether the command may use the network.
    pub network: bool,
    pub url: Option<String>,
    pub headers: BTreeMap<String, Secret>,
    /// By header: the variable that holds its value.
    pub headers_env: BTreeMap<String, String>,
    /// By header: the file that holds its value.
    pub headers_file: BTreeMap<String, PathBuf>,
    /// What its calls need; a person's leave when nothing is said.
    pub approval: Approval,
    /// What calls of single tools need, by their names on the server.
    pub tools: BTreeMap<String, Approval>,
    pub start_timeout_ms: Option<u64>,
    pub call_timeout_ms: Option<u64>,
}

/// Why a server cannot be used as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpSettingsError {
    #[error(
        "mcp.servers: {name:?} cannot be the name of a server; use 1 to {} letters, digits, `-` and single `_`",
        super::limits::MCP_SERVER_NAME_CHARS_MAX
    )]
    Name { name: String },
    #[error(
        "mcp.servers: {count} servers are configured, and there may be at most {}",
        super::limits::MCP_SERVERS_MAX
    )]
    TooMany { count: usize },
    #[error("mcp.servers.{server}: set either command or url")]
    Reach { server: String },
    #[error("mcp.servers.{server}.{key}: {why}")]
    Key { server: String, key: String, why: String },
}
