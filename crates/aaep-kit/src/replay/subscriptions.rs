//! Subscriptions of a replay: one that all listeners share on the de-facto surface, with responses on the stream, and
//! one each on the specification's surface. A replay filters and paces as agreed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use recount_world::World;
use tokio::sync::watch;

use super::lock::lock;
use super::script::ReplayScript;
use crate::aaep::Message;
use crate::aaep::negotiate::{self, HandshakeOutcome, Offer, Refusal, Terms};
use crate::aaep::wire::{Capabilities, Producer, SubscriptionId};
use crate::limits;

/// All subscriptions.
#[derive(Default)]
pub(super) struct ReplaySubscriptions {
    answers: Mutex<SharedResponses>,
    /// The terms of the shared subscription; without a handshake there are none, and everything is sent.
    terms: Mutex<Option<Arc<Terms>>>,
    subscriptions: Mutex<BTreeMap<String, AgreedSubscription>>,
    /// Changes with each response and each change of terms.
    pub(super) changed: watch::Sender<u64>,
}

/// One subscription.
struct AgreedSubscription {
    terms: Arc<Terms>,
    /// Its number among all accepted ones, from 0.
    number: u64,
    /// Open streams.
    listeners: usize,
}

/// Responses that are sent on the shared streams.
#[derive(Default)]
struct SharedResponses {
    kept: VecDeque<Arc<str>>,
    /// The number of the first kept response.
    first: u64,
    /// The first response that was published without any listener.
    first_unread: Option<u64>,
    listeners: usize,
}

/// The subscription that a listener reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReaderChannel {
    /// The shared one, with the number of the next response to read.
    Shared(u64),
    Subscription(String),
}

/// A response to a handshake as it is sent, with the reason if it is a rejection.
pub(super) struct SubscriptionResponse {
    pub(super) text: String,
    pub(super) id: Option<String>,
    pub(super) refusal: Option<Refusal>,
}

/// The note for the user about the limits of accepted terms.
const NOTE: &str = "This is a replay of a recording: texts, languages and the events after a reply are as recorded. If a \
     rate was requested, events are held and joined.";

/// The capabilities that a replay of this recording offers.
fn offer(script: &ReplayScript) -> Offer {
    let recorded = script.producer.as_deref().and_then(|text| serde_json::from_str::<Producer>(text).ok());
    let language = script.languages.first().map_or("en-US", String::as_str);
    let mut offer = Offer::new(recorded.unwrap_or_else(|| Producer::named("recount-replay")), language);
    offer.languages.extend(script.languages.iter().skip(1).cloned());
    offer.level = 2;
    offer
}

/// Builds the response, and the terms if it is an acceptance.
fn build_response(
    answer: HandshakeOutcome,
    offer: &Offer,
    id: &str,
) -> (SubscriptionResponse, Option<Arc<Terms>>) {
    let terms = match answer {
        HandshakeOutcome::Accepted(terms) => terms,
        HandshakeOutcome::Rejected(refusal) => {
            let text = Message::from(refusal.to_message()).to_json();
            return (SubscriptionResponse { text, id: None, refusal: Some(refusal) }, None);
        }
    };
    let wire = SubscriptionId::new(id).unwrap_or_else(|why| unreachable!("digits are no fault: {why}"));
    let mut accepted = terms.to_message(offer, wire);
    let notes = accepted.negotiation_notes.take().into_iter().chain([NOTE.to_owned()]);
    accepted.negotiation_notes = Some(notes.collect::<Vec<_>>().join(" ").chars().take(4_096).collect());
    let text = Message::from(accepted).to_json();
    (SubscriptionResponse { text, id: Some(id.to_owned()), refusal: None }, Some(Arc::new(*terms)))
}

impl ReplaySubscriptions {
    /// Answers a request with a new subscription.
    pub(super) fn subscribe(
        &self,
        world: &World,
        script: &ReplayScript,
        request: &str,
    ) -> SubscriptionResponse {
        let mut offer = offer(script);
        let id = format!("sub_{:032x}", world.entropy.draw());
        let mut subscriptions = lock(&self.subscriptions);
        let full = subscriptions.len() >= limits::REPLAY_SUBSCRIPTIONS_MAX;
        let silent = subscriptions.iter().filter(|(_, one)| one.listeners == 0);
        let oldest = silent.min_by_key(|(_, one)| one.number).map(|(id, _)| id.clone()).filter(|_| full);
        if full && oldest.is_none() {
            offer.full = Some(limits::REPLAY_FULL_RETRY_SECONDS);
        }
        let (answered, terms) = build_response(negotiate::evaluate_text(&offer, request), &offer, &id);
        if let Some(terms) = terms {
            let number = subscriptions.values().map(|one| one.number + 1).max().unwrap_or_default();
            oldest.and_then(|oldest| subscriptions.remove(&oldest));
            subscriptions.insert(id, AgreedSubscription { terms, number, listeners: 0 });
        }
        answered
    }

