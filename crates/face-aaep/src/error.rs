//! Refusals of the server around this face in the form of the protocol: a handshake is rejected, other requests get an
//! error object.

use std::time::Duration;

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use recount_aaep::negotiate::{Reason, Refusal};
use recount_aaep_host::response;
use recount_event::Code;

/// The response to a request that is refused before it reaches this face.
pub fn refusal_response(
    code: Code,
    detail: &str,
    retry_after: Option<Duration>,
    is_handshake: bool,
) -> Response {
    let status = StatusCode::from_u16(code.row().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let retry_seconds = retry_after.map(|wait| u32::try_from(wait.as_secs().max(1)).unwrap_or(u32::MAX));
    let mut refused = match is_handshake {
        true => {
            let reason = match status {
                StatusCode::UNAUTHORIZED => Reason::AuthenticationRequired,
                StatusCode::FORBIDDEN => Reason::AuthorizationDenied,
                StatusCode::TOO_MANY_REQUESTS => Reason::RateLimit,
                StatusCode::SERVICE_UNAVAILABLE => Reason::TransportUnavailable,
                _ => Reason::Unknown,
            };
            let mut refusal = Refusal::new(reason, detail);
            refusal.retry_after_seconds = retry_seconds;
            response::json(status, serde_json::to_string(&refusal.to_message()).unwrap_or_default())
        }
        false => response::error(status, &code.to_string(), detail),
    };
    if status == StatusCode::UNAUTHORIZED {
        refused = response::challenge(refused);
    }
    if let Some(seconds) = retry_seconds {
        refused.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    refused
}
