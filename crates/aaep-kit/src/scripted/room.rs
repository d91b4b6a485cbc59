//! Listeners, open prompts, and who may answer them. It must not know scenarios or transports.

use std::sync::{Arc, Mutex, MutexGuard};

use recount_aaep::Kind;
use recount_aaep::negotiate::{self, Offer, Terms};
use recount_aaep::wire::{Event, EventId, SubscriptionId, SubscriptionRequest};
use recount_aaep_host::MANIFEST;
use recount_world::World;
use tokio::sync::{oneshot, watch};

use super::ask::{OpenAsk, PromptOutcome};
use super::identity::producer;
use super::standing::Standing;
use super::subscription::{Forgotten, OutgoingMessage, ProducerSurface, Subscription};
use super::{Behaviour, Fault, tamper};
use crate::limits;

/// All of one producer.
pub(super) struct Room {
    pub(super) world: World,
    pub(super) behaviour: Behaviour,
    pub(super) base: String,
    pub(super) state: Mutex<State>,
    /// Counts changes that wake readers.
    ticks: watch::Sender<u64>,
    pub(super) stopped: watch::Sender<bool>,
    pub(super) served: watch::Sender<bool>,
}

/// What changes.
#[derive(Default)]
pub(super) struct State {
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) prompts: Vec<OpenAsk>,
    pub(super) sessions: Vec<Standing>,
    pub(super) playing: usize,
    readers: u64,
    /// The subscription whose reply was taken last.
    pub(super) answerer: Option<String>,
}

/// Whom an event is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom<'a> {
    All,
    /// Those who can answer this prompt, which is noted.
    PromptHolders(&'a str),
    /// Only who answered last.
    Answerer,
}

/// Draws an identifier.
pub(super) fn fresh(world: &World, prefix: &str) -> String {
    format!("{prefix}_{:032x}", world.entropy.draw())
}

/// Draws the id of an event.
pub(super) fn fresh_event(world: &World) -> EventId {
    EventId::new(fresh(world, "evt")).unwrap_or_else(|error| unreachable!("hexadecimal digits: {error}"))
}

impl Room {
    pub(super) fn new(world: World, behaviour: Behaviour, base: String) -> Arc<Room> {
        Arc::new(Room {
            world,
            behaviour,
            base,
            state: Mutex::default(),
            ticks: watch::Sender::new(0),
            stopped: watch::Sender::new(false),
            served: watch::Sender::new(false),
        })
    }

    /// What the producer can do for subscribers.
    pub(super) fn offer(&self) -> Offer {
        let mut offer = Offer::new(producer(), "en-US");
        offer.level = self.behaviour.level;
        offer.manifest_uri = Some(format!("{}{}", self.base, MANIFEST));
        offer.confirmations = self.behaviour.level >= 2;
        offer.clarifications = self.behaviour.level >= 2;
        offer
    }

    /// What holds where nobody asked for anything.
    pub(super) fn implied(&self) -> Terms {
        Terms::implied(&self.offer())
    }

    /// What events are really held to.
    pub(super) fn held_to(&self, terms: &Terms) -> Terms {
        let held = self.behaviour.fault.and_then(|fault| tamper::held_to(fault, terms.asked()));
        let request = |wish| SubscriptionRequest::new(recount_aaep::VERSION.into(), "known".into(), wish);
        held.and_then(|wish| negotiate::answer(&self.offer(), &request(wish)).accepted())
            .unwrap_or_else(|| terms.clone())
    }

    pub(super) fn is(&self, fault: Fault) -> bool {
        self.behaviour.is(fault)
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.world.clock.now_ms()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the room")
    }

    pub(super) fn tick(&self) {
        self.ticks.send_modify(|count| *count += 1);
    }

    pub(super) fn ticks(&self) -> watch::Receiver<u64> {
        self.ticks.subscribe()
    }

    pub(super) fn stop(&self) {
        self.stopped.send_replace(true);
        self.tick();
    }

    /// Returns when nothing is served any more.
    pub(super) async fn ended(&self) {
        if self.served.subscribe().wait_for(|ended| *ended).await.is_err() {
            // The sender is ours.
        }
    }

    fn sweep(&self, state: &mut State) {
        let now = self.now_ms();
        state.subscriptions.retain(|sub| sub.attached || now < sub.forget_at_ms);
    }

