//! Why a server did not do what it was asked.
//!
//! Look at [`Fault`]. It must not know how servers are reached.

use serde_json::Value;

use crate::mcp::limits;
use crate::tools::cut_bytes;

/// The codes of calls that failed, as events have them.
pub(crate) mod code {
    pub(crate) const UNREACHABLE: &str = "mcp_unreachable";
    pub(crate) const ENDED: &str = "mcp_server_ended";
    pub(crate) const FLOODED: &str = "mcp_flooded";
    pub(crate) const GARBLED: &str = "mcp_garbled";
    pub(crate) const REFUSED: &str = "mcp_refused";
    pub(crate) const TIMEOUT: &str = "mcp_timeout";
    pub(crate) const INPUT_REQUIRED: &str = "mcp_input_required";
    /// The server has forgotten the session: nothing was done, and a new one may be started.
    pub(crate) const SESSION_OVER: &str = "mcp_session_over";
    pub(crate) const TOOL_GONE: &str = "mcp_tool_gone";
}

/// See the file's head.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Where the server answered with an error of the protocol: its number and what came with it.
    pub(crate) refusal: Option<(i64, Value)>,
}

impl Fault {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        let message = cut_bytes(message.into(), limits::MCP_ERROR_BYTES_MAX);
        Fault { code, message, refusal: None }
    }

    pub(crate) fn refused(number: i64, said: &str, data: Value) -> Self {
        let message = format!("the server refused it with error {number}: {said}");
        Fault { refusal: Some((number, data)), ..Fault::new(code::REFUSED, message) }
    }

    /// Whether the connection is as good as before.
    pub(crate) fn leaves_it_usable(&self) -> bool {
        matches!(self.code, code::REFUSED | code::INPUT_REQUIRED | code::TOOL_GONE)
    }
}
