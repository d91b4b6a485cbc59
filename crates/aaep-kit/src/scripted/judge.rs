//! Handles what subscribers send: inputs, handshakes, replies. It must not know the transport: each surface says where
//! a message came in, and sends the [`Judgement`] back in its own way.

use std::sync::Arc;

use recount_aaep::negotiate::{self, Answer, Reason, Refusal, Terms};
use recount_aaep::wire::{SubscriptionId, SubscriptionRenegotiate, Timestamp};
use recount_aaep::{Message, build};
use serde_json::{Map, Value};

use super::Fault;
use super::ask::PromptOutcome;
use super::room::Room;
use super::subscription::ProducerSurface;
use super::{play, tamper};
use crate::limits;

/// Where something was said.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// `POST /messages`: nobody says who they are.
    Messages,
    /// `POST /aaep/v1/replies`.
    Replies,
    /// A socket, whose subscription is this.
    Socket { subscription: &'a str, strict: bool },
}

/// What becomes of it.
#[derive(Debug)]
pub(super) enum Judgement {
    /// It was taken in, whatever it does.
    Taken,
    /// A session started.
    Began(String),
    /// There is no room for one more session.
    Full,
    /// It is told in answer, where the transport has answers.
    Answer(String),
    /// It is none of the messages that are taken here.
    Malformed,
    /// Like [`Judgement::Malformed`], told with a reason that a right producer keeps to itself.
    Refused(&'static str),
}

/// A handshake's answer.
pub(super) struct Handshake {
    /// The subscription that was opened.
    pub(super) subscription: Option<String>,
    /// What is told; nothing only when the producer leaves it out.
    pub(super) text: Option<String>,
    /// Why not.
    pub(super) code: Option<Reason>,
}

/// Takes in whatever a subscriber says after its handshake.
pub(super) fn hear(room: &Arc<Room>, text: &str, place: Place<'_>) -> Judgement {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(text) else { return Judgement::Malformed };
    let word = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let drives = !matches!(place, Place::Replies);
    match (word("kind"), word("type")) {
        ("user_input", _) if drives => match begin(room, word("text")) {
            Some(session) => Judgement::Began(session),
            None => Judgement::Full,
        },
        (_, "confirmation.reply" | "clarification.reply") => reply(room, fields, place),
        (_, "subscription.renegotiate") => renegotiate(room, &fields, text, place),
        (_, "subscription.close") => {
            let id = match place {
                Place::Socket { subscription, .. } => subscription,
                _ => word("subscription_id"),
            };
            if !room.is(Fault::EventsAfterClose) {
                room.close(id);
            }
            Judgement::Taken
        }
        (_, "subscription.request") if drives => {
            handshake_again(room, text, place);
            Judgement::Taken
        }
        _ => Judgement::Malformed,
    }
}

/// Begins the session that an input asks for.
pub(super) fn begin(room: &Arc<Room>, text: &str) -> Option<String> {
    room.enter().then(|| {
        room.expect_reader();
        play::begin(room, text)
    })
}

/// A handshake where a stream is there already: it replaces the terms, and the answer comes on the stream.
fn handshake_again(room: &Arc<Room>, text: &str, place: Place<'_>) {
    let ids = match place {
        Place::Socket { subscription, .. } => vec![subscription.to_owned()],
        _ => {
            room.expect_reader();
            room.ids(ProducerSurface::Legacy)
        }
    };
    for id in ids {
        let (answer, code) = match judge(room, text) {
            Ok(terms) => {
                room.change(&id, &terms);
                (accepted(room, &id, &terms), None)
            }
            Err(refusal) => (rejected(&refusal), Some(refusal.code)),
        };
        if !is_silent(room, code) {
            room.with(&id, |sub| sub.append(None, answer));
        }
    }
}

/// Whether a wrong producer leaves a handshake without an answer.
fn is_silent(room: &Room, code: Option<Reason>) -> bool {
    let malformed = matches!(code, Some(Reason::Unknown | Reason::CapabilitiesIncompatible));
    room.is(Fault::HandshakeUnanswered) || (malformed && room.is(Fault::MalformedUnanswered))
}

/// A handshake that opens a subscription.
pub(super) fn handshake(room: &Arc<Room>, text: &str, surface: ProducerSurface) -> Handshake {
    let opened = judge(room, text).and_then(|terms| match room.open(surface, terms.clone()) {
        Some(id) => Ok((id, terms)),
        None => {
            let mut full =
                Refusal::new(Reason::RateLimit, "the limit of subscriptions is reached; retry later");
            full.retry_after_seconds = Some(limits::SCRIPTED_RETRY_SECONDS);
            Err(full)
        }
    });
    let mut answer = match opened {
        Ok((id, terms)) => {
            let text = accepted(room, &id, &terms);
            room.catch_up(&id);
            Handshake { subscription: Some(id), text: Some(text), code: None }
        }
        Err(refusal) => {
            Handshake { subscription: None, code: Some(refusal.code), text: Some(rejected(&refusal)) }
        }
    };
    if is_silent(room, answer.code) {
        answer.text = None;
    }
    answer
}

fn judge(room: &Room, text: &str) -> Result<Terms, Refusal> {
    let altered = room.behaviour.fault.and_then(|fault| tamper::request(fault, text));
    let foreign = || serde_json::from_str::<Value>(text).is_ok_and(|value| has_foreign_capability(&value));
    if room.is(Fault::UnknownCapabilityRejected) && foreign() {
        let message = "the request has an unknown capability";
        return Err(Refusal::new(Reason::CapabilitiesIncompatible, message));
    }
    match negotiate::answer_text(&room.offer(), altered.as_deref().unwrap_or(text)) {
        Answer::Accepted(terms) => Ok(*terms),
        Answer::Rejected(refusal) => Err(refusal),
    }
}

fn has_foreign_capability(request: &Value) -> bool {
    let capabilities = request.get("capabilities").and_then(Value::as_object);
    capabilities
        .is_some_and(|all| all.iter().any(|(name, value)| value.is_object() && name != "event_filters"))
}

fn renegotiate(room: &Arc<Room>, fields: &Map<String, Value>, text: &str, place: Place<'_>) -> Judgement {
    let stated = fields.get("subscription_id").and_then(Value::as_str).unwrap_or_default();
    let id = match place {
        Place::Socket { subscription, .. } => subscription,
        _ => stated,
    };
    let Some(before) = room.with(id, |sub| sub.terms.clone()) else {
        let unknown = Refusal::new(Reason::Unknown, "unknown subscription; request a new one");
        return answer_of(room, id, place, rejected(&unknown));
    };
    let judged = match serde_json::from_str::<SubscriptionRenegotiate>(text) {
        Ok(wish) => negotiate::renegotiate(&room.offer(), &before, &wish.capabilities),
        Err(error) => Answer::Rejected(Refusal::new(
            Reason::Unknown,
            format!("the renegotiation is not valid: {error}"),
        )),
    };
    match judged {
        Answer::Accepted(terms) => {
            if !room.is(Fault::RenegotiateIgnored) {
                room.change(id, &terms);
            }
            if room.is(Fault::RenegotiateUnanswered) {
                return Judgement::Taken;
            }
            answer_of(room, id, place, accepted(room, id, &terms))
        }
        Answer::Rejected(refusal) => {
            let verdict = answer_of(room, id, place, rejected(&refusal));
            // The protocol ends a subscription whose new terms are refused; the reader still gets the answer.
            if let Place::Replies = place {
                room.close(id);
            } else {
                room.with(id, |sub| sub.ending = true);
            }
            verdict
        }
    }
}

/// In the answer where there is one, else on the stream.
fn answer_of(room: &Room, id: &str, place: Place<'_>, text: String) -> Judgement {
    match place {
        Place::Replies => Judgement::Answer(text),
        _ => {
            room.with(id, |sub| sub.append(None, text));
            Judgement::Taken
        }
    }
}

/// Every reply that is one is answered alike, whatever it does: who forges replies learns nothing.
fn reply(room: &Arc<Room>, mut fields: Map<String, Value>, place: Place<'_>) -> Judgement {
    let effect = effect(room, &mut fields, place);
    if room.is(Fault::ReplyReveals) && effect.is_none() {
        return Judgement::Refused("this reply has no effect: its token is unknown, used, or not yours");
    }
    if let Some((token, outcome)) = effect
        && let Some(open) = room.take(&token)
    {
        open.settle(outcome);
        room.tick();
    }
    Judgement::Taken
}

/// Which prompt it settles, and how.
fn effect(room: &Room, fields: &mut Map<String, Value>, place: Place<'_>) -> Option<(String, PromptOutcome)> {
    let now = room.now_ms();
    if !matches!(place, Place::Replies | Place::Socket { strict: true, .. }) {
        // Who speaks the de-facto way knows no subscription, and some tell no time.
        fields.entry("subscription_id").or_insert_with(|| "sub_room".into());
        let moment = Timestamp::of_millis(i64::try_from(now).ok()?);
        fields.entry("timestamp").or_insert_with(|| moment.as_str().into());
    }
    let message = Message::parse(&Value::Object(fields.clone()).to_string()).ok()?;
    // Who takes any decision does not look at which there are.
    let message =
        if room.is(Fault::AllowedRepliesIgnored) { message } else { build::message(message).ok()? };
    let (token, stated, timestamp) = match &message {
        Message::ConfirmationReply(reply) => (&reply.reply_token, &reply.subscription_id, &reply.timestamp),
        Message::ClarificationReply(reply) => (&reply.reply_token, &reply.subscription_id, &reply.timestamp),
        _ => return None,
    };
    // What the clock of the subscriber says is looked at and not believed: time runs by ours.
    let skew = i64::try_from(now).ok()? - timestamp.millis();
    if skew.abs() > limits::SCRIPTED_REPLY_SKEW_MS {
        return None;
    }
    let mut state = room.lock();
    let forged = room.is(Fault::ForgedReplyTaken);
    let open = match state.prompts.iter().find(|open| open.token == token.as_str()) {
        None if forged => state.prompts.last()?,
        found => found?,
    };
    if now >= open.deadline_ms {
        return None;
    }
    let has = |id: &str| open.sent_to.iter().any(|sub| sub == id);
    let known = |id: &str| state.subscriptions.iter().any(|sub| sub.id == id);
    let entitled = match place {
        // A room has one name; only who names a subscription that did not get the prompt is a stranger.
        Place::Messages => has(stated.as_str()) || !known(stated.as_str()),
        Place::Replies => has(stated.as_str()),
        Place::Socket { subscription, strict } => {
            has(subscription) && (stated.as_str() == subscription || !(strict || known(stated.as_str())))
        }
    };
    if !entitled && !room.is(Fault::StrangersReplyTaken) {
        return None;
    }
    let outcome = match &message {
        Message::ConfirmationReply(reply) => open.decided(reply, &room.behaviour),
        Message::ClarificationReply(reply) => open.answered(reply, &room.behaviour),
        _ => None,
    }?;
    let token = open.token.clone();
    state.answerer = Some(match place {
        Place::Socket { subscription, .. } => subscription.to_owned(),
        _ => stated.as_str().to_owned(),
    });
    Some((token, outcome))
}

fn accepted(room: &Room, id: &str, terms: &Terms) -> String {
    let id = SubscriptionId::new(id).unwrap_or_else(|error| unreachable!("drawn here: {error}"));
    let text = Message::from(terms.to_message(&room.offer(), id)).to_json();
    match room.behaviour.fault {
        None => text,
        Some(fault) => tamper::accepted(fault, terms.asked(), text),
    }
}

fn rejected(refusal: &Refusal) -> String {
    Message::from(refusal.to_message()).to_json()
}