    /// Opens a subscription; `None` when there is no place.
    pub(super) fn open(&self, surface: ProducerSurface, terms: Terms) -> Option<String> {
        let mut state = self.lock();
        self.sweep(&mut state);
        let now = self.now_ms();
        // Those whose reader has left are kept for its return, and hold no place.
        let here = state.subscriptions.iter().filter(|sub| sub.attached || sub.reader == 0).count();
        if here >= limits::SCRIPTED_SUBSCRIPTIONS_MAX && !self.is(Fault::NeverFull) {
            return None;
        }
        if state.subscriptions.len() >= limits::SCRIPTED_SUBSCRIPTIONS_MAX * 2 {
            // Those that nobody reads any more make room, the oldest first.
            let gone = state.subscriptions.iter().position(|sub| !sub.is_here(now))?;
            state.subscriptions.remove(gone);
        }
        let id = SubscriptionId::new(fresh(&self.world, "sub"))
            .unwrap_or_else(|error| unreachable!("hexadecimal digits: {error}"));
        let held_to = self.held_to(&terms);
        let fault = self.behaviour.fault;
        let mut subscription = Subscription::new(&id, surface, terms, held_to, now, fault);
        if here > 0 {
            subscription.lag_ms = self.behaviour.lag_ms;
        }
        state.subscriptions.push(subscription);
        Some(id.as_str().to_owned())
    }

    /// Tells a subscription that begins in the middle where the open sessions stand.
    pub(super) fn catch_up(&self, id: &str) {
        if self.is(Fault::NoSummary) {
            return;
        }
        self.append_standing(id, |standing, fresh| standing.digest(fresh));
    }

    /// Tells a subscription that has missed something what it needs to go on.
    pub(super) fn remind(&self, id: &str) {
        self.append_standing(id, |standing, fresh| standing.reminder(fresh));
    }

    fn append_standing(&self, id: &str, what: impl Fn(&Standing, &mut dyn FnMut() -> EventId) -> Vec<Event>) {
        let mut state = self.lock();
        let now = self.now_ms();
        let mut fresh = || fresh_event(&self.world);
        let State { subscriptions, prompts, sessions, .. } = &mut *state;
        let Some(sub) = subscriptions.iter_mut().find(|sub| sub.id == id) else { return };
        for standing in sessions.iter() {
            for event in what(standing, &mut fresh) {
                if let Some(kind) = event.kind().filter(|kind| is_prompt(*kind)) {
                    if !sub.takes(kind) {
                        continue;
                    }
                    let open = prompts
                        .iter_mut()
                        .find(|open| open.event.envelope.event_id == event.envelope.event_id);
                    match open {
                        Some(open) if !open.sent_to.contains(&sub.id) => open.sent_to.push(sub.id.clone()),
                        Some(_) => {}
                        None => continue,
                    }
                }
                sub.push(event, now, &mut fresh);
            }
        }
        drop(state);
        self.tick();
    }

    /// Ends a subscription; its reader's stream ends.
    pub(super) fn close(&self, id: &str) -> bool {
        let mut state = self.lock();
        let before = state.subscriptions.len();
        state.subscriptions.retain(|sub| sub.id != id);
        let closed = state.subscriptions.len() < before;
        drop(state);
        self.tick();
        closed
    }

    /// Gives a subscription other terms.
    pub(super) fn change(&self, id: &str, terms: &Terms) {
        let held_to = self.held_to(terms);
        self.with(id, |sub| sub.change(terms.clone(), held_to));
    }

    /// Does something with one subscription.
    pub(super) fn with<T>(&self, id: &str, act: impl FnOnce(&mut Subscription) -> T) -> Option<T> {
        let mut state = self.lock();
        let answer = state.subscriptions.iter_mut().find(|sub| sub.id == id).map(act);
        drop(state);
        self.tick();
        answer
    }

    /// Ids of all subscriptions of a surface.
    pub(super) fn ids(&self, surface: ProducerSurface) -> Vec<String> {
        let state = self.lock();
        state.subscriptions.iter().filter(|sub| sub.surface == surface).map(|sub| sub.id.clone()).collect()
    }

