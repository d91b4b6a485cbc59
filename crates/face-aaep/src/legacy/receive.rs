//! Handles messages to a room: replies, inputs for its agent, and handshakes, whose responses are sent on the streams
//! of the room.
//!
//! Replies are handled as all replies of the face, after missing fields are filled in. The response does not depend on
//! the effect of a reply. Start with [`receive`].

use std::sync::Arc;

use recount_aaep::Message;
use recount_aaep::negotiate::{self, HandshakeOutcome, Offer, Terms};
use recount_aaep::wire::SubscriptionId;
use recount_aaep_host::{Problem, Reply, response};
use recount_engine::{Caller, Engine, Error, Scope};
use serde_json::{Map, Value, json};

use super::room::{Room, RoomKey, RoomReader, Rooms};
use super::{RoomAgent, compat};
use crate::manifest;
use crate::replies;
use crate::reply_state::PromptReply;
use crate::subscription::Subscriptions;

/// A caller in a room.
pub(crate) struct RoomCaller<'a> {
    pub(crate) rooms: &'a Rooms,
    pub(crate) subscriptions: &'a Subscriptions,
    pub(crate) engine: &'a Engine,
    pub(crate) caller: &'a Caller,
    pub(crate) key: RoomKey,
    /// The agent of the room, if it has one.
    pub(crate) agent: Option<&'a dyn RoomAgent>,
    /// The stream of the message's WebSocket, if it came on one.
    pub(crate) on: Option<Arc<RoomReader>>,
}

/// Handles a message.
pub(crate) async fn receive(from: RoomCaller<'_>, text: &str) -> Reply {
    let Ok(Value::Object(sent)) = serde_json::from_str(text) else {
        return Reply::Refused(Problem::Malformed);
    };
    let word = |name: &str| sent.get(name).and_then(Value::as_str).unwrap_or_default();
    match (word("type"), word("kind")) {
        (kind, _) if compat::is_reply(kind) => reply(&from, &sent),
        ("subscription.request", _) => handshake(&from, |offer, _| negotiate::evaluate_text(offer, text)),
        ("subscription.renegotiate", _) => match Message::parse(text) {
            Ok(Message::SubscriptionRenegotiate(wish)) => {
                handshake(&from, |offer, terms| negotiate::renegotiate(offer, terms, &wish.capabilities))
            }
            _ => Reply::Refused(Problem::Malformed),
        },
        ("subscription.close", _) => {
            if let Some(reader) = &from.on {
                from.subscriptions.close(&reader.subscription);
            }
            Reply::Accepted
        }
        (_, "user_input") => begin(&from, word("text")).await,
        _ => Reply::Refused(Problem::Malformed),
    }
}

/// Starts a session as old drivers do: `{"user_message": …}`.
pub(crate) async fn start(from: RoomCaller<'_>, text: &str) -> Reply {
    let sent: Value = serde_json::from_str(text).unwrap_or_default();
    match sent.get("user_message").and_then(Value::as_str) {
        Some(input) => begin(&from, input).await,
        None => Reply::Refused(Problem::Malformed),
    }
}

impl RoomCaller<'_> {
    fn room(&self) -> Option<Arc<Room>> {
        self.rooms.find(&self.key)
    }

    /// The reader that sent a reply: that of its WebSocket, or the one that was shown the prompt.
    fn reader(&self, token: &str) -> Option<Arc<RoomReader>> {
        if self.on.is_some() {
            return self.on.clone();
        }
        let readers = self.room()?.readers();
        let has_it =
            |reader: &&Arc<RoomReader>| reader.shown().is_some_and(|shown| shown.token.as_str() == token);
        readers.iter().find(has_it).or(readers.first()).cloned()
    }
}

fn reply(from: &RoomCaller<'_>, sent: &Map<String, Value>) -> Reply {
    // Without readers no prompt was shown.
    let token = sent.get("reply_token").and_then(Value::as_str).unwrap_or_default();
    let Some(reader) = from.reader(token) else { return Reply::Accepted };
    let subscription = &reader.subscription;
    let now_ms = from.engine.world().clock.now_ms();
    let choices = reader.shown().map(|shown| shown.choices).unwrap_or_default();
    match compat::whole_reply(sent, subscription.id(), now_ms, &choices) {
        Some(Message::ConfirmationReply(reply)) => {
            replies::receive(subscription, PromptReply::Confirmation(*reply));
        }
        Some(Message::ClarificationReply(reply)) => {
            replies::receive(subscription, PromptReply::Clarification(*reply));
        }
        _ => tracing::debug!("a reply to a shared stream was ignored"),
    }
    Reply::Accepted
}

/// Handles a handshake. Its terms apply to the whole room, also to later readers.
fn handshake(from: &RoomCaller<'_>, answer: impl FnOnce(&Offer, &Terms) -> HandshakeOutcome) -> Reply {
    let offer = manifest::offer();
    let Some(room) = from.room() else { return Reply::Accepted };
    let agreed = room.terms().unwrap_or_else(|| Terms::implied(&offer));
    let answer = answer(&offer, &agreed);
    if let HandshakeOutcome::Accepted(terms) = &answer {
        room.change_terms(terms);
    }
    let text = |id: &SubscriptionId| {
        let text = match &answer {
            HandshakeOutcome::Accepted(terms) => serde_json::to_string(&terms.to_message(&offer, id.clone())),
            HandshakeOutcome::Rejected(refusal) => serde_json::to_string(&refusal.to_message()),
        };
        text.unwrap_or_default()
    };
    // The response is sent to the requesting WebSocket, otherwise to every stream of the room.
    if let Some(reader) = &from.on {
        return Reply::Message(text(reader.subscription.id()));
    }
    room.readers().iter().for_each(|reader| reader.send(text(reader.subscription.id())));
    Reply::Accepted
}

/// Starts a run of the room's agent.
async fn begin(from: &RoomCaller<'_>, input: &str) -> Reply {
    let Some(agent) = from.agent else {
        let why = "no agent for these runs accepts input here; start runs with POST /v1/runs";
        return Reply::Response(response::error(http::StatusCode::CONFLICT, "no_agent", why));
    };
    if !from.caller.may(Scope::Run) {
        let why = "starting a run requires the scope run; use a token that has it";
        return Reply::Response(response::error(http::StatusCode::FORBIDDEN, "scope_missing", why));
    }
    if from.subscriptions.count() == 0 {
        // A client opens its stream and sends the first input at the same time; the stream has all events in either
        // order.
        from.rooms.has_reader(&from.key).await;
    }
    match agent.begin(input).await {
        Ok(run) => {
            let session = crate::project::session_id(run);
            Reply::Started(json!({ "session_id": session.as_str() }).to_string())
        }
        Err(error) => Reply::Response(unavailable(&error)),
    }
}

fn unavailable(error: &Error) -> axum::response::Response {
    tracing::warn!(%error, "the agent of a shared stream cannot start a run");
    let why = "the run could not be started; try again shortly";
    response::error(http::StatusCode::SERVICE_UNAVAILABLE, "unavailable", why)
}
