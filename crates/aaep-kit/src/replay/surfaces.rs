//! Connects the replay to the host: maps each route to the playback and refuses unsupported requests.
//! [`super::messages`] handles the messages.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use recount_aaep_host::response::error;
use recount_aaep_host::{
    Close, Handshake, LegacySurface, Pages, Policy, Preflight, Problem, Producer, Rejected, Reply, Route,
    Sockets, Source, StreamRoute,
};
use serde_json::{Value, json};

use super::feed::ReplayFeed;
use super::messages::{MessageOutcome, handle_shared_message, handle_subscription_message};
use super::playback::Playback;
use super::subscriptions::{ReaderChannel, SubscriptionResponse};
use crate::limits;

/// All routes.
pub(super) fn routes(playback: Arc<Playback>) -> Router {
    let policy = Policy {
        legacy: Some(LegacySurface { base: "", sessions: false }),
        manifest: false,
        message_bytes_max: limits::REPLAY_BODY_BYTES_MAX,
        body_wait: None,
        write_bytes: limits::REPLAY_CHUNK_BYTES,
        heartbeat: Some(limits::REPLAY_HEARTBEAT),
        sockets: Sockets::Strict { handshake_wait: Some(limits::REPLAY_HANDSHAKE_WAIT) },
        closing: |why| {
            (!matches!(why, Close::Unreadable | Close::TooLarge | Close::NotUtf8)).then(|| why.frame())
        },
        // A replay only repeats a recording, and browser pages are among its subscribers.
        pages: Some(Pages {
            allowed_headers: "Content-Type, Authorization, Last-Event-ID, Cache-Control",
            exposed_headers: Some("Location, Retry-After"),
            versioned: true,
            preflight: Preflight::AtRoutes,
        }),
    };
    recount_aaep_host::service(Arc::new(ReplaySurfaces { playback, policy }))
}

/// Implements the host's producer interface.
struct ReplaySurfaces {
    playback: Arc<Playback>,
    policy: Policy,
}

impl Producer for ReplaySurfaces {
    type Caller = ();
    type Feed = ReplayFeed;

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn admit(&self, _request: &Parts) -> Result<(), Box<Response>> {
        Ok(())
    }

    async fn subscribe(&self, (): &(), request: &str, _on_socket: bool) -> Handshake {
        let SubscriptionResponse { text, id, refusal } =
            self.playback.subscriptions.subscribe(&self.playback.world, &self.playback.script, request);
        let result = match refusal {
            Some(refusal) => Err(Rejected::from(&refusal)),
            None => Ok(id.unwrap_or_default()),
        };
        Handshake { text: Some(text), result }
    }

    async fn open(&self, (): &(), route: StreamRoute<'_>, last: Option<&str>) -> Result<ReplayFeed, Problem> {
        let (playback, subscriptions) = (&self.playback, &self.playback.subscriptions);
        match route {
            StreamRoute::Legacy | StreamRoute::LegacySocket => {
                ReplayFeed::open(playback, subscriptions.add_listener(), last).ok_or(Problem::Full)
            }
            StreamRoute::Subscription(id) => {
                let channel = subscriptions.resume(id).ok_or(Problem::SubscriptionUnknown)?;
                ReplayFeed::open(playback, channel, last).ok_or(Problem::Full)
            }
            // Newer subscriptions may have evicted it.
            StreamRoute::Socket(id) => {
                let id = id.ok_or(Problem::SubscriptionUnknown)?;
                let feed =
                    subscriptions.resume(id).and_then(|channel| ReplayFeed::open(playback, channel, last));
                if feed.is_none() {
                    subscriptions.close(id);
                }
                feed.map(ReplayFeed::with_ending_subscription).ok_or(Problem::Full)
            }
        }
    }

    async fn has_subscription(&self, (): &(), subscription: &str) -> bool {
        self.playback.subscriptions.has_subscription(subscription)
    }

    async fn receive(&self, (): &(), source: Source<'_, ReplayFeed>, text: &str) -> Reply {
        let own = match source {
            Source::Sessions => return Reply::Refused(Problem::NotFound),
            Source::Messages => return shared_reply(handle_shared_message(&self.playback, text)),
            Source::Replies => None,
            Source::Socket(feed) => match feed.channel() {
                ReaderChannel::Shared(_) => return shared_reply(handle_shared_message(&self.playback, text)),
                ReaderChannel::Subscription(id) => Some(id.as_str()),
            },
        };
        match handle_subscription_message(&self.playback, own, text) {
            MessageOutcome::Done => Reply::Accepted,
            MessageOutcome::Respond(answer) => Reply::Message(answer.text),
            MessageOutcome::Invalid => Reply::Refused(Problem::Malformed),
            MessageOutcome::UnknownSubscription => Reply::Refused(Problem::SubscriptionUnknown),
        }
    }

    fn health(&self) -> Value {
        let progress = self.playback.now();
        json!({
            "status": "ok",
            "lines": self.playback.script.len(),
            "said": progress.position,
            "over": progress.over,
            "listeners": self.playback.listeners(),
        })
    }

    fn refusal(&self, problem: Problem, _route: Route) -> Response {
        match problem {
            Problem::Full => {
                let message = format!(
                    "the limit of {} subscribers is reached; close one",
                    limits::REPLAY_LISTENERS_MAX
                );
                error(StatusCode::SERVICE_UNAVAILABLE, "full", &message)
            }
            Problem::TooLarge => {
                let message = format!("the body is larger than {} bytes", limits::REPLAY_BODY_BYTES_MAX);
                error(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &message)
            }
            _ => problem.response(),
        }
    }
}

/// Responses on the shared subscription are sent on its streams.
fn shared_reply(outcome: MessageOutcome) -> Reply {
    match outcome {
        MessageOutcome::Done | MessageOutcome::Respond(_) => Reply::Accepted,
        MessageOutcome::Invalid | MessageOutcome::UnknownSubscription => Reply::Refused(Problem::Malformed),
    }
}