    /// Tells an event to everybody.
    pub(super) fn publish(&self, event: Event, whom: Whom<'_>) {
        let mut state = self.lock();
        self.sweep(&mut state);
        let now = self.now_ms();
        let mut fresh = || fresh_event(&self.world);
        let State { subscriptions, prompts, sessions, answerer, .. } = &mut *state;
        let only = answerer.as_deref().filter(|_| whom == Whom::Answerer);
        let prompt = match whom {
            Whom::All | Whom::Answerer => None,
            Whom::PromptHolders(token) => prompts.iter_mut().find(|open| open.token == token),
        };
        let kind = event.kind();
        match (
            kind,
            sessions.iter_mut().find(|standing| standing.session() == event.envelope.session_id.as_str()),
        ) {
            (Some(Kind::SessionStarted), None) => sessions.push(Standing::new(event.clone())),
            (Some(kind), Some(_)) if kind.is_terminal() => {
                sessions.retain(|standing| standing.session() != event.envelope.session_id.as_str());
            }
            (_, Some(standing)) => standing.note(&event),
            _ => {}
        }
        let mut sent_to = Vec::new();
        for sub in subscriptions.iter_mut() {
            if kind.is_some_and(|kind| is_prompt(kind) && !sub.takes(kind)) {
                continue;
            }
            if sub.ending || only.is_some_and(|only| only != sub.id) {
                continue;
            }
            sub.push(event.clone(), now, &mut fresh);
            sent_to.push(sub.id.clone());
        }
        if let Some(open) = prompt {
            open.sent_to = sent_to;
        }
        drop(state);
        self.tick();
    }

    /// Whether anybody is there who can answer prompts of this kind.
    pub(super) fn anybody(&self, kind: Kind) -> bool {
        let now = self.now_ms();
        self.behaviour.level >= 2
            && self.lock().subscriptions.iter().any(|sub| sub.takes(kind) && sub.is_here(now))
    }

    /// Sends a prompt to those who can answer it.
    pub(super) fn ask(
        &self,
        event: Event,
        timeout_seconds: u32,
    ) -> Option<(String, oneshot::Receiver<PromptOutcome>)> {
        let (open, outcome) = OpenAsk::new(event.clone(), timeout_seconds)?;
        let token = open.token.clone();
        self.lock().prompts.push(open);
        self.publish(event, Whom::PromptHolders(&token));
        Some((token, outcome))
    }

    /// Takes a prompt away, if it is still open.
    pub(super) fn take(&self, token: &str) -> Option<OpenAsk> {
        let mut state = self.lock();
        let at = state.prompts.iter().position(|open| open.token == token)?;
        let open = state.prompts.swap_remove(at);
        for standing in &mut state.sessions {
            standing.prompt.take_if(|event| event.envelope.event_id == open.event.envelope.event_id);
        }
        Some(open)
    }

    /// When it is to be looked again whether anybody is left for a prompt: `None` when nobody is.
    pub(super) fn left_until_ms(&self, token: &str) -> Option<u64> {
        let state = self.lock();
        let now = self.now_ms();
        let open = state.prompts.iter().find(|open| open.token == token)?;
        let here =
            state.subscriptions.iter().filter(|sub| open.sent_to.contains(&sub.id) && sub.is_here(now));
        here.map(|sub| if sub.attached { u64::MAX } else { sub.here_until_ms }).max()
    }

    /// Hears one more answer to a prompt that is settled, for a while. A right producer never does.
    pub(super) async fn linger(&self, event: Event) -> Option<PromptOutcome> {
        let (mut open, outcome) = OpenAsk::new(event, 0)?;
        let token = open.token.clone();
        {
            let mut state = self.lock();
            open.deadline_ms = u64::MAX;
            open.sent_to = state.subscriptions.iter().map(|sub| sub.id.clone()).collect();
            state.prompts.push(open);
        }
        let result = tokio::time::timeout(limits::SCRIPTED_LINGER, outcome).await;
        self.take(&token);
        result.ok()?.ok()
    }

    /// Whether a prompt is a question.
    pub(super) fn is_question(&self, token: &str) -> bool {
        let state = self.lock();
        let open = state.prompts.iter().find(|open| open.token == token);
        open.is_some_and(|open| open.event.kind() == Some(Kind::AwaitingClarification))
    }

