//! Handles messages from subscribers: inputs, handshakes, replies. It does not depend on the transport: each surface
//! passes the source of a message and sends the [`MessageResult`] back in its own way.

use std::sync::Arc;

use recount_aaep::negotiate::{self, HandshakeOutcome, Reason, Refusal, Terms};
use recount_aaep::wire::{SubscriptionId, SubscriptionRenegotiate, Timestamp};
use recount_aaep::{Message, build};
use serde_json::{Map, Value};

use super::Fault;
use super::hub::Hub;
use super::open_prompt::PromptOutcome;
use super::subscription::ProducerSurface;
use super::{play, tamper};
use crate::limits;

/// Where a message arrived.
#[derive(Debug, Clone, Copy)]
pub(super) enum MessageSource<'a> {
    /// `POST /messages`, without a sender id.
    Messages,
    /// `POST /aaep/v1/replies`.
    Replies,
    /// A WebSocket of this subscription.
    Socket { subscription: &'a str, strict: bool },
}

/// The result of a message.
#[derive(Debug)]
pub(super) enum MessageResult {
    /// Accepted, whether or not it has an effect.
    Accepted,
    /// A session started.
    Started(String),
    /// The limit of sessions is reached.
    Full,
    /// A response, if the transport has responses.
    Response(String),
    /// Not a message that is accepted here.
    Malformed,
    /// Like [`MessageResult::Malformed`], with a reason that a correct producer does not reveal.
    Refused(&'static str),
}

/// The result of a handshake.
pub(super) struct HandshakeResult {
    /// The subscription that was opened.
    pub(super) subscription: Option<String>,
    /// The response; `None` if the producer omits it.
    pub(super) text: Option<String>,
    /// The reason of a rejection.
    pub(super) code: Option<Reason>,
}

/// Handles a message that is sent after the handshake.
pub(super) fn receive_message(hub: &Arc<Hub>, text: &str, source: MessageSource<'_>) -> MessageResult {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(text) else {
        return MessageResult::Malformed;
    };
    let word = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let drives = !matches!(source, MessageSource::Replies);
    match (word("kind"), word("type")) {
        ("user_input", _) if drives => match begin(hub, word("text")) {
            Some(session) => MessageResult::Started(session),
            None => MessageResult::Full,
        },
        (_, "confirmation.reply" | "clarification.reply") => reply(hub, fields, source),
        (_, "subscription.renegotiate") => renegotiate(hub, &fields, text, source),
        (_, "subscription.close") => {
            let id = match source {
                MessageSource::Socket { subscription, .. } => subscription,
                _ => word("subscription_id"),
            };
            if !hub.is(Fault::EventsAfterClose) {
                hub.close(id);
            }
            MessageResult::Accepted
        }
        (_, "subscription.request") if drives => {
            handshake_again(hub, text, source);
            MessageResult::Accepted
        }
        _ => MessageResult::Malformed,
    }
}

/// Starts the session that an input requests.
pub(super) fn begin(hub: &Arc<Hub>, text: &str) -> Option<String> {
    hub.try_start_session().then(|| {
        hub.reserve_stream();
        play::begin(hub, text)
    })
}

/// Handles a handshake on an existing stream: it replaces the terms, and the response is sent on the stream.
fn handshake_again(hub: &Arc<Hub>, text: &str, source: MessageSource<'_>) {
    let ids = match source {
        MessageSource::Socket { subscription, .. } => vec![subscription.to_owned()],
        _ => {
            hub.reserve_stream();
            hub.ids(ProducerSurface::Legacy)
        }
    };
    for id in ids {
        let (answer, code) = match evaluate_request(hub, text) {
            Ok(terms) => {
                hub.change(&id, &terms);
                (accepted(hub, &id, &terms), None)
            }
            Err(refusal) => (rejected(&refusal), Some(refusal.code)),
        };
        if !is_silent(hub, code) {
            hub.with(&id, |sub| sub.append(None, answer));
        }
    }
}

