//! Connects the scripted producer to the host: maps each route to the hub, with its refusals and close reasons. It
//! does not depend on scenarios.
//!
//! Faults of the surfaces use hooks of the host: unprotected routes (`admit`), unanswered handshakes (`subscribe`),
//! revealing replies (`receive`), a missing heartbeat (`policy`), a wrong manifest.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use axum::serve::ListenerExt as _;
use http::request::Parts;
use http::{Method, StatusCode, header};
use recount_aaep::negotiate::Refusal;
use recount_aaep::wire::{ProducerManifest, Verbosity};
use recount_aaep::{Kind as EventKind, Message};
use recount_aaep_host::response::{challenge, empty, error, json, text};
use recount_aaep_host::{
    Close, Handshake, LegacySurface, Pages, Policy, Preflight, Problem, Producer, Rejected, Reply, Route,
    Sockets, Source, StreamRoute,
};
use recount_world::Kind;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::Fault;
use super::feed::ScriptedFeed;
use super::hub::{Hub, fresh_event};
use super::identity::{AGENT, producer};
use super::messages::{self, MessageResult};
use super::subscription::ProducerSurface;
use crate::limits;

/// Serves until the hub is stopped.
pub(super) fn serve(listener: TcpListener, hub: Arc<Hub>) {
    let router = recount_aaep_host::service(Arc::new(ScriptedSurfaces::new(hub.clone())));
    let listener = listener.tap_io(|peer| {
        if peer.set_nodelay(true).is_err() {
            // The peer has left; serving it fails next.
        }
    });
    let mut stopped = hub.stopped.subscribe();
    hub.world.clone().tasks.spawn(Kind::Service, |mut shutdown| async move {
        let over = {
            let hub = hub.clone();
            async move {
                tokio::select! {
                    () = shutdown.requested() => hub.stop(),
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                }
            }
        };
        if axum::serve(listener, router).with_graceful_shutdown(over).await.is_err() {
            // Serving does not fail once it listens.
        }
        hub.served.send_replace(true);
    });
}

/// Implements the host's producer interface.
struct ScriptedSurfaces {
    hub: Arc<Hub>,
    policy: Policy,
}

impl ScriptedSurfaces {
    fn new(hub: Arc<Hub>) -> ScriptedSurfaces {
        let heartbeat = Duration::from_millis(hub.behaviour.heartbeat_ms);
        let policy = Policy {
            legacy: Some(LegacySurface { base: "", sessions: true }),
            manifest: true,
            message_bytes_max: limits::SCRIPTED_BODY_BYTES_MAX,
            body_wait: None,
            write_bytes: 0,
            heartbeat: (!hub.is(Fault::HeartbeatMissing)).then_some(heartbeat),
            sockets: Sockets::Strict { handshake_wait: None },
            closing,
            pages: Some(Pages {
                allowed_headers: "Content-Type, Authorization, Last-Event-ID",
                exposed_headers: None,
                versioned: false,
                preflight: Preflight::AtAnyPath,
            }),
        };
        ScriptedSurfaces { hub, policy }
    }

    /// Whether a fault skips the token check here.
    fn is_unguarded(&self, path: &str, query: &str) -> bool {
        match self.hub.behaviour.fault {
            Some(Fault::EventsUnguarded) => path.ends_with("/events"),
            Some(Fault::RepliesUnguarded) => path.ends_with("/replies") || path.ends_with("/messages"),
            Some(Fault::SubscriptionIdAdmits) => {
                let known = query.strip_prefix("subscription_id=");
                known.is_some_and(|id| self.hub.with(id, |_| ()).is_some())
            }
            _ => false,
        }
    }

    fn open_legacy(&self, last: Option<&str>) -> Option<ScriptedFeed> {
        let hub = &self.hub;
        let resumed = last.filter(|id| !id.is_empty()).and_then(|last| hub.resume(last));
        if let Some((id, at)) = resumed {
            return ScriptedFeed::open(hub, &id, at, false);
        }
        let id = match hub.reserved_stream() {
            Some(id) => id,
            None => {
                let id = hub.open(ProducerSurface::Legacy, hub.default_terms())?;
                hub.catch_up(&id);
                id
            }
        };
        ScriptedFeed::open(hub, &id, 0, false)
    }

    fn open_legacy_socket(&self) -> Option<ScriptedFeed> {
        let id = self.hub.open(ProducerSurface::LegacySocket, self.hub.default_terms())?;
        self.hub.catch_up(&id);
        ScriptedFeed::open(&self.hub, &id, 0, false)
    }

