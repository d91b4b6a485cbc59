//! JSON-RPC messages of MCP: requests as they are understood, and errors.

use serde_json::{Map, Value, json};

/// Versions with a handshake, newest first.
pub(crate) const WITH_INITIALIZE: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26"];

/// The version without a handshake, in which every request is self-contained.
pub(crate) const STATELESS: &str = "2026-07-28";

/// Keys of `_meta`.
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
pub(crate) const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// Which of the two forms of the protocol a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtocolEra {
    Initialize,
    Stateless,
}

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    Request(Request),
    /// Nothing follows from any notification.
    Notification,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
    pub(crate) era: ProtocolEra,
}

/// Codes of errors, as JSON-RPC and MCP define them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    Parse = -32_700,
    InvalidRequest = -32_600,
    MethodNotFound = -32_601,
    InvalidParams = -32_602,
    Internal = -32_603,
    /// Only up to 2025-11-25; later [`ErrorCode::InvalidParams`].
    ResourceNotFound = -32_002,
    /// Of MCP Events, like the next two.
    NotFound = -32_023,
    Forbidden = -32_024,
    ResourceExhausted = -32_025,
    HeaderMismatch = -32_020,
    UnsupportedVersion = -32_022,
}

/// An error in place of a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
    /// The status of the HTTP response.
    pub(crate) status: u16,
}

impl RpcError {
    pub(crate) fn new(code: ErrorCode, status: u16, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into(), data: None, status }
    }

    /// The message for a client. `id` is null where the request could not be read.
    pub(crate) fn to_json(&self, id: &Value) -> Value {
        let mut error = json!({ "code": self.code as i64, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }
}
