//! The header `aap-turn-id`, which names the turn of a response. See [`name`].

use axum::response::Response;
use http::{HeaderName, HeaderValue};

use crate::project::TurnId;

const TURN_ID: HeaderName = HeaderName::from_static("aap-turn-id");

/// Names the turn in a response.
pub(crate) fn name(response: &mut Response, turn: TurnId) {
    if let Ok(value) = HeaderValue::from_str(&turn.to_string()) {
        response.headers_mut().insert(TURN_ID, value);
    }
}
