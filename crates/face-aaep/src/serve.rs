//! The HTTP face: the routes of `/aaep/v1` and of rooms, for the host of AAEP producers. The only async part.
//!
//! Subscriptions are in `subscription`, streams in `feed`, messages of subscribers in `receive`; `rooms` opens streams
//! of the legacy surface. Start with [`router`].

mod feed;
mod join;
mod receive;
mod rooms;
mod subscribe;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use http::request::Parts;
use recount_aaep::shaping::Counts;
use recount_aaep_host::{
    Feed, Handshake, Item, LegacySurface, MANIFEST, Policy, Problem, Producer, Reply, Sockets, Source,
    StreamRoute, response,
};
use recount_engine::{Caller, Engine, RequestContext};
use recount_world::{Kind, World};
use serde_json::{Value, json};

use self::feed::Stream;
use crate::legacy::{RoomAgent, RoomFeed, Rooms};
use crate::projections::Projections;
use crate::reply_state::{AttemptLog, Unlogged};
use crate::reply_tokens::{ReplyTokens, Surface, TokenKey};
use crate::subscription::Subscriptions;
use crate::traffic::Traffic;
use crate::{limits, manifest};

/// State that the handlers of all callers share, with a limit for each tenant. Cheap to clone.
#[derive(Clone)]
pub struct FaceState {
    world: World,
    tokens: ReplyTokens,
    projections: Projections,
    subscriptions: Subscriptions,
    subscriptions_max: usize,
    traffic: Traffic,
    rooms: Rooms,
    /// The agent of one room, if there is one.
    agent: Option<Arc<dyn RoomAgent>>,
    announces_sessions: bool,
    attempts: Arc<dyn AttemptLog>,
    /// Replies so far for subscriptions that are not the sender's.
    foreign_replies: Arc<AtomicU64>,
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
    /// With a limit of subscriptions at a time, usually [`limits::SUBSCRIPTIONS_MAX`]. Starts a task that ends
    /// subscriptions without streams.
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
            foreign_replies: Arc::default(),
            rooms: Rooms::default(),
            agent: None,
            announces_sessions: false,
        }
    }

    /// Records attempts to reply in a trail.
    pub fn with_attempt_log(self, attempts: Arc<dyn AttemptLog>) -> Self {
        FaceState { attempts, ..self }
    }

    /// Gives one room an agent. With `announces_sessions` a message with the session id precedes the events of each
    /// session, because the public suite takes the first message that it receives for that id.
    #[must_use]
    pub fn with_agent(mut self, agent: Arc<dyn RoomAgent>, announces_sessions: bool) -> Self {
        self.agent = Some(agent);
        self.announces_sessions = announces_sessions;
        self
    }

    pub fn figures(&self) -> FaceFigures {
        FaceFigures {
            subscriptions: self.subscriptions.count(),
            projected_bytes: self.projections.bytes(),
            counts: self.traffic.counts(),
        }
    }
}

/// All routes. To be served where each request has a [`RequestContext`] among its extensions.
pub fn router(state: FaceState) -> Router {
    let manifest = manifest::manifest(state.subscriptions_max);
    // Clients read it before they have a token.
    let discovery = get(move || ready(response::json(StatusCode::OK, manifest.clone())));
    recount_aaep_host::routes(Arc::new(Served { state, policy: policy() })).route(MANIFEST, discovery)
}

