//! Errors of AAP calls. See [`AapError`].

use serde_json::Value;

use crate::error::ClientError;
use crate::limits;

/// Why a call brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum AapError {
    /// The server refused the call, in its own words.
    #[error("{error} (status {status}{})", .code.as_ref().map_or(String::new(), |code| format!(", {code}")))]
    Refused {
        status: u16,
        error: String,
        /// What servers that have codes call it.
        code: Option<String>,
        /// How long to wait before a retry, if the server gave a time.
        retry_after_seconds: Option<u64>,
    },
    /// A turn broke off before its end and cannot be followed further here. It may go on at the server.
    #[error("the turn was interrupted: {reason}")]
    BrokenOff { reason: String },
    /// No answer: nothing listens at the address, or the connection broke. The call may have been executed.
    #[error("no response from {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// Nothing was sent, because what was given to send cannot be.
    #[error("{0}")]
    Unusable(String),
    /// What came is not what the protocol has.
    #[error("unexpected response from {url}: {reason}")]
    Protocol { url: String, reason: String },
}

impl AapError {
    /// The status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            AapError::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// A refusal, from whatever body came with it: the protocol has no form for it.
    pub(super) fn refused(status: reqwest::StatusCode, body: &[u8], retry_after: Option<u64>) -> Self {
        let text = String::from_utf8_lossy(body);
        let json = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let error = [json.get("error"), json.get("error").and_then(|error| error.get("message"))]
            .into_iter()
            .chain([json.get("message"), json.get("detail")])
            .find_map(|words| words.and_then(Value::as_str).filter(|words| !words.trim().is_empty()))
            .unwrap_or_else(|| text.trim());
        let error: String = match error.is_empty() || error.starts_with('<') {
            // Nothing, or a page for browsers.
            true => status.canonical_reason().unwrap_or("no reason given").to_owned(),
            false => error.chars().take(limits::REFUSAL_CHARS_MAX).collect(),
        };
        let code = json.get("code").and_then(Value::as_str).map(str::to_owned);
        AapError::Refused { status: status.as_u16(), error, code, retry_after_seconds: retry_after }
    }

    pub(super) fn protocol(url: &str, reason: impl Into<String>) -> Self {
        AapError::Protocol { url: url.to_owned(), reason: reason.into() }
    }
}

impl From<ClientError> for AapError {
    fn from(why: ClientError) -> Self {
        match why {
            ClientError::Unreachable { url, reason } => AapError::Unreachable { url, reason },
            ClientError::Unusable(why) => AapError::Unusable(why),
            ClientError::Protocol { url, reason } => AapError::Protocol { url, reason },
            ClientError::Problem(problem) => AapError::Refused {
                status: problem.status,
                error: problem.detail,
                code: Some(problem.code),
                retry_after_seconds: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::StatusCode;

    #[test]
    fn a_refusal_shows_the_message_of_the_server_in_any_form() {
        let message =
            |status: StatusCode, body: &str| AapError::refused(status, body.as_bytes(), None).to_string();
        let not_found = StatusCode::NOT_FOUND;
        assert_eq!(message(not_found, r#"{"error":"no such session"}"#), "no such session (status 404)");
        assert_eq!(
            message(not_found, r#"{"error":"gone","code":"session_not_found"}"#),
            "gone (status 404, session_not_found)"
        );
        assert_eq!(message(not_found, r#"{"error":{"message":"deep"}}"#), "deep (status 404)");
        assert_eq!(message(StatusCode::UNAUTHORIZED, "Unauthorized"), "Unauthorized (status 401)");
        assert_eq!(message(StatusCode::BAD_GATEWAY, "<html>…"), "Bad Gateway (status 502)");
        assert_eq!(message(StatusCode::BAD_GATEWAY, ""), "Bad Gateway (status 502)");
        let long = message(not_found, &"x".repeat(1_000_000));
        assert!(long.len() < 5_000, "{}", long.len());
    }
}