/// Whether a fault omits the response to this handshake.
fn is_silent(hub: &Hub, code: Option<Reason>) -> bool {
    let malformed = matches!(code, Some(Reason::Unknown | Reason::CapabilitiesIncompatible));
    hub.is(Fault::HandshakeUnanswered) || (malformed && hub.is(Fault::MalformedUnanswered))
}

/// Handles a handshake that opens a subscription.
pub(super) fn handshake(hub: &Arc<Hub>, text: &str, surface: ProducerSurface) -> HandshakeResult {
    let opened = evaluate_request(hub, text).and_then(|terms| match hub.open(surface, terms.clone()) {
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
            let text = accepted(hub, &id, &terms);
            hub.catch_up(&id);
            HandshakeResult { subscription: Some(id), text: Some(text), code: None }
        }
        Err(refusal) => {
            HandshakeResult { subscription: None, code: Some(refusal.code), text: Some(rejected(&refusal)) }
        }
    };
    if is_silent(hub, answer.code) {
        answer.text = None;
    }
    answer
}

fn evaluate_request(hub: &Hub, text: &str) -> Result<Terms, Refusal> {
    let altered = hub.behaviour.fault.and_then(|fault| tamper::request(fault, text));
    let foreign = || serde_json::from_str::<Value>(text).is_ok_and(|value| has_foreign_capability(&value));
    if hub.is(Fault::UnknownCapabilityRejected) && foreign() {
        let message = "the request has an unknown capability";
        return Err(Refusal::new(Reason::CapabilitiesIncompatible, message));
    }
    match negotiate::evaluate_text(&hub.offer(), altered.as_deref().unwrap_or(text)) {
        HandshakeOutcome::Accepted(terms) => Ok(*terms),
        HandshakeOutcome::Rejected(refusal) => Err(refusal),
    }
}

fn has_foreign_capability(request: &Value) -> bool {
    let capabilities = request.get("capabilities").and_then(Value::as_object);
    capabilities
        .is_some_and(|all| all.iter().any(|(name, value)| value.is_object() && name != "event_filters"))
}

fn renegotiate(
    hub: &Arc<Hub>,
    fields: &Map<String, Value>,
    text: &str,
    source: MessageSource<'_>,
) -> MessageResult {
    let stated = fields.get("subscription_id").and_then(Value::as_str).unwrap_or_default();
    let id = match source {
        MessageSource::Socket { subscription, .. } => subscription,
        _ => stated,
    };
    let Some(before) = hub.with(id, |sub| sub.terms.clone()) else {
        let unknown = Refusal::new(Reason::Unknown, "unknown subscription; request a new one");
        return answer_of(hub, id, source, rejected(&unknown));
    };
    let renegotiated = match serde_json::from_str::<SubscriptionRenegotiate>(text) {
        Ok(wish) => negotiate::renegotiate(&hub.offer(), &before, &wish.capabilities),
        Err(error) => HandshakeOutcome::Rejected(Refusal::new(
            Reason::Unknown,
            format!("the renegotiation is not valid: {error}"),
        )),
    };
    match renegotiated {
        HandshakeOutcome::Accepted(terms) => {
            if !hub.is(Fault::RenegotiateIgnored) {
                hub.change(id, &terms);
            }
            if hub.is(Fault::RenegotiateUnanswered) {
                return MessageResult::Accepted;
            }
            answer_of(hub, id, source, accepted(hub, id, &terms))
        }
        HandshakeOutcome::Rejected(refusal) => {
            let verdict = answer_of(hub, id, source, rejected(&refusal));
            // The protocol ends a subscription whose new terms are rejected; the reader still gets the response.
            if let MessageSource::Replies = source {
                hub.close(id);
            } else {
                hub.with(id, |sub| sub.ending = true);
            }
            verdict
        }
    }
}

/// Responds directly if the transport allows it, otherwise on the stream.
fn answer_of(hub: &Hub, id: &str, source: MessageSource<'_>, text: String) -> MessageResult {
    match source {
        MessageSource::Replies => MessageResult::Response(text),
        _ => {
            hub.with(id, |sub| sub.append(None, text));
            MessageResult::Accepted
        }
    }
}

