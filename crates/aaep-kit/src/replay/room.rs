//! Agreements of a replay with its subscribers: one shared room on the de-facto surface, where answers come on the
//! stream, and one subscription each on the specification's surface. A replay filters and paces as agreed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use recount_world::World;
use tokio::sync::watch;

use super::lock::lock;
use super::script::ReplayScript;
use crate::aaep::Message;
use crate::aaep::negotiate::{self, Answer, Offer, Refusal, Terms};
use crate::aaep::wire::{Capabilities, Producer, SubscriptionId};
use crate::limits;

/// All that was agreed.
#[derive(Default)]
pub(super) struct ReplayRoom {
    answers: Mutex<Answers>,
    /// Of the room; without a handshake there are none, and all is said.
    terms: Mutex<Option<Arc<Terms>>>,
    subscriptions: Mutex<BTreeMap<String, Agreement>>,
    /// Changes with each answer and each change of terms.
    pub(super) changed: watch::Sender<u64>,
}

/// What was agreed with one subscriber.
struct Agreement {
    terms: Arc<Terms>,
    /// Of all that were accepted, from 0.
    number: u64,
    /// Streams that are open.
    listeners: usize,
}

/// Answers that go onto the room's streams.
#[derive(Default)]
struct Answers {
    kept: VecDeque<Arc<str>>,
    /// The number of the first that is kept.
    first: u64,
    /// The first that came when nobody was there to hear it.
    unheard: Option<u64>,
    listeners: usize,
}

/// Where a listener is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Door {
    /// The room, and the number of the next answer to hear.
    Room(u64),
    Subscription(String),
}

/// An answer to a handshake, as it goes over the wire; why it was no, if it was.
pub(super) struct Answered {
    pub(super) text: String,
    pub(super) id: Option<String>,
    pub(super) refusal: Option<Refusal>,
}

/// What a person should know who is told that their wishes are honoured.
const NOTE: &str = "This is a replay of a recording: texts, languages and the events after a reply are as recorded. If a \
     rate was requested, events are held and joined.";

/// What a replay of this recording can do.
fn offer(script: &ReplayScript) -> Offer {
    let recorded = script.producer.as_deref().and_then(|text| serde_json::from_str::<Producer>(text).ok());
    let language = script.languages.first().map_or("en-US", String::as_str);
    let mut offer = Offer::new(recorded.unwrap_or_else(|| Producer::named("recount-replay")), language);
    offer.languages.extend(script.languages.iter().skip(1).cloned());
    offer.level = 2;
    offer
}

/// Words the answer; with the terms, if it is a yes.
fn worded(answer: Answer, offer: &Offer, id: &str) -> (Answered, Option<Arc<Terms>>) {
    let terms = match answer {
        Answer::Accepted(terms) => terms,
        Answer::Rejected(refusal) => {
            let text = Message::from(refusal.to_message()).to_json();
            return (Answered { text, id: None, refusal: Some(refusal) }, None);
        }
    };
    let wire = SubscriptionId::new(id).unwrap_or_else(|why| unreachable!("digits are no fault: {why}"));
    let mut accepted = terms.to_message(offer, wire);
    let notes = accepted.negotiation_notes.take().into_iter().chain([NOTE.to_owned()]);
    accepted.negotiation_notes = Some(notes.collect::<Vec<_>>().join(" ").chars().take(4_096).collect());
    let text = Message::from(accepted).to_json();
    (Answered { text, id: Some(id.to_owned()), refusal: None }, Some(Arc::new(*terms)))
}

impl ReplayRoom {
    /// Answers a request on a stream of its own; what was agreed is remembered under a new id.
    pub(super) fn subscribe(&self, world: &World, script: &ReplayScript, request: &str) -> Answered {
        let mut offer = offer(script);
        let id = format!("sub_{:032x}", world.entropy.draw());
        let mut subscriptions = lock(&self.subscriptions);
        let full = subscriptions.len() >= limits::REPLAY_SUBSCRIPTIONS_MAX;
        let silent = subscriptions.iter().filter(|(_, one)| one.listeners == 0);
        let oldest = silent.min_by_key(|(_, one)| one.number).map(|(id, _)| id.clone()).filter(|_| full);
        if full && oldest.is_none() {
            offer.full = Some(limits::REPLAY_FULL_RETRY_SECONDS);
        }
        let (answered, terms) = worded(negotiate::answer_text(&offer, request), &offer, &id);
        if let Some(terms) = terms {
            let number = subscriptions.values().map(|one| one.number + 1).max().unwrap_or_default();
            oldest.and_then(|oldest| subscriptions.remove(&oldest));
            subscriptions.insert(id, Agreement { terms, number, listeners: 0 });
        }
        answered
    }

