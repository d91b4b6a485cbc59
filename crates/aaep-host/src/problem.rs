//! Why a request cannot be served, and the response to it where a producer words none of its own.

use axum::response::Response;
use http::StatusCode;

use crate::response::{error, text};

/// Why a request cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    NotFound,
    /// The stream of a subscription was asked for, without its id.
    SubscriptionMissing,
    SubscriptionUnknown,
    /// There are too many readers.
    Full,
    /// Events cannot be read at the moment.
    Unavailable,
    /// A body that is no message that a producer takes. The response is the same whatever is wrong with it, so that a
    /// sender learns nothing about prompts.
    Malformed,
    /// A body that is not UTF-8.
    NotText,
    TooLarge,
    SubprotocolMissing,
}

/// Which route a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    Subscriptions,
    Events,
    Replies,
    Socket,
    /// The surface in use.
    Room,
    Other,
}

impl Problem {
    /// The response where a producer has no words of its own.
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
            Problem::SubprotocolMissing => text(
                StatusCode::BAD_REQUEST,
                "send `Sec-WebSocket-Protocol: aaep.v1`, or use /ws without a subprotocol",
            ),
        }
    }
}