    /// Waits until every reader has everything, for a while. A right producer waits for nobody.
    pub(super) async fn wait_for_readers(&self) {
        let all_read = async {
            let mut ticks = self.ticks();
            loop {
                ticks.borrow_and_update();
                if self.lock().subscriptions.iter().all(|sub| !sub.attached || sub.seen() == sub.end()) {
                    return;
                }
                if ticks.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(limits::SCRIPTED_STALL, all_read).await.is_err() {
            // It has stalled long enough to be seen.
        }
    }

    /// Takes a place among the sessions that are played.
    pub(super) fn enter(&self) -> bool {
        let mut state = self.lock();
        let room = state.playing < limits::SCRIPTED_SESSIONS_MAX;
        state.playing += usize::from(room);
        room
    }

    pub(super) fn leave(&self) {
        self.lock().playing -= 1;
        self.tick();
    }

    /// What a legacy stream that is opened in a moment would miss is kept for it.
    pub(super) fn expect_reader(&self) {
        let now = self.now_ms();
        // Where a reader is connected already, wait for no other: a prompt would wait, too.
        let here =
            |sub: &Subscription| sub.attached || (sub.surface == ProducerSurface::Legacy && sub.is_here(now));
        if !self.lock().subscriptions.iter().any(here) {
            // Without a place there is nobody to keep it for.
            self.open(ProducerSurface::Legacy, self.implied());
        }
    }

    /// The stream that is kept for a reader who comes in a moment.
    pub(super) fn expected(&self) -> Option<String> {
        let now = self.now_ms();
        let state = self.lock();
        let kept = state
            .subscriptions
            .iter()
            .find(|sub| sub.surface == ProducerSurface::Legacy && sub.reader == 0 && sub.is_here(now));
        kept.map(|sub| sub.id.clone())
    }

    /// Where a reader of the de-facto surface goes on that has this event.
    pub(super) fn resume(&self, event_id: &str) -> Option<(String, u64)> {
        let mut state = self.lock();
        let mut fresh = || fresh_event(&self.world);
        let free = state.subscriptions.iter_mut().rev();
        let mut free = free.filter(|sub| sub.surface == ProducerSurface::Legacy && !sub.attached);
        free.find_map(|sub| Some((sub.id.clone(), sub.behind(event_id, &mut fresh)?)))
    }

    /// A reader has taken something; only who waits for readers wants to know.
    pub(super) fn noticed(&self) {
        if self.is(Fault::SlowReaderStalls) {
            self.tick();
        }
    }

    /// A new reader of a subscription; who read it before ends.
    pub(super) fn attach(&self, id: &str) -> Option<u64> {
        let mut state = self.lock();
        state.readers += 1;
        let reader = state.readers;
        let sub = state.subscriptions.iter_mut().find(|sub| sub.id == id)?;
        (sub.reader, sub.attached) = (reader, true);
        drop(state);
        self.tick();
        Some(reader)
    }

    /// A reader is gone. It may come back for a while, unless it cannot.
    pub(super) fn detach(&self, id: &str, reader: u64) {
        let now = self.now_ms();
        let mut state = self.lock();
        if let Some(sub) = state.subscriptions.iter_mut().find(|sub| sub.id == id && sub.reader == reader) {
            sub.attached = false;
            sub.here_until_ms = now + self.behaviour.grace_ms;
            let keep = if sub.surface == ProducerSurface::Socket {
                self.behaviour.grace_ms
            } else {
                limits::SCRIPTED_RESUME_MS
            };
            sub.forget_at_ms = now + keep;
        }
        drop(state);
        self.tick();
    }

    /// The next message for a reader.
    pub(super) fn read(&self, id: &str, reader: u64, at: u64) -> Read {
        let mut state = self.lock();
        let Some(sub) = state.subscriptions.iter_mut().find(|sub| sub.id == id && sub.reader == reader)
        else {
            return Read::Over;
        };
        sub.turn(self.now_ms(), &mut || fresh_event(&self.world));
        if let Some(due_ms) = sub.lags_until(at) {
            return Read::Wait(Some(due_ms));
        }
        match sub.at(at) {
            Ok(Some(sent)) => Read::Message(sent),
            Ok(None) if sub.ending => Read::Over,
            Ok(None) => Read::Wait(sub.next_due_ms()),
            Err(Forgotten) => Read::Over,
        }
    }
}

/// What a reader finds.
pub(super) enum Read {
    Message(OutgoingMessage),
    /// Nothing now; perhaps at this time.
    Wait(Option<u64>),
    /// Nothing any more.
    Over,
}

pub(super) fn is_prompt(kind: Kind) -> bool {
    matches!(kind, Kind::AwaitingConfirmation | Kind::AwaitingClarification)
}