    fn open_subscription(&self, id: &str, last: Option<&str>) -> Option<ScriptedFeed> {
        let hub = &self.hub;
        let last = last.filter(|id| !id.is_empty());
        let (surface, at, end) = hub.with(id, |sub| {
            let known = last.map(|last| sub.position_after(last, &mut || fresh_event(&hub.world)));
            (sub.surface, known.unwrap_or_else(|| Some(sub.seen())), sub.end())
        })?;
        if surface != ProducerSurface::Versioned {
            return None;
        }
        if at.is_none() {
            // The named event was dropped: send the current state, and continue from there.
            hub.remind(id);
        }
        ScriptedFeed::open(hub, id, at.unwrap_or(end), true)
    }
}

/// The close reasons of this producer; without one, a connection ends without a close frame.
fn closing(why: Close) -> Option<(u16, &'static str)> {
    let (code, reason) = why.frame();
    match why {
        Close::Unavailable => None,
        Close::Clean => Some((code, "closed")),
        Close::Rejected => Some((code, "rejected")),
        Close::NotText => Some((code, "frames are text")),
        Close::NoHandshake
        | Close::Requested
        | Close::Unauthenticated
        | Close::Denied
        | Close::Shutdown
        | Close::NotUtf8
        | Close::TooLarge
        | Close::Unreadable => Some((code, reason)),
    }
}

impl Producer for ScriptedSurfaces {
    type Caller = ();
    type Feed = ScriptedFeed;

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn admit(&self, request: &Parts) -> Result<(), Box<Response>> {
        let Some(token) = &self.hub.behaviour.token else { return Ok(()) };
        let (path, query) = (request.uri.path(), request.uri.query().unwrap_or_default());
        let shown = request.headers.get(header::AUTHORIZATION).and_then(|shown| shown.to_str().ok());
        if request.method == Method::OPTIONS
            || self.is_unguarded(path, query)
            || shown.and_then(|shown| shown.strip_prefix("Bearer ")) == Some(token)
        {
            return Ok(());
        }
        let refused = if path.ends_with("/subscriptions") {
            let rejected = json!({
                "type": "subscription.rejected",
                "reason_code": "authentication_required",
                "reason_message": "a bearer token is required",
            });
            json(StatusCode::UNAUTHORIZED, rejected.to_string())
        } else {
            empty(StatusCode::UNAUTHORIZED)
        };
        Err(Box::new(challenge(refused)))
    }

    async fn subscribe(&self, (): &(), request: &str, on_socket: bool) -> Handshake {
        let surface = if on_socket { ProducerSurface::Socket } else { ProducerSurface::Versioned };
        let opened = messages::handshake(&self.hub, request, surface);
        let mut rejected = Rejected { status: StatusCode::BAD_REQUEST, retry_after_seconds: None };
        if let Some(code) = opened.code {
            rejected = Rejected::from(&Refusal::new(code, ""));
        }
        if rejected.status == StatusCode::TOO_MANY_REQUESTS {
            rejected.retry_after_seconds = Some(limits::SCRIPTED_RETRY_SECONDS);
        }
        Handshake { text: opened.text, result: opened.subscription.ok_or(rejected) }
    }

    async fn open(
        &self,
        (): &(),
        route: StreamRoute<'_>,
        last: Option<&str>,
    ) -> Result<ScriptedFeed, Problem> {
        match route {
            StreamRoute::Legacy => self.open_legacy(last).ok_or(Problem::Full),
            StreamRoute::LegacySocket => self.open_legacy_socket().ok_or(Problem::Full),
            StreamRoute::Subscription(id) => {
                self.open_subscription(id, last).ok_or(Problem::SubscriptionUnknown)
            }
            StreamRoute::Socket(id) => id
                .and_then(|id| ScriptedFeed::open(&self.hub, id, 0, true))
                .ok_or(Problem::SubscriptionUnknown),
        }
    }

    async fn has_subscription(&self, (): &(), subscription: &str) -> bool {
        self.hub.with(subscription, |sub| sub.surface) == Some(ProducerSurface::Versioned)
    }

    async fn receive(&self, (): &(), source: Source<'_, ScriptedFeed>, text: &str) -> Reply {
        let (place, on_socket) = match source {
            Source::Sessions => return self.start_session(text),
            Source::Messages => (messages::MessageSource::Messages, false),
            Source::Replies => (messages::MessageSource::Replies, false),
            Source::Socket(feed) => (
                messages::MessageSource::Socket {
                    subscription: feed.subscription(),
                    strict: feed.is_versioned(),
                },
                true,
            ),
        };
        reply_of(messages::receive_message(&self.hub, text, place), on_socket)
    }

