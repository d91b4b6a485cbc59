//! Connects the replay to the host: maps each route to the stage, and refuses what a replay does not take.
//! [`super::hearing`] handles the messages.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use recount_aaep_host::response::error;
use recount_aaep_host::{
    Close, Handshake, InUse, Pages, Place, Policy, Preflight, Problem, Producer, Rejected, Reply, Route,
    Sockets, Source,
};
use serde_json::{Value, json};

use super::feed::ReplayFeed;
use super::hearing::{Reception, hear_in_room, hear_on_subscription};
use super::playback::Playback;
use super::room::{Answered, Door};
use crate::limits;

/// All routes.
pub(super) fn routes(playback: Arc<Playback>) -> Router {
    let policy = Policy {
        in_use: Some(InUse { base: "", sessions: false }),
        manifest: false,
        message_bytes_max: limits::REPLAY_BODY_BYTES_MAX,
        write_bytes: limits::REPLAY_CHUNK_BYTES,
        heartbeat: Some(limits::REPLAY_HEARTBEAT),
        sockets: Sockets::Strict { handshake_wait: Some(limits::REPLAY_HANDSHAKE_WAIT) },
        closing: |why| {
            (!matches!(why, Close::Unreadable | Close::TooLarge | Close::NotUtf8)).then(|| why.frame())
        },
        // A replay repeats a recording, and pages of browsers are among its subscribers.
        pages: Some(Pages {
            allowed_headers: "Content-Type, Authorization, Last-Event-ID, Cache-Control",
            exposed_headers: Some("Location, Retry-After"),
            versioned: true,
            preflight: Preflight::AtRoutes,
        }),
    };
    recount_aaep_host::service(Arc::new(ReplaySurfaces { playback, policy }))
}

/// The stage as the host sees it.
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
        let Answered { text, id, refusal } =
            self.playback.room.subscribe(&self.playback.world, &self.playback.script, request);
        let result = match refusal {
            Some(refusal) => Err(Rejected::from(&refusal)),
            None => Ok(id.unwrap_or_default()),
        };
        Handshake { text: Some(text), result }
    }

    async fn open(&self, (): &(), place: Place<'_>, last: Option<&str>) -> Result<ReplayFeed, Problem> {
        let (playback, room) = (&self.playback, &self.playback.room);
        match place {
            Place::Room | Place::RoomSocket => {
                ReplayFeed::open(playback, room.enter(), last).ok_or(Problem::Full)
            }
            Place::Subscription(id) => {
                let door = room.resume(id).ok_or(Problem::SubscriptionUnknown)?;
                ReplayFeed::open(playback, door, last).ok_or(Problem::Full)
            }
            // As many newer ones as can be may have pushed it out.
            Place::Socket(id) => {
                let id = id.ok_or(Problem::SubscriptionUnknown)?;
                let feed = room.resume(id).and_then(|door| ReplayFeed::open(playback, door, last));
                if feed.is_none() {
                    room.close(id);
                }
                feed.map(ReplayFeed::ending_its_subscription).ok_or(Problem::Full)
            }
        }
    }

    async fn knows(&self, (): &(), subscription: &str) -> bool {
        self.playback.room.knows(subscription)
    }

    async fn receive(&self, (): &(), source: Source<'_, ReplayFeed>, text: &str) -> Reply {
        let own = match source {
            Source::Sessions => return Reply::Refused(Problem::NotFound),
            Source::Messages => return reply_in_room(hear_in_room(&self.playback, text)),
            Source::Replies => None,
            Source::Socket(feed) => match feed.door() {
                Door::Room(_) => return reply_in_room(hear_in_room(&self.playback, text)),
                Door::Subscription(id) => Some(id.as_str()),
            },
        };
        match hear_on_subscription(&self.playback, own, text) {
            Reception::Done => Reply::Taken,
            Reception::Answer(answer) => Reply::Answer(answer.text),
            Reception::Unfit => Reply::Refused(Problem::Malformed),
            Reception::Stranger => Reply::Refused(Problem::SubscriptionUnknown),
        }
    }

    fn health(&self) -> Value {
        let progress = self.playback.now();
        json!({
            "status": "ok",
            "lines": self.playback.script.len(),
            "said": progress.place,
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

/// Answers in the room come on its streams.
fn reply_in_room(heard: Reception) -> Reply {
    match heard {
        Reception::Done | Reception::Answer(_) => Reply::Taken,
        Reception::Unfit | Reception::Stranger => Reply::Refused(Problem::Malformed),
    }
}
