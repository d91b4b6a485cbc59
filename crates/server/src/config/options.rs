//! The options of the command line of a server. See [`Options`].

use std::path::PathBuf;

#[cfg(unix)]
use crate::passed_sockets::PassedSockets;

/// The options of the command line, before the environment and the file are read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// An address, `unix:` with a path, or both with a comma between them.
    pub bind: Option<String>,
    pub data: Option<PathBuf>,
    pub config: Option<PathBuf>,
    /// The URL of the database that holds the stores.
    pub store: Option<String>,
    /// Where other servers on the same database reach this one.
    pub node_address: Option<String>,
    /// Whether other servers on the same database may own stores of tenants.
    pub spread_tenants: bool,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub durability: Option<String>,
    /// Positions after which acknowledged events may be missing. Only on the command line: it is about one loss.
    pub accept_loss_after: Vec<u64>,
    pub log: Option<String>,
    pub log_format: Option<String>,
    pub max_age: Option<String>,
    pub max_events: Option<String>,
    pub max_bytes: Option<String>,
    pub sweep_every: Option<String>,
    pub require_token: bool,
    pub allowed_origins: Vec<String>,
    pub sandbox: Option<String>,
    pub policy: Option<PathBuf>,
    /// Folders that runs may work in.
    pub workspaces: Vec<String>,
    /// Ignores `[sign_in]`: for work on the stores, and for a server that a verb starts for itself.
    pub without_sign_in: bool,
    /// Serves a legacy surface with a scripted agent. Only on the command line: it is for conformance suites.
    pub conformance_agent: bool,
    /// Sends the id of each session before it on legacy streams, as the public suite needs.
    pub suite_compat: bool,
    /// Sockets that the service manager opened. Not for operators.
    #[cfg(unix)]
    #[doc(hidden)]
    pub passed: PassedSockets,
    /// Keeps events in memory only. Not for operators: measures the cost of the disk.
    #[doc(hidden)]
    pub in_memory: bool,
}

/// How the server's own log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}
