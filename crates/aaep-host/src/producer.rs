//! The border between the host and a producer: [`Producer`], its readers ([`Feed`]), and what passes between them.
//! Nothing here knows how a message is carried.

use std::future::Future;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use recount_aaep::negotiate::{Reason, Refusal};
use serde_json::Value;

use crate::{Policy, Problem, Route};

/// A source of events that subscribers can listen and reply to.
///
/// Each call names the caller that [`Producer::admit`] found, so that a producer with several owners keeps them apart.
pub trait Producer: Send + Sync + 'static {
    /// The identity of a caller; `()` where all are equal.
    type Caller: Clone + Send + Sync + 'static;
    type Feed: Feed;

    /// How the host serves this producer.
    fn policy(&self) -> &Policy;

    /// Identifies the caller of a request, or refuses it. Runs before everything else, for each request.
    fn admit(&self, request: &Parts) -> Result<Self::Caller, Response>;

    /// Answers a `subscription.request` that came over HTTP or as the first message of a WebSocket.
    fn subscribe(
        &self,
        caller: &Self::Caller,
        request: &str,
        on_socket: bool,
    ) -> impl Future<Output = Handshake> + Send;

    /// Opens a stream of events. `last_event_id` is as the caller sent it, and may be empty.
    fn open(
        &self,
        caller: &Self::Caller,
        place: Place<'_>,
        last_event_id: Option<&str>,
    ) -> impl Future<Output = Result<Self::Feed, Problem>> + Send;

    /// Whether a stream of this subscription could be opened.
    fn knows(&self, caller: &Self::Caller, subscription: &str) -> impl Future<Output = bool> + Send;

    /// Takes a message of a subscriber: a reply, a renegotiation, a close, or what drivers of tests send.
    fn receive(
        &self,
        caller: &Self::Caller,
        source: Source<'_, Self::Feed>,
        text: &str,
    ) -> impl Future<Output = Reply> + Send;

    /// The state of the producer, as JSON.
    fn health(&self) -> Value;

    /// The manifest as JSON text, if there is one.
    fn manifest(&self, _caller: &Self::Caller) -> Option<String> {
        None
    }

    /// The response to a request that cannot be served.
    fn refusal(&self, problem: Problem, _route: Route) -> Response {
        problem.response()
    }
}

/// A reader of one stream. Dropping it ends the reading.
pub trait Feed: Send + Sync + 'static {
    /// Waits for the next item. May be dropped while it waits, and loses nothing then.
    fn next(&mut self) -> impl Future<Output = Item> + Send;

    /// The next item if there is one already; the host merges such items into one write.
    fn ready(&mut self) -> Option<Item> {
        None
    }
}

/// Something to write to a subscriber.
pub enum Item {
    /// An event as one line of JSON, with the id to resume after.
    Event { id: Option<Arc<str>>, text: Bytes },
    /// A message of the handshake, which has no id and no name.
    Message(Bytes),
    /// Bytes that are written to an event stream as they are, or as one frame of a WebSocket: text if they are UTF-8,
    /// otherwise binary. Only for producers that break the framing on purpose.
    Raw(Bytes),
    /// The stream is over.
    End(crate::Close),
}

/// Where a stream is opened.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// `GET /events`.
    Room,
    /// `/ws`.
    RoomSocket,
    /// `GET /aaep/v1/events`.
    Subscription(&'a str),
    /// `/aaep/v1/ws`, after the handshake; without a subscription with [`crate::Sockets::Lenient`].
    Socket(Option<&'a str>),
}

/// Where a message came from.
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

/// The result of a message. Only [`Reply::Answer`] and [`Reply::Last`] write anything to a WebSocket.
pub enum Reply {
    /// Taken, whatever it causes: 204.
    Taken,
    /// A session was started: 202 with this JSON.
    Started(String),
    /// 200 with this JSON, or a text frame.
    Answer(String),
    /// A text frame, after which the connection ends without a close frame. Only for producers that misbehave.
    Last(String),
    /// The refusal of [`Producer::refusal`].
    Refused(Problem),
    /// Another response over HTTP.
    Response(Response),
}

/// The answer to a `subscription.request`.
pub struct Handshake {
    /// The answer as JSON; none only if the producer leaves it out on purpose.
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
