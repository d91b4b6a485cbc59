//! The face in a server: the routes of `/aaep/v1`, for the host of AAEP producers. The only part that waits.
//!
//! [`router`] is the entry point. Subscriptions are in `subscription`, a stream of one is in `feed`, what is sent by
//! subscribers in `receive`.

mod feed;
mod join;
mod receive;
mod subscribe;

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use http::request::Parts;
use recount_aaep::shaping::Counts;
use recount_aaep_host::{Handshake, Place, Policy, Problem, Producer, Reply, Sockets, Source, response};
use recount_engine::{Caller, Engine, Visitor};
use recount_world::{Kind, World};
use serde_json::{Value, json};

use self::feed::Stream;
use crate::projections::Projections;
use crate::reply_state::{AttemptLog, Unlogged};
use crate::reply_tokens::{ReplyTokens, Surface, TokenKey};
use crate::subscription::Subscriptions;
use crate::traffic::Traffic;
use crate::{limits, manifest};

/// What the handlers of all callers share, so that no tenant can take all of it. Cheap to clone.
#[derive(Clone)]
pub struct FaceState {
    world: World,
    tokens: ReplyTokens,
    projections: Projections,
    subscriptions: Subscriptions,
    subscriptions_max: usize,
    traffic: Traffic,
    attempts: Arc<dyn AttemptLog>,
}

/// Figures of the face, for metrics.
#[derive(Debug, Clone, Copy)]
pub struct FaceFigures {
    /// Subscriptions at the moment.
    pub subscriptions: usize,
    /// Bytes of projected events in memory, shared by all streams.
    pub projected_bytes: usize,
    /// Events that streams have sent, left out, merged, and sent ahead of the agreed rate.
    pub counts: Counts,
}

impl FaceState {
    /// With a bound on the subscriptions at a time; [`limits::SUBSCRIPTIONS_MAX`] is the usual one. Starts a service of
    /// the world that ends subscriptions without streams.
    pub fn new(world: World, key: TokenKey, subscriptions_max: usize) -> Self {
        let subscriptions = Subscriptions::new(subscriptions_max);
        let swept = subscriptions.clone();
        world.tasks.spawn(Kind::Service, |mut shutdown| async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(limits::SWEEP_EVERY) => swept.sweep(),
                    () = shutdown.requested() => return,
                }
            }
        });
        let tokens = ReplyTokens::new(key, Surface::Versioned);
        let projections = Projections::new(tokens.clone());
        FaceState {
            world,
            tokens,
            projections,
            subscriptions,
            subscriptions_max,
            traffic: Traffic::default(),
            attempts: Arc::new(Unlogged),
        }
    }

    /// Records attempts to reply in a trail.
    pub fn with_attempt_log(self, attempts: Arc<dyn AttemptLog>) -> Self {
        FaceState { attempts, ..self }
    }

    pub fn figures(&self) -> FaceFigures {
        FaceFigures {
            subscriptions: self.subscriptions.count(),
            projected_bytes: self.projections.bytes(),
            counts: self.traffic.counts(),
        }
    }
}

/// All routes. To be served where each request has a [`Visitor`] among its extensions.
pub fn router(state: FaceState) -> Router {
    recount_aaep_host::routes(Arc::new(Served { state, policy: policy() }))
}

fn policy() -> Policy {
    Policy {
        in_use: None,
        manifest: true,
        message_bytes_max: limits::MESSAGE_BYTES_MAX,
        write_bytes: limits::WRITE_BYTES,
        heartbeat: Some(limits::HEARTBEAT_EVERY),
        sockets: Sockets::Strict { handshake_wait: Some(limits::HANDSHAKE_WAIT) },
        closing: |close| Some(close.frame()),
        pages: None,
    }
}

/// The runs of this server as a producer.
struct Served {
    state: FaceState,
    policy: Policy,
}

/// The caller of a request.
#[derive(Clone)]
struct Requester {
    engine: Engine,
    caller: Caller,
}

impl Producer for Served {
    type Caller = Requester;
    type Feed = Stream;

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn admit(&self, request: &Parts) -> Result<Requester, Box<Response>> {
        match request.extensions.get::<Visitor>() {
            Some(Visitor { engine, caller }) => {
                Ok(Requester { engine: engine.clone(), caller: caller.clone() })
            }
            None => {
                let detail = "no token was sent; send authorization: Bearer and a token";
                let refused =
                    response::error(http::StatusCode::UNAUTHORIZED, "authentication_required", detail);
                Err(Box::new(response::challenge(refused)))
            }
        }
    }

    async fn subscribe(&self, requester: &Requester, request: &str, on_socket: bool) -> Handshake {
        subscribe::answer(&self.state, requester, request, on_socket).await
    }

    async fn open(
        &self,
        requester: &Requester,
        place: Place<'_>,
        last_event_id: Option<&str>,
    ) -> Result<Stream, Problem> {
        let id = match place {
            Place::Subscription(id) | Place::Socket(Some(id)) => id,
            Place::Socket(None) => return Err(Problem::SubscriptionMissing),
            Place::Room | Place::RoomSocket => return Err(Problem::NotFound),
        };
        let found = self.state.subscriptions.find(id, &requester.engine, &requester.caller);
        let subscription = found.ok_or(Problem::SubscriptionUnknown)?;
        Stream::open(&self.state, subscription, requester.caller.clone(), last_event_id).await
    }

    async fn knows(&self, requester: &Requester, subscription: &str) -> bool {
        self.state.subscriptions.find(subscription, &requester.engine, &requester.caller).is_some()
    }

    async fn receive(&self, requester: &Requester, source: Source<'_, Stream>, text: &str) -> Reply {
        receive::receive(&self.state, requester, source, text)
    }

    fn health(&self) -> Value {
        json!({ "status": "ok" })
    }

    fn manifest(&self, _: &Requester) -> Option<String> {
        Some(manifest::manifest(self.state.subscriptions_max))
    }
}
