//! Connects the synthetic producer to the host: records requests and sends the configured responses.
//!
//! What it does on purpose that no right producer does goes through hooks of the host: refusing every request
//! (`admit`), WebSockets without a subprotocol whose handshake it answers itself (`Sockets::Lenient`), hanging up after
//! a rejection (`Reply::FinalMessage`), and frames of any bytes and any cut (`Item::Raw`).

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, StatusCode, header};
use recount_aaep::wire::ProducerManifest;
use recount_aaep_host::response::{challenge, empty, text};
use recount_aaep_host::{
    Close, Handshake, Item, LegacySurface, Pages, Policy, Preflight, Problem, Producer, Rejected, Reply,
    Route, Sockets, Source, StreamRoute,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::builder;
use super::state::{Input, Output, SharedProducer, StreamSurface};
use crate::limits;

/// The frame name on `/aaep/v1`.
const NAMED: &str = "aaep.event";

pub(super) fn router(shared: Arc<SharedProducer>) -> Router {
    let policy = Policy {
        legacy: Some(LegacySurface { base: "", sessions: true }),
        manifest: true,
        message_bytes_max: limits::SYNTHETIC_REPLY_BYTES_MAX,
        body_wait: None,
        write_bytes: 0,
        // Streams have their own comments, and WebSockets no pings.
        heartbeat: None,
        sockets: Sockets::Lenient,
        closing: |why| (why == Close::Clean).then_some((limits::SYNTHETIC_CLOSE_CODE, "closed")),
        // The events are fictional and stay on this machine.
        pages: Some(Pages {
            allowed_headers: "content-type, authorization, last-event-id, cache-control",
            exposed_headers: None,
            versioned: true,
            preflight: Preflight::AtAnyPath,
        }),
    };
    recount_aaep_host::service(Arc::new(SyntheticSurfaces { shared, policy }))
}

/// Implements the host's producer interface.
struct SyntheticSurfaces {
    shared: Arc<SharedProducer>,
    policy: Policy,
}

impl SyntheticSurfaces {
    fn line(&self, surface: StreamSurface, resumes: Option<&str>, subscription: Option<&str>) -> StreamFeed {
        let ready = surface != StreamSurface::VersionedSocket;
        let (resumes, subscription) = (resumes.map(str::to_owned), subscription.map(str::to_owned));
        let (number, receiver) = self.shared.opened(surface, resumes, subscription, ready);
        StreamFeed { shared: self.shared.clone(), number, surface, receiver, writes: VecDeque::new() }
    }

    /// Responds to `/messages` on the streams of `/events`.
    fn receive_in_room(&self, text: &str) -> Reply {
        match kind(text).as_deref() {
            Some("subscription.request") => {
                let answer = self.shared.answer(text);
                self.shared.send_legacy(answer.body, answer.subscription);
            }
            Some("subscription.renegotiate") => {
                if let Some(body) = self.shared.renegotiated(text) {
                    self.shared.send_legacy(body, None);
                }
            }
            Some(_) => {}
            None => return Reply::Refused(Problem::Malformed),
        }
        Reply::Accepted
    }

    fn receive_reply(&self, text: &str) -> Reply {
        match kind(text).as_deref() {
            Some("subscription.renegotiate") => match self.shared.renegotiated(text) {
                Some(body) => Reply::Message(body),
                None => Reply::Response(empty(StatusCode::NOT_FOUND)),
            },
            Some(_) => Reply::Accepted,
            None => Reply::Refused(Problem::Malformed),
        }
    }

    fn receive_on_socket(&self, line: &StreamFeed, text: &str) -> Reply {
        let body = match kind(text).as_deref() {
            Some("subscription.request") => {
                let answer = self.shared.answer(text);
                if let Some(id) = answer.subscription {
                    // Later events are written after the response.
                    self.shared.ready(line.number, id);
                }
                Some(answer.body)
            }
            Some("subscription.renegotiate") => self.shared.renegotiated(text),
            _ => None,
        };
        match body {
            None => Reply::Accepted,
            Some(body) if body.contains("subscription.rejected") => Reply::FinalMessage(body),
            Some(body) => Reply::Message(body),
        }
    }
}

/// The type of a message, as far as it determines the response.
fn kind(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let kind = value.get("type")?.as_str()?;
    Some(kind.strip_prefix("aaep:").unwrap_or(kind).to_owned())
}

impl Producer for SyntheticSurfaces {
    type Caller = ();
    type Feed = StreamFeed;

    fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Records the request, and refuses it if configured or if the token is missing.
    fn admit(&self, request: &Parts) -> Result<(), Box<Response>> {
        let bearer = request.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let entitled = self.shared.token.is_none() || bearer == self.shared.token.as_deref();
        let path = request.uri.path();
        let open =
            request.method == Method::OPTIONS || path == "/healthz" || path.starts_with("/.well-known/");
        if !open {
            self.shared.note(Input::Request { path: path.to_owned(), entitled });
        }
        match self.shared.with(|state| state.refusing).map(StatusCode::from_u16) {
            Some(Ok(status)) => Err(Box::new(empty(status))),
            _ if entitled || open => Ok(()),
            _ => Err(Box::new(challenge(empty(StatusCode::UNAUTHORIZED)))),
        }
    }

    async fn subscribe(&self, (): &(), request: &str, _on_socket: bool) -> Handshake {
        self.shared.note(Input::Message { text: request.to_owned(), surface: StreamSurface::Versioned });
        let answer = self.shared.answer(request);
        let retry_after_seconds = answer.retry_after_seconds;
        let rejected = Rejected { status: StatusCode::TOO_MANY_REQUESTS, retry_after_seconds };
        Handshake { text: Some(answer.body), result: answer.subscription.ok_or(rejected) }
    }

    async fn open(&self, (): &(), route: StreamRoute<'_>, last: Option<&str>) -> Result<StreamFeed, Problem> {
        Ok(match route {
            StreamRoute::Legacy => self.line(StreamSurface::Legacy, last, None),
            StreamRoute::LegacySocket => self.line(StreamSurface::LegacySocket, None, None),
            StreamRoute::Socket(_) => self.line(StreamSurface::VersionedSocket, None, None),
            StreamRoute::Subscription(id) if self.has_subscription(&(), id).await => {
                self.line(StreamSurface::Versioned, last, Some(id))
            }
            StreamRoute::Subscription(_) => return Err(Problem::SubscriptionUnknown),
        })
    }

    async fn has_subscription(&self, (): &(), subscription: &str) -> bool {
        self.shared.with(|state| state.known.iter().any(|(known, _)| known == subscription))
    }

    async fn receive(&self, (): &(), source: Source<'_, StreamFeed>, text: &str) -> Reply {
        let surface = match &source {
            Source::Sessions => return Reply::Started(json!({"status": "started"}).to_string()),
            Source::Messages => StreamSurface::Legacy,
            Source::Replies => StreamSurface::Versioned,
            Source::Socket(line) => {
                self.shared.note(Input::Request { path: line.surface.label().to_owned(), entitled: true });
                line.surface
            }
        };
        self.shared.note(Input::Message { text: text.to_owned(), surface });
        match source {
            Source::Socket(line) => self.receive_on_socket(line, text),
            Source::Replies => self.receive_reply(text),
            Source::Messages | Source::Sessions => self.receive_in_room(text),
        }
    }

    fn health(&self) -> Value {
        json!({"status": "ok"})
    }

    fn manifest(&self, (): &()) -> Option<String> {
        let transports = vec!["sse".to_owned(), "websocket".to_owned()];
        serde_json::to_string(&ProducerManifest::new(builder::AGENT, vec![1, 2, 3], transports)).ok()
    }

    fn refusal(&self, problem: Problem, _route: Route) -> Response {
        match problem {
            Problem::SubscriptionMissing | Problem::SubscriptionUnknown => {
                text(StatusCode::NOT_FOUND, "unknown subscription; request a new one")
            }
            Problem::NotFound => empty(StatusCode::NOT_FOUND),
            Problem::Malformed => empty(StatusCode::BAD_REQUEST),
            Problem::NotText => text(StatusCode::BAD_REQUEST, "Request body didn't contain valid UTF-8"),
            _ => problem.response(),
        }
    }
}

/// A stream that a subscriber has open. Dropping it removes it from the state.
struct StreamFeed {
    shared: Arc<SharedProducer>,
    number: u64,
    surface: StreamSurface,
    receiver: mpsc::Receiver<Output>,
    /// Remaining writes of the current piece.
    writes: VecDeque<Bytes>,
}

impl recount_aaep_host::Feed for StreamFeed {
    async fn next(&mut self) -> Item {
        loop {
            if self.writes.len() > 1 {
                // tidy: so that the pieces are written one by one
                tokio::time::sleep(limits::SYNTHETIC_WRITE_PAUSE).await;
            }
            if let Some(write) = self.writes.pop_front() {
                return Item::Raw(write);
            }
            let out = if self.surface.is_socket() {
                self.receiver.recv().await
            } else {
                match tokio::time::timeout(limits::SYNTHETIC_HEARTBEAT, self.receiver.recv()).await {
                    Ok(out) => out,
                    Err(_) => return Item::Raw(Bytes::from_static(b": still there\n\n")),
                }
            };
            match out {
                Some(Output::Send(piece)) if self.surface.is_socket() => return Item::Raw(piece.data.into()),
                Some(Output::Send(piece)) => {
                    self.writes = piece.writes(self.surface.is_versioned().then_some(NAMED))
                }
                Some(Output::End) | None => return Item::End(Close::Clean),
            }
        }
    }
}

impl Drop for StreamFeed {
    fn drop(&mut self) {
        self.shared.closed(self.number);
    }
}