    /// A subscriber changes its mind; `None` when there is no such subscription. A no ends it.
    pub(super) fn renegotiate(
        &self,
        script: &ReplayScript,
        id: &str,
        wish: &Capabilities,
    ) -> Option<Answered> {
        let mut subscriptions = lock(&self.subscriptions);
        let subscription = subscriptions.get_mut(id)?;
        let offer = offer(script);
        let (answered, terms) = worded(negotiate::renegotiate(&offer, &subscription.terms, wish), &offer, id);
        match terms {
            Some(terms) => subscription.terms = terms,
            None => drop(subscriptions.remove(id)),
        }
        drop(subscriptions);
        self.stir();
        Some(answered)
    }

    /// Ends a subscription; whether it was there.
    pub(super) fn close(&self, id: &str) -> bool {
        let was_there = lock(&self.subscriptions).remove(id).is_some();
        self.stir();
        was_there
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        lock(&self.subscriptions).contains_key(id)
    }

    /// Answers a request in the room: its terms hold for all who listen there, and the answer comes on the stream.
    pub(super) fn arrange(&self, world: &World, script: &ReplayScript, request: &str) {
        let offer = offer(script);
        let id = format!("sub_{:032x}", world.entropy.draw());
        let (answered, terms) = worded(negotiate::answer_text(&offer, request), &offer, &id);
        if let Some(terms) = terms {
            *lock(&self.terms) = Some(terms);
        }
        self.publish(answered.text);
    }

    /// A listener in the room changes its terms.
    pub(super) fn rearrange(&self, script: &ReplayScript, id: &str, wish: &Capabilities) {
        let offer = offer(script);
        let mut terms = lock(&self.terms);
        let before = terms.clone().unwrap_or_else(|| Arc::new(Terms::implied(&offer)));
        let (answered, after) = worded(negotiate::renegotiate(&offer, &before, wish), &offer, id);
        *terms = after.or(Some(before));
        drop(terms);
        self.publish(answered.text);
    }

    fn publish(&self, text: String) {
        let mut answers = lock(&self.answers);
        let number = answers.next();
        if answers.listeners == 0 {
            answers.unheard.get_or_insert(number);
        }
        answers.kept.push_back(text.into());
        if answers.kept.len() > limits::REPLAY_ANSWERS_KEPT {
            answers.kept.pop_front();
            answers.first += 1;
        }
        drop(answers);
        self.stir();
    }

    /// Adds a listener to the room, from the first answer without one.
    pub(super) fn enter(&self) -> Door {
        let mut answers = lock(&self.answers);
        answers.listeners += 1;
        let next = answers.next();
        Door::Room(answers.unheard.take().unwrap_or(next))
    }

    /// Adds a listener to a subscription; `None` when there is no such subscription.
    pub(super) fn resume(&self, id: &str) -> Option<Door> {
        lock(&self.subscriptions).get_mut(id)?.listeners += 1;
        Some(Door::Subscription(id.to_owned()))
    }

    pub(super) fn leave(&self, door: &Door) {
        match door {
            Door::Room(_) => lock(&self.answers).listeners -= 1,
            Door::Subscription(id) => {
                if let Some(subscription) = lock(&self.subscriptions).get_mut(id) {
                    subscription.listeners -= 1;
                }
            }
        }
    }

    /// The next answer for who listens at this door.
    pub(super) fn answer(&self, door: &mut Door) -> Option<Arc<str>> {
        let Door::Room(heard) = door else { return None };
        let answers = lock(&self.answers);
        *heard = (*heard).max(answers.first);
        let at = usize::try_from(*heard - answers.first).ok()?;
        let answer = answers.kept.get(at).cloned()?;
        *heard += 1;
        Some(answer)
    }

    /// What holds at a door: terms, or that all is said; `None` when the subscription has ended.
    pub(super) fn terms(&self, door: &Door) -> Option<Option<Arc<Terms>>> {
        match door {
            Door::Room(_) => Some(lock(&self.terms).clone()),
            Door::Subscription(id) => lock(&self.subscriptions).get(id).map(|one| Some(one.terms.clone())),
        }
    }

    fn stir(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Answers {
    fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }
}
