//! Errors for the editor: maps each kind of failure to a code of JSON-RPC or ACP.
//!
//! Must not depend on requests. Start with [`RpcError`].

use recount_client::ClientError;
use recount_client::aap::AapError;
use serde_json::{Value, json};

use crate::limits;

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const AUTH_REQUIRED: i64 = -32000;
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into(), data: None }
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        RpcError::new(INVALID_PARAMS, message)
    }

    pub(crate) fn session_not_found(session: &str) -> Self {
        let message = format!("session {:?} not found", shortened(session));
        RpcError {
            data: Some(json!({ "sessionId": shortened(session) })),
            ..RpcError::new(RESOURCE_NOT_FOUND, message)
        }
    }

    pub(crate) fn json(&self) -> Value {
        match &self.data {
            Some(data) => json!({ "code": self.code, "message": self.message, "data": data }),
            None => json!({ "code": self.code, "message": self.message }),
        }
    }

    /// A refusal of the server: `code` is one of docs/errors.md.
    fn refused(code: Option<&str>, detail: &str, retryable: bool) -> Self {
        let rpc = match code.unwrap_or("") {
            "token_missing" | "token_invalid" | "scope_missing" => AUTH_REQUIRED,
            code if code.ends_with("_not_found") || code.ends_with("_erased") => RESOURCE_NOT_FOUND,
            "option_invalid" | "image_refused" | "order_refused" | "workspace_refused" | "model_unknown"
            | "limit_reached" | "body_too_large" => INVALID_PARAMS,
            _ => INTERNAL_ERROR,
        };
        let hint = match code {
            Some("workspace_refused") => {
                "; add the folder to workspaces.allow in the configuration of the server"
            }
            Some("token_missing" | "token_invalid") => "; start the agent with --token or RECOUNT_TOKEN",
            _ => "",
        };
        let data = code.map(|code| json!({ "code": code, "retryable": retryable }));
        RpcError { code: rpc, message: format!("{detail}{hint}"), data }
    }
}

fn unreachable(url: &str, reason: &str) -> RpcError {
    let message =
        format!("no answer from {url}: {reason}; start a server with recount serve, or check --url");
    RpcError {
        data: Some(json!({ "code": "unreachable", "retryable": true })),
        ..RpcError::new(INTERNAL_ERROR, message)
    }
}

impl From<ClientError> for RpcError {
    fn from(why: ClientError) -> Self {
        match &why {
            ClientError::Problem(problem) => {
                RpcError::refused(Some(&problem.code), &problem.detail, problem.retryable)
            }
            ClientError::Unreachable { url, reason } => unreachable(url, reason),
            ClientError::Unusable(_) | ClientError::Protocol { .. } => {
                RpcError::new(INTERNAL_ERROR, why.to_string())
            }
        }
    }
}

impl From<AapError> for RpcError {
    fn from(why: AapError) -> Self {
        match &why {
            AapError::Refused { error, code, status, .. } => {
                RpcError::refused(code.as_deref(), error, matches!(status, 429 | 503))
            }
            AapError::Unreachable { url, reason } => unreachable(url, reason),
            AapError::BrokenOff { .. } | AapError::Unusable(_) | AapError::Protocol { .. } => {
                RpcError::new(INTERNAL_ERROR, why.to_string())
            }
        }
    }
}

/// The beginning of a text from the editor, for error messages.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(limits::SHOWN_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