    /// Renegotiates a subscription; `None` if it is unknown. A rejection ends it.
    pub(super) fn renegotiate(
        &self,
        script: &ReplayScript,
        id: &str,
        requested: &Capabilities,
    ) -> Option<SubscriptionResponse> {
        let mut subscriptions = lock(&self.subscriptions);
        let subscription = subscriptions.get_mut(id)?;
        let offer = offer(script);
        let (answered, terms) =
            build_response(negotiate::renegotiate(&offer, &subscription.terms, requested), &offer, id);
        match terms {
            Some(terms) => subscription.terms = terms,
            None => drop(subscriptions.remove(id)),
        }
        drop(subscriptions);
        self.notify_changed();
        Some(answered)
    }

    /// Ends a subscription; returns whether it existed.
    pub(super) fn close(&self, id: &str) -> bool {
        let existed = lock(&self.subscriptions).remove(id).is_some();
        self.notify_changed();
        existed
    }

    pub(super) fn has_subscription(&self, id: &str) -> bool {
        lock(&self.subscriptions).contains_key(id)
    }

    /// Answers a request for the shared subscription: its terms apply to all listeners, and the response is sent on
    /// the stream.
    pub(super) fn request_shared(&self, world: &World, script: &ReplayScript, request: &str) {
        let offer = offer(script);
        let id = format!("sub_{:032x}", world.entropy.draw());
        let (answered, terms) = build_response(negotiate::evaluate_text(&offer, request), &offer, &id);
        if let Some(terms) = terms {
            *lock(&self.terms) = Some(terms);
        }
        self.publish_response(answered.text);
    }

    /// Renegotiates the shared subscription.
    pub(super) fn renegotiate_shared(&self, script: &ReplayScript, id: &str, requested: &Capabilities) {
        let offer = offer(script);
        let mut terms = lock(&self.terms);
        let before = terms.clone().unwrap_or_else(|| Arc::new(Terms::implied(&offer)));
        let (answered, after) =
            build_response(negotiate::renegotiate(&offer, &before, requested), &offer, id);
        *terms = after.or(Some(before));
        drop(terms);
        self.publish_response(answered.text);
    }

    fn publish_response(&self, text: String) {
        let mut answers = lock(&self.answers);
        let number = answers.next();
        if answers.listeners == 0 {
            answers.first_unread.get_or_insert(number);
        }
        answers.kept.push_back(text.into());
        if answers.kept.len() > limits::REPLAY_ANSWERS_KEPT {
            answers.kept.pop_front();
            answers.first += 1;
        }
        drop(answers);
        self.notify_changed();
    }

    /// Adds a listener to the shared subscription, starting at the first unread response.
    pub(super) fn add_listener(&self) -> ReaderChannel {
        let mut answers = lock(&self.answers);
        answers.listeners += 1;
        let next = answers.next();
        ReaderChannel::Shared(answers.first_unread.take().unwrap_or(next))
    }

    /// Adds a listener to a subscription; `None` if it is unknown.
    pub(super) fn resume(&self, id: &str) -> Option<ReaderChannel> {
        lock(&self.subscriptions).get_mut(id)?.listeners += 1;
        Some(ReaderChannel::Subscription(id.to_owned()))
    }

    pub(super) fn remove_listener(&self, channel: &ReaderChannel) {
        match channel {
            ReaderChannel::Shared(_) => lock(&self.answers).listeners -= 1,
            ReaderChannel::Subscription(id) => {
                if let Some(subscription) = lock(&self.subscriptions).get_mut(id) {
                    subscription.listeners -= 1;
                }
            }
        }
    }

    /// The next response for a listener.
    pub(super) fn answer(&self, channel: &mut ReaderChannel) -> Option<Arc<str>> {
        let ReaderChannel::Shared(next) = channel else { return None };
        let answers = lock(&self.answers);
        *next = (*next).max(answers.first);
        let at = usize::try_from(*next - answers.first).ok()?;
        let answer = answers.kept.get(at).cloned()?;
        *next += 1;
        Some(answer)
    }

    /// The terms of a listener, or `None` inside if everything is sent; outer `None` if the subscription has ended.
    pub(super) fn terms(&self, channel: &ReaderChannel) -> Option<Option<Arc<Terms>>> {
        match channel {
            ReaderChannel::Shared(_) => Some(lock(&self.terms).clone()),
            ReaderChannel::Subscription(id) => {
                lock(&self.subscriptions).get(id).map(|one| Some(one.terms.clone()))
            }
        }
    }

    fn notify_changed(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl SharedResponses {
    fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }
}