    fn health(&self) -> Value {
        let subscriptions = self.hub.lock().subscriptions.iter().filter(|sub| sub.attached).count();
        json!({"status": "ok", "agent_id": AGENT, "subscriptions": subscriptions})
    }

    fn manifest(&self, (): &()) -> Option<String> {
        (!self.hub.is(Fault::ManifestMissing)).then(|| manifest(&self.hub))
    }

    fn refusal(&self, problem: Problem, route: Route) -> Response {
        match problem {
            Problem::NotFound | Problem::SubscriptionUnknown => empty(StatusCode::NOT_FOUND),
            Problem::Full | Problem::Unavailable => empty(StatusCode::SERVICE_UNAVAILABLE),
            // A body that is not text is rejected like an unreadable handshake.
            Problem::NotText if route == Route::Subscriptions => {
                let opened = messages::handshake(&self.hub, "", ProducerSurface::Versioned);
                opened
                    .text
                    .map_or_else(|| empty(StatusCode::NO_CONTENT), |text| json(StatusCode::BAD_REQUEST, text))
            }
            Problem::Malformed | Problem::NotText => {
                json(StatusCode::BAD_REQUEST, json!({"error": "malformed"}).to_string())
            }
            Problem::SubscriptionMissing => text(
                StatusCode::BAD_REQUEST,
                "Failed to deserialize query string: missing field `subscription_id`",
            ),
            Problem::SubprotocolMissing => {
                text(StatusCode::BAD_REQUEST, "the subprotocol aaep.v1 is required\n")
            }
            Problem::TooLarge | Problem::Slow => problem.response(),
        }
    }
}

impl ScriptedSurfaces {
    /// `{"user_message": …}` also starts a session.
    fn start_session(&self, text: &str) -> Reply {
        let request = serde_json::from_str::<Value>(text).unwrap_or_default();
        let verdict = match request.get("user_message").and_then(Value::as_str) {
            Some(text) => {
                messages::begin(&self.hub, text).map_or(MessageResult::Full, MessageResult::Started)
            }
            None => MessageResult::Malformed,
        };
        reply_of(verdict, false)
    }
}

fn reply_of(verdict: MessageResult, on_socket: bool) -> Reply {
    match verdict {
        MessageResult::Accepted => Reply::Accepted,
        MessageResult::Started(session) => {
            Reply::Started(json!({"status": "started", "session_id": session}).to_string())
        }
        MessageResult::Full => Reply::Response(empty(StatusCode::TOO_MANY_REQUESTS)),
        MessageResult::Response(text) => Reply::Message(text),
        MessageResult::Malformed => Reply::Refused(Problem::Malformed),
        MessageResult::Refused(why) if on_socket => {
            Reply::Message(json!({"error": "invalid_token", "message": why}).to_string())
        }
        MessageResult::Refused(why) => Reply::Response(error(StatusCode::BAD_REQUEST, "invalid_token", why)),
    }
}

fn manifest(hub: &Hub) -> String {
    let transports = vec!["sse".to_owned(), "websocket".to_owned()];
    let agent = if hub.is(Fault::ManifestUntrue) { "another-agent" } else { AGENT };
    let mut manifest = ProducerManifest::new(agent, (1..=hub.behaviour.level).collect(), transports);
    let producer = producer();
    (manifest.agent_version, manifest.agent_name) = (producer.agent_version, producer.agent_name);
    manifest.languages_supported = vec!["en-US".into()];
    manifest.event_types_emitted = EventKind::ALL
        .into_iter()
        .filter(|kind| *kind != EventKind::SessionCancelled)
        .map(|kind| kind.compact().to_owned())
        .collect();
    manifest.default_verbosity = Some(Verbosity::Normal);
    manifest.max_concurrent_subscriptions = u32::try_from(limits::SCRIPTED_SUBSCRIPTIONS_MAX).ok();
    let endpoints = json!({
        "subscriptions": "/aaep/v1/subscriptions",
        "events": "/aaep/v1/events",
        "replies": "/aaep/v1/replies",
        "websocket": "/aaep/v1/ws",
    });
    manifest.other.insert("endpoints".into(), endpoints);
    Message::from(manifest).to_json()
}
