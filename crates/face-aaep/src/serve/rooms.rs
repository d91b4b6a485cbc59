//! Opens streams of rooms and passes on the messages to rooms. Start with [`open`].

use std::sync::Arc;

use recount_aaep::negotiate::Terms;
use recount_aaep::wire::SubscriptionId;
use recount_aaep_host::{Problem, Reply};
use recount_engine::Scope;

use super::feed::Stream;
use super::{FaceState, Requester, join, subscribe};
use crate::legacy::{self, RoomAgent, RoomCaller, RoomFeed, RoomKey, RoomReader, RoomScope};
use crate::manifest;
use crate::project::JoinReason;
use crate::projections::Broken;
use crate::reply_state::ReplyState;
use crate::request::SubscriptionOptions;
use crate::subscription::{NewSubscription, RetainedStream, Subscription};

/// Opens a stream of a room, with the terms that apply without a handshake.
pub(super) async fn open(
    state: &FaceState,
    requester: &Requester,
    name: &Arc<str>,
) -> Result<RoomFeed<Stream>, Problem> {
    let Requester { engine, caller } = requester;
    if !caller.may(Scope::Read) {
        return Err(Problem::NotFound);
    }
    let agent = agent(state, requester, name).map(|agent| (agent.room(), agent.session()));
    let scope = RoomScope::of(name, agent, caller).ok_or(Problem::NotFound)?;
    if let Some(run) = scope.run {
        subscribe::find(engine, caller, run).await.map_err(|_| Problem::NotFound)?;
    }
    let place = state.subscriptions.place(engine).ok_or(Problem::Full)?;
    let id = SubscriptionId::new(format!("sub_{:032x}", state.world.entropy.draw()))
        .unwrap_or_else(|why| unreachable!("letters and digits: {why}"));
    let mut within = caller.clone();
    within.narrowing = scope.narrowing;
    let new = NewSubscription {
        id: id.clone(),
        engine: engine.clone(),
        caller: within,
        options: SubscriptionOptions { run: scope.run, ..SubscriptionOptions::default() },
        replies: ReplyState::new(id.clone(), state.tokens.clone(), state.attempts.clone()),
        terms: Terms::implied(&manifest::offer()),
        on_socket: false,
    };
    let subscription = Subscription::new(new, place);
    if scope.run.is_none() {
        let reader = join::joining(state, &subscription, JoinReason::Joined).await;
        subscription.retain_stream(RetainedStream {
            reader: reader.map_err(|Broken| Problem::Unavailable)?,
            sending: None,
        });
    }
    state.subscriptions.add(subscription);
    let subscription = state.subscriptions.find(id.as_str(), engine, caller).ok_or(Problem::Unavailable)?;
    let stream = Stream::open(state, subscription.clone(), caller.clone(), None).await?;
    let key = key(requester, name);
    let announces = state.announces_sessions;
    Ok(RoomFeed::enter(&state.rooms, &state.subscriptions, key, (subscription, stream), announces))
}

/// Handles a message to a room; `on` is its WebSocket.
pub(super) async fn receive(
    state: &FaceState,
    requester: &Requester,
    name: &Arc<str>,
    on: Option<Arc<RoomReader>>,
    text: &str,
) -> Reply {
    legacy::receive(room_caller(state, requester, name, on), text).await
}

/// Starts a session in a room.
pub(super) async fn start(state: &FaceState, requester: &Requester, name: &Arc<str>, text: &str) -> Reply {
    legacy::start(room_caller(state, requester, name, None), text).await
}

fn room_caller<'a>(
    state: &'a FaceState,
    requester: &'a Requester,
    name: &Arc<str>,
    on: Option<Arc<RoomReader>>,
) -> RoomCaller<'a> {
    RoomCaller {
        rooms: &state.rooms,
        subscriptions: &state.subscriptions,
        engine: &requester.engine,
        caller: &requester.caller,
        key: key(requester, name),
        agent: agent(state, requester, name),
        on,
    }
}

fn key(requester: &Requester, name: &Arc<str>) -> RoomKey {
    RoomKey {
        engine: requester.engine.instance(),
        caller: requester.caller.id.clone(),
        name: name.to_string(),
    }
}

/// The agent of a room.
fn agent<'a>(state: &'a FaceState, requester: &Requester, name: &str) -> Option<&'a dyn RoomAgent> {
    let agent = state.agent.as_deref()?;
    (agent.room() == name && agent.engine().instance() == requester.engine.instance()).then_some(agent)
}
