//! Tools of MCP servers: processes that a run starts in its sandbox, and servers on the network.
//!
//! Start at [`McpServers`], the configured servers, and `session`, the servers of one run. A run connects to a server
//! when a turn first needs its list of tools. A connection belongs to one run and ends with its worker.
//!
//! The module must not depend on workers, policy or models.

#[cfg(unix)]
mod connection;
mod content;
mod era;
mod fault;
mod headers;
mod http;
pub mod limits;
#[cfg(unix)]
mod link;
mod listing;
mod message;
mod names;
#[cfg(unix)]
mod pipes;
mod quota;
mod server;
#[cfg(unix)]
mod session;
mod settings;
#[cfg(unix)]
mod tool;

pub use self::names::{PREFIX, server_of};
#[cfg(unix)]
pub(crate) use self::names::{is_meant, tool_name};
pub use self::server::McpServers;
#[cfg(unix)]
pub(crate) use self::session::McpSession;
pub use self::settings::{McpServerSettings, McpSettings, McpSettingsError};
#[cfg(unix)]
pub(crate) use self::tool::assess_call;
