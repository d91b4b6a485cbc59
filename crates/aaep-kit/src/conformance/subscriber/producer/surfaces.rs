//! The synthetic producer behind the host. It notes what comes and answers as the stage says.
//!
//! What it does on purpose that no right producer does goes through hooks of the host: refusing every request
//! (`admit`), WebSockets without a subprotocol whose handshake it answers itself (`Sockets::Lenient`), hanging up after
//! a rejection (`Reply::Last`), and frames of any bytes and any cut (`Item::Raw`).

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
    Close, Handshake, InUse, Item, Pages, Place, Policy, Preflight, Problem, Producer, Rejected, Reply,
    Route, Sockets, Source,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::builder;
use super::state::{Face, Input, Output, Shared};
use crate::limits;

/// What `/aaep/v1` calls its frames.
const NAMED: &str = "aaep.event";

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let policy = Policy {
        in_use: Some(InUse { base: "", sessions: true }),
        manifest: true,
        message_bytes_max: limits::STAGE_REPLY_BYTES_MAX,
        write_bytes: 0,
        // Streams have comments of their own, and WebSockets no pings.
        heartbeat: None,
        sockets: Sockets::Lenient,
        closing: |why| (why == Close::Clean).then_some((limits::STAGE_CLOSE_CODE, "closed")),
        // The events here are made up, and stay on this machine.
        pages: Some(Pages {
            allowed_headers: "content-type, authorization, last-event-id, cache-control",
            exposed_headers: None,
            versioned: true,
            preflight: Preflight::AtAnyPath,
        }),
    };
    recount_aaep_host::service(Arc::new(StageSurfaces { shared, policy }))
}

/// The stage as the host sees it.
struct StageSurfaces {
    shared: Arc<Shared>,
    policy: Policy,
}

impl StageSurfaces {
    fn line(&self, face: Face, resumes: Option<&str>, subscription: Option<&str>) -> StreamFeed {
        let ready = face != Face::VersionedSocket;
        let (resumes, subscription) = (resumes.map(str::to_owned), subscription.map(str::to_owned));
        let (number, receiver) = self.shared.opened(face, resumes, subscription, ready);
        StreamFeed { shared: self.shared.clone(), number, face, receiver, writes: VecDeque::new() }
    }

    /// Answers what comes to `/messages` on the streams of `/events`.
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
        Reply::Taken
    }

    fn receive_reply(&self, text: &str) -> Reply {
        match kind(text).as_deref() {
            Some("subscription.renegotiate") => match self.shared.renegotiated(text) {
                Some(body) => Reply::Answer(body),
                None => Reply::Response(empty(StatusCode::NOT_FOUND)),
            },
            Some(_) => Reply::Taken,
            None => Reply::Refused(Problem::Malformed),
        }
    }

    fn receive_on_socket(&self, line: &StreamFeed, text: &str) -> Reply {
        let body = match kind(text).as_deref() {
            Some("subscription.request") => {
                let answer = self.shared.answer(text);
                if let Some(id) = answer.subscription {
                    // What is said from now on is written after the answer.
                    self.shared.ready(line.number, id);
                }
                Some(answer.body)
            }
            Some("subscription.renegotiate") => self.shared.renegotiated(text),
            _ => None,
        };
        match body {
            None => Reply::Taken,
            Some(body) if body.contains("subscription.rejected") => Reply::Last(body),
            Some(body) => Reply::Answer(body),
        }
    }
}

/// What kind of message a text is, as far as the way it is answered goes.
fn kind(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let kind = value.get("type")?.as_str()?;
    Some(kind.strip_prefix("aaep:").unwrap_or(kind).to_owned())
}

impl Producer for StageSurfaces {
    type Caller = ();
    type Feed = StreamFeed;

    fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Notes the request, and refuses it where it is told to or the token is missing.
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
        self.shared.note(Input::Message { text: request.to_owned(), face: Face::Versioned });
        let answer = self.shared.answer(request);
        let retry_after_seconds = answer.retry_after_seconds;
        let rejected = Rejected { status: StatusCode::TOO_MANY_REQUESTS, retry_after_seconds };
        Handshake { text: Some(answer.body), result: answer.subscription.ok_or(rejected) }
    }

    async fn open(&self, (): &(), place: Place<'_>, last: Option<&str>) -> Result<StreamFeed, Problem> {
        Ok(match place {
            Place::Room => self.line(Face::Legacy, last, None),
            Place::RoomSocket => self.line(Face::LegacySocket, None, None),
            Place::Socket(_) => self.line(Face::VersionedSocket, None, None),
            Place::Subscription(id) if self.knows(&(), id).await => {
                self.line(Face::Versioned, last, Some(id))
            }
            Place::Subscription(_) => return Err(Problem::SubscriptionUnknown),
        })
    }

    async fn knows(&self, (): &(), subscription: &str) -> bool {
        self.shared.with(|state| state.known.iter().any(|(known, _)| known == subscription))
    }

    async fn receive(&self, (): &(), source: Source<'_, StreamFeed>, text: &str) -> Reply {
        let face = match &source {
            Source::Sessions => return Reply::Started(json!({"status": "started"}).to_string()),
            Source::Messages => Face::Legacy,
            Source::Replies => Face::Versioned,
            Source::Socket(line) => {
                self.shared.note(Input::Request { path: line.face.label().to_owned(), entitled: true });
                line.face
            }
        };
        self.shared.note(Input::Message { text: text.to_owned(), face });
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

/// A stream that a subscriber has open. The stage forgets it when it is dropped.
struct StreamFeed {
    shared: Arc<Shared>,
    number: u64,
    face: Face,
    receiver: mpsc::Receiver<Output>,
    /// Writes of a piece that was taken, for an event stream.
    writes: VecDeque<Bytes>,
}

impl recount_aaep_host::Feed for StreamFeed {
    async fn next(&mut self) -> Item {
        loop {
            if self.writes.len() > 1 {
                // tidy: so that the pieces are written one by one
                tokio::time::sleep(limits::STAGE_WRITE_PAUSE).await;
            }
            if let Some(write) = self.writes.pop_front() {
                return Item::Raw(write);
            }
            let out = if self.face.is_socket() {
                self.receiver.recv().await
            } else {
                match tokio::time::timeout(limits::STAGE_HEARTBEAT, self.receiver.recv()).await {
                    Ok(out) => out,
                    Err(_) => return Item::Raw(Bytes::from_static(b": still there\n\n")),
                }
            };
            match out {
                Some(Output::Send(piece)) if self.face.is_socket() => return Item::Raw(piece.data.into()),
                Some(Output::Send(piece)) => {
                    self.writes = piece.writes(self.face.is_versioned().then_some(NAMED))
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
