//! The interface between the host and a producer: [`Producer`], its readers ([`Feed`]) and the values they exchange.
//! This module must not know HTTP or WebSocket framing.

use std::future::Future;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use recount_aaep::negotiate::{Reason, Refusal};
use serde_json::Value;

use crate::{Policy, Problem, Route};

/// A source of events with subscribers that listen and reply.
///
/// Each method gets the caller that [`Producer::admit`] identified, so that a producer with several owners can separate
/// them.
pub trait Producer: Send + Sync + 'static {
    /// The identity of a caller; `()` if all callers are equal.
    type Caller: Clone + Send + Sync + 'static;
    type Feed: Feed;

    /// How the host serves this producer.
    fn policy(&self) -> &Policy;

    /// Identifies the caller of a request or rejects the request. Runs first for each request.
    fn admit(&self, request: &Parts) -> Result<Self::Caller, Box<Response>>;

    /// Responds to a `subscription.request` sent over HTTP or as the first message of a WebSocket.
    fn subscribe(
        &self,
        caller: &Self::Caller,
        request: &str,
        on_socket: bool,
    ) -> impl Future<Output = Handshake> + Send;

    /// Opens a stream of events. `last_event_id` is unvalidated and may be empty.
    fn open(
        &self,
        caller: &Self::Caller,
        route: StreamRoute<'_>,
        last_event_id: Option<&str>,
    ) -> impl Future<Output = Result<Self::Feed, Problem>> + Send;

    /// Whether a stream of this subscription can be opened.
    fn has_subscription(
        &self,
        caller: &Self::Caller,
        subscription: &str,
    ) -> impl Future<Output = bool> + Send;

    /// Processes a message from a subscriber: a reply, a renegotiation, a close, or a test driver's message.
    fn receive(
        &self,
        caller: &Self::Caller,
        source: Source<'_, Self::Feed>,
        text: &str,
    ) -> impl Future<Output = Reply> + Send;

    /// The state of the producer, as JSON.
    fn health(&self) -> Value;

    /// The manifest as JSON text, if the producer has one.
    fn manifest(&self, _caller: &Self::Caller) -> Option<String> {
        None
    }

    /// The response to a request that cannot be served.
    fn refusal(&self, problem: Problem, _route: Route) -> Response {
        problem.response()
    }
}

/// A reader of one stream. Dropping it closes the stream.
pub trait Feed: Send + Sync + 'static {
    /// Waits for the next item. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Item> + Send;

    /// The next item if it is ready; the host merges such items into one write.
    fn ready(&mut self) -> Option<Item> {
        None
    }
}

/// Something to write to a subscriber.
pub enum Item {
    /// An event as one line of JSON, with the id for resuming after it.
    Event { id: Option<Arc<str>>, text: Bytes },
    /// A handshake message, without an id or a name.
    Message(Bytes),
    /// Bytes written unchanged to an event stream, or as one WebSocket frame: text if they are UTF-8, otherwise binary.
    /// Only for producers that break the framing on purpose.
    Raw(Bytes),
    /// The stream has ended.
    End(crate::Close),
}

/// The route at which a stream is opened.
#[derive(Debug, Clone, Copy)]
pub enum StreamRoute<'a> {
    /// `GET /events`.
    Legacy,
    /// `/ws`.
    LegacySocket,
    /// `GET /aaep/v1/events`.
    Subscription(&'a str),
    /// `/aaep/v1/ws`, after the handshake; without a subscription with [`crate::Sockets::Lenient`].
    Socket(Option<&'a str>),
}

/// The origin of a message.
pub enum Source<'a, F> {
    /// `POST /messages`.
    Messages,
    /// `POST /sessions`.
    Sessions,
    /// `POST /aaep/v1/replies`.
    Replies,
    /// A WebSocket, by its reader.
    Socket(&'a F),
}

/// The response to a message. Only [`Reply::Message`] and [`Reply::FinalMessage`] write to a WebSocket.
pub enum Reply {
    /// Accepted, whatever it causes: 204.
    Accepted,
    /// Starts a session: 202 with this JSON.
    Started(String),
    /// 200 with this JSON, or a text frame.
    Message(String),
    /// A text frame, after which the connection ends without a close frame. Only for producers that misbehave.
    FinalMessage(String),
    /// The refusal of [`Producer::refusal`].
    Refused(Problem),
    /// Any other HTTP response.
    Response(Response),
}

/// The response to a `subscription.request`.
pub struct Handshake {
    /// The response as JSON; `None` only if the producer omits it on purpose.
    pub text: Option<String>,
    pub result: Result<String, Rejected>,
}

/// How a rejected subscription is reported over HTTP.
#[derive(Debug, Clone, Copy)]
pub struct Rejected {
    pub status: StatusCode,
    pub retry_after_seconds: Option<u32>,
}

impl From<&Refusal> for Rejected {
    fn from(refusal: &Refusal) -> Rejected {
        let status = match refusal.code {
            Reason::VersionUnsupported | Reason::Unknown => StatusCode::BAD_REQUEST,
            Reason::CapabilitiesIncompatible | Reason::ManifestSignatureRequired => StatusCode::CONFLICT,
            Reason::RateLimit => StatusCode::TOO_MANY_REQUESTS,
            Reason::AuthenticationRequired => StatusCode::UNAUTHORIZED,
            Reason::AuthorizationDenied => StatusCode::FORBIDDEN,
            Reason::TransportUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        Rejected { status, retry_after_seconds: refusal.retry_after_seconds }
    }
}
