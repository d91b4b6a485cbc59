//! Reasons why a request cannot be served, each with its default response.

use axum::response::Response;
use http::StatusCode;

use crate::response::{error, text};

/// The reason why a request cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    NotFound,
    /// The request for a stream has no subscription id.
    SubscriptionMissing,
    SubscriptionUnknown,
    /// The limit of readers is reached.
    Full,
    /// Events cannot be read now.
    Unavailable,
    /// The body is not a message that producers accept. The response is always the same, so that it reveals nothing
    /// about prompts.
    Malformed,
    /// The body is not UTF-8.
    NotText,
    TooLarge,
    /// A body that did not arrive in time.
    Slow,
    SubprotocolMissing,
}

/// The route of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    Subscriptions,
    Events,
    Replies,
    Socket,
    /// The legacy surface.
    Legacy,
    Other,
}

impl Problem {
    /// The default response.
    pub fn response(self) -> Response {
        match self {
            Problem::NotFound => error(StatusCode::NOT_FOUND, "not_found", "no route matches this path"),
            Problem::SubscriptionMissing => error(
                StatusCode::BAD_REQUEST,
                "subscription_missing",
                "the parameter subscription_id is missing; send `?subscription_id=` with the id from \
                 `subscription.accepted`",
            ),
            Problem::SubscriptionUnknown => error(
                StatusCode::NOT_FOUND,
                "subscription_unknown",
                "unknown subscription; it has ended or was never accepted",
            ),
            Problem::Full => error(
                StatusCode::SERVICE_UNAVAILABLE,
                "full",
                "the limit of subscribers is reached; close one",
            ),
            Problem::Unavailable => error(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "the events are temporarily unavailable; try again shortly",
            ),
            Problem::Malformed | Problem::NotText => error(
                StatusCode::BAD_REQUEST,
                "invalid_message",
                "the body is not a message that a producer accepts; send one JSON object of the protocol",
            ),
            Problem::TooLarge => text(
                StatusCode::PAYLOAD_TOO_LARGE,
                "Failed to buffer the request body: length limit exceeded",
            ),
            Problem::Slow => error(
                StatusCode::REQUEST_TIMEOUT,
                "body_timeout",
                "the body did not arrive in time; send the request again",
            ),
            Problem::SubprotocolMissing => text(
                StatusCode::BAD_REQUEST,
                "send `Sec-WebSocket-Protocol: aaep.v1`, or use /ws without a subprotocol",
            ),
        }
    }
}