fn policy() -> Policy {
    Policy {
        legacy: Some(LegacySurface { base: "/aaep/legacy/{room}", sessions: true }),
        manifest: false,
        message_bytes_max: limits::MESSAGE_BYTES_MAX,
        body_wait: Some(limits::BODY_WAIT),
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

/// A caller and its room.
#[derive(Clone)]
struct Visit {
    requester: Requester,
    room: Option<Arc<str>>,
}

/// A stream of a subscription or of a room.
enum AnyStream {
    Versioned(Box<Stream>),
    Room(Box<RoomFeed<Stream>>),
}

impl Feed for AnyStream {
    async fn next(&mut self) -> Item {
        match self {
            AnyStream::Versioned(stream) => stream.next().await,
            AnyStream::Room(feed) => feed.next().await,
        }
    }

    fn ready(&mut self) -> Option<Item> {
        match self {
            AnyStream::Versioned(stream) => stream.ready(),
            AnyStream::Room(feed) => feed.ready(),
        }
    }
}

/// The name of the room in a path.
fn room_of(path: &str) -> Option<Arc<str>> {
    let (name, _) = path.strip_prefix("/aaep/legacy/")?.split_once('/')?;
    Some(name.into())
}

impl Producer for Served {
    type Caller = Visit;
    type Feed = AnyStream;

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn admit(&self, request: &Parts) -> Result<Visit, Box<Response>> {
        match request.extensions.get::<RequestContext>() {
            Some(RequestContext { engine, caller }) => {
                let requester = Requester { engine: engine.clone(), caller: caller.clone() };
                Ok(Visit { requester, room: room_of(request.uri.path()) })
            }
            None => {
                let detail = "the request has no token; send `authorization: Bearer TOKEN`";
                let refused = response::error(StatusCode::UNAUTHORIZED, "authentication_required", detail);
                Err(Box::new(response::challenge(refused)))
            }
        }
    }

    async fn subscribe(&self, visit: &Visit, request: &str, on_socket: bool) -> Handshake {
        subscribe::answer(&self.state, &visit.requester, request, on_socket).await
    }

    async fn open(
        &self,
        Visit { requester, room }: &Visit,
        route: StreamRoute<'_>,
        last_event_id: Option<&str>,
    ) -> Result<AnyStream, Problem> {
        let id = match route {
            StreamRoute::Subscription(id) | StreamRoute::Socket(Some(id)) => id,
            StreamRoute::Socket(None) => return Err(Problem::SubscriptionMissing),
            StreamRoute::Legacy | StreamRoute::LegacySocket => {
                let name = room.as_ref().ok_or(Problem::NotFound)?;
                let feed = rooms::open(&self.state, requester, name).await?;
                return Ok(AnyStream::Room(Box::new(feed)));
            }
        };
        let found = self.state.subscriptions.find(id, &requester.engine, &requester.caller);
        let subscription = found.ok_or(Problem::SubscriptionUnknown)?;
        let stream = Stream::open(&self.state, subscription, requester.caller.clone(), last_event_id).await?;
        Ok(AnyStream::Versioned(Box::new(stream)))
    }

    async fn has_subscription(&self, Visit { requester, .. }: &Visit, subscription: &str) -> bool {
        self.state.subscriptions.find(subscription, &requester.engine, &requester.caller).is_some()
    }

    async fn receive(
        &self,
        Visit { requester, room }: &Visit,
        source: Source<'_, AnyStream>,
        text: &str,
    ) -> Reply {
        let state = &self.state;
        let name = || room.as_ref().ok_or(Problem::NotFound);
        let (source, on) = match source {
            Source::Socket(AnyStream::Versioned(stream)) => (Source::Socket(&**stream), None),
            Source::Socket(AnyStream::Room(feed)) => (Source::Messages, Some(feed.reader().clone())),
            Source::Messages => (Source::Messages, None),
            Source::Sessions => (Source::Sessions, None),
            Source::Replies => (Source::Replies, None),
        };
        match (source, name()) {
            (Source::Messages, Ok(name)) => rooms::receive(state, requester, name, on, text).await,
            (Source::Sessions, Ok(name)) => rooms::start(state, requester, name, text).await,
            (Source::Messages | Source::Sessions, Err(problem)) => Reply::Refused(problem),
            (source, _) => receive::receive(state, requester, source, text),
        }
    }

    fn health(&self) -> Value {
        json!({ "status": "ok" })
    }
}