/// Every well-formed reply gets the same response, whatever its effect, so that forged replies reveal nothing.
fn reply(hub: &Arc<Hub>, mut fields: Map<String, Value>, source: MessageSource<'_>) -> MessageResult {
    let effect = effect(hub, &mut fields, source);
    if hub.is(Fault::ReplyReveals) && effect.is_none() {
        return MessageResult::Refused("this reply has no effect: its token is unknown, used, or not yours");
    }
    if let Some((token, outcome)) = effect
        && let Some(open) = hub.take(&token)
    {
        open.settle(outcome);
        hub.tick();
    }
    MessageResult::Accepted
}

/// The prompt that a reply settles, and the outcome.
fn effect(
    hub: &Hub,
    fields: &mut Map<String, Value>,
    source: MessageSource<'_>,
) -> Option<(String, PromptOutcome)> {
    let now = hub.now_ms();
    if !matches!(source, MessageSource::Replies | MessageSource::Socket { strict: true, .. }) {
        // Clients of the de-facto surface have no subscription id, and some omit the timestamp.
        fields.entry("subscription_id").or_insert_with(|| "sub_room".into());
        let moment = Timestamp::of_millis(i64::try_from(now).ok()?);
        fields.entry("timestamp").or_insert_with(|| moment.as_str().into());
    }
    let message = Message::parse(&Value::Object(fields.clone()).to_string()).ok()?;
    // This fault ignores the allowed decisions.
    let message =
        if hub.is(Fault::AllowedRepliesIgnored) { message } else { build::message(message).ok()? };
    let (token, stated, timestamp) = match &message {
        Message::ConfirmationReply(reply) => (&reply.reply_token, &reply.subscription_id, &reply.timestamp),
        Message::ClarificationReply(reply) => (&reply.reply_token, &reply.subscription_id, &reply.timestamp),
        _ => return None,
    };
    // The subscriber's timestamp is only compared; the local clock decides about timeouts.
    let skew = i64::try_from(now).ok()? - timestamp.millis();
    if skew.abs() > limits::SCRIPTED_REPLY_SKEW_MS {
        return None;
    }
    let mut state = hub.lock();
    let forged = hub.is(Fault::ForgedReplyTaken);
    let open = match state.prompts.iter().find(|open| open.token == token.as_str()) {
        None if forged => state.prompts.last()?,
        found => found?,
    };
    if now >= open.deadline_ms {
        return None;
    }
    let has = |id: &str| open.sent_to.iter().any(|sub| sub == id);
    let known = |id: &str| state.subscriptions.iter().any(|sub| sub.id == id);
    let entitled = match source {
        // The shared subscription has one name; only another subscription that did not get the prompt is a stranger.
        MessageSource::Messages => has(stated.as_str()) || !known(stated.as_str()),
        MessageSource::Replies => has(stated.as_str()),
        MessageSource::Socket { subscription, strict } => {
            has(subscription) && (stated.as_str() == subscription || !(strict || known(stated.as_str())))
        }
    };
    if !entitled && !hub.is(Fault::StrangersReplyTaken) {
        return None;
    }
    let outcome = match &message {
        Message::ConfirmationReply(reply) => open.decided(reply, &hub.behaviour),
        Message::ClarificationReply(reply) => open.answered(reply, &hub.behaviour),
        _ => None,
    }?;
    let token = open.token.clone();
    state.answerer = Some(match source {
        MessageSource::Socket { subscription, .. } => subscription.to_owned(),
        _ => stated.as_str().to_owned(),
    });
    Some((token, outcome))
}

fn accepted(hub: &Hub, id: &str, terms: &Terms) -> String {
    let id = SubscriptionId::new(id).unwrap_or_else(|error| unreachable!("drawn here: {error}"));
    let text = Message::from(terms.to_message(&hub.offer(), id)).to_json();
    match hub.behaviour.fault {
        None => text,
        Some(fault) => tamper::accepted(fault, terms.requested(), text),
    }
}

fn rejected(refusal: &Refusal) -> String {
    Message::from(refusal.to_message()).to_json()
}
