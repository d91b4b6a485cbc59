//! The error of a failed request to an MCP server.
//!
//! Start at [`Fault`]. The module must not depend on how servers are connected.

use serde_json::Value;

use crate::mcp::limits;
use crate::tools::cut_bytes;

/// Error codes of failed calls, as stored in events.
pub(crate) mod code {
    pub(crate) const UNREACHABLE: &str = "mcp_unreachable";
    pub(crate) const ENDED: &str = "mcp_server_ended";
    pub(crate) const FLOODED: &str = "mcp_flooded";
    pub(crate) const GARBLED: &str = "mcp_garbled";
    pub(crate) const REFUSED: &str = "mcp_refused";
    pub(crate) const TIMEOUT: &str = "mcp_timeout";
    pub(crate) const INPUT_REQUIRED: &str = "mcp_input_required";
    /// The session does not exist any more: nothing was done, and a new one may be started.
    pub(crate) const SESSION_OVER: &str = "mcp_session_over";
    pub(crate) const TOOL_MISSING: &str = "mcp_tool_gone";
}

/// A failed request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// If the server returned a protocol error: its number and data.
    pub(crate) refusal: Option<(i64, Value)>,
}

impl Fault {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        let message = cut_bytes(message.into(), limits::MCP_ERROR_BYTES_MAX);
        Fault { code, message, refusal: None }
    }

    pub(crate) fn refused(number: i64, message: &str, data: Value) -> Self {
        let text = format!("the server returned error {number}: {message}");
        Fault { refusal: Some((number, data)), ..Fault::new(code::REFUSED, text) }
    }

    /// Whether the connection is still usable.
    pub(crate) fn is_connection_usable(&self) -> bool {
        matches!(self.code, code::REFUSED | code::INPUT_REQUIRED | code::TOOL_MISSING)
    }
}
