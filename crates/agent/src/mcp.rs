//! Tools of MCP servers: programs that a run starts in its sandbox, and servers on the network.
//!
//! Look at [`McpServers`], what is configured, and `session`, the servers of one run. A server is reached when a turn
//! first needs its list of tools, and belongs to that run alone until the worker leaves it. No task reads beside a call:
//! what a server sends between calls waits in its pipe.
//!
//! It must never know workers, policy or what models there are.

mod connection;
mod content;
mod era;
mod fault;
mod headers;
mod http;
pub mod limits;
mod link;
mod listing;
mod message;
mod names;
mod pipes;
mod server;
mod session;
mod settings;
mod tool;

pub use self::names::{PREFIX, server_of};
pub(crate) use self::names::{is_meant, tool_name};
pub use self::server::McpServers;
pub(crate) use self::session::McpSession;
pub use self::settings::{McpServerSettings, McpSettings, McpSettingsError};
pub(crate) use self::tool::assess_call;
