//! The hub of the scripted producer: subscriptions, sessions and open prompts. It does not depend on scenarios or
//! transports.

use std::sync::{Arc, Mutex, MutexGuard};

use recount_aaep::Kind;
use recount_aaep::negotiate::{self, Offer, Terms};
use recount_aaep::wire::{Event, EventId, SubscriptionId, SubscriptionRequest};
use recount_aaep_host::MANIFEST;
use recount_world::World;
use tokio::sync::{oneshot, watch};

use super::identity::producer;
use super::open_prompt::{OpenPrompt, PromptOutcome};
use super::snapshot::SessionSnapshot;
use super::subscription::{Dropped, OutgoingMessage, ProducerSurface, Subscription};
use super::{Behaviour, Fault, tamper};
use crate::limits;

/// The shared state of one producer.
pub(super) struct Hub {
    pub(super) world: World,
    pub(super) behaviour: Behaviour,
    pub(super) base: String,
    pub(super) state: Mutex<HubState>,
    /// Counts changes that wake readers.
    ticks: watch::Sender<u64>,
    pub(super) stopped: watch::Sender<bool>,
    pub(super) served: watch::Sender<bool>,
}

/// The mutable part.
#[derive(Default)]
pub(super) struct HubState {
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) prompts: Vec<OpenPrompt>,
    pub(super) sessions: Vec<SessionSnapshot>,
    pub(super) playing: usize,
    readers: u64,
    /// The subscription whose reply was accepted last.
    pub(super) answerer: Option<String>,
}

/// The recipients of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recipients<'a> {
    All,
    /// The subscriptions that can answer this prompt; they are recorded.
    PromptHolders(&'a str),
    /// Only the subscription that answered last.
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

impl Hub {
    pub(super) fn new(world: World, behaviour: Behaviour, base: String) -> Arc<Hub> {
        Arc::new(Hub {
            world,
            behaviour,
            base,
            state: Mutex::default(),
            ticks: watch::Sender::new(0),
            stopped: watch::Sender::new(false),
            served: watch::Sender::new(false),
        })
    }

    /// The capabilities that it offers.
    pub(super) fn offer(&self) -> Offer {
        let mut offer = Offer::new(producer(), "en-US");
        offer.level = self.behaviour.level;
        offer.manifest_uri = Some(format!("{}{}", self.base, MANIFEST));
        offer.confirmations = self.behaviour.level >= 2;
        offer.clarifications = self.behaviour.level >= 2;
        offer
    }

    /// The terms without a request.
    pub(super) fn default_terms(&self) -> Terms {
        Terms::implied(&self.offer())
    }

    /// The terms that are actually applied, which a fault may change.
    pub(super) fn applied_terms(&self, terms: &Terms) -> Terms {
        let held = self.behaviour.fault.and_then(|fault| tamper::applied_terms(fault, terms.requested()));
        let request = |wish| SubscriptionRequest::new(recount_aaep::VERSION.into(), "known".into(), wish);
        held.and_then(|wish| negotiate::evaluate(&self.offer(), &request(wish)).accepted())
            .unwrap_or_else(|| terms.clone())
    }

    pub(super) fn is(&self, fault: Fault) -> bool {
        self.behaviour.is(fault)
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.world.clock.now_ms()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().expect("no code panics while holding this lock")
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

    /// Waits until serving has ended.
    pub(super) async fn ended(&self) {
        if self.served.subscribe().wait_for(|ended| *ended).await.is_err() {
            // The sender is part of this hub.
        }
    }

    fn sweep(&self, state: &mut HubState) {
        let now = self.now_ms();
        state.subscriptions.retain(|sub| sub.attached || now < sub.forget_at_ms);
    }

    /// Opens a subscription; `None` at the limit.
    pub(super) fn open(&self, surface: ProducerSurface, terms: Terms) -> Option<String> {
        let mut state = self.lock();
        self.sweep(&mut state);
        let now = self.now_ms();
        // Subscriptions without a reader are kept for its return, and do not count.
        let here = state.subscriptions.iter().filter(|sub| sub.attached || sub.reader == 0).count();
        if here >= limits::SCRIPTED_SUBSCRIPTIONS_MAX && !self.is(Fault::NeverFull) {
            return None;
        }
        if state.subscriptions.len() >= limits::SCRIPTED_SUBSCRIPTIONS_MAX * 2 {
            // Evict subscriptions without a reader, the oldest first.
            let unused = state.subscriptions.iter().position(|sub| !sub.is_present(now))?;
            state.subscriptions.remove(unused);
        }
        let id = SubscriptionId::new(fresh(&self.world, "sub"))
            .unwrap_or_else(|error| unreachable!("hexadecimal digits: {error}"));
        let applied_terms = self.applied_terms(&terms);
        let fault = self.behaviour.fault;
        let mut subscription = Subscription::new(&id, surface, terms, applied_terms, now, fault);
        if here > 0 {
            subscription.lag_ms = self.behaviour.lag_ms;
        }
        state.subscriptions.push(subscription);
        Some(id.as_str().to_owned())
    }

    /// Sends summaries of the open sessions to a subscription that starts in the middle.
    pub(super) fn catch_up(&self, id: &str) {
        if self.is(Fault::NoSummary) {
            return;
        }
        self.append_snapshots(id, |snapshot, fresh| snapshot.digest(fresh));
    }

    /// Sends the current state to a subscription that has missed events.
    pub(super) fn remind(&self, id: &str) {
        self.append_snapshots(id, |snapshot, fresh| snapshot.reminder(fresh));
    }

    fn append_snapshots(
        &self,
        id: &str,
        what: impl Fn(&SessionSnapshot, &mut dyn FnMut() -> EventId) -> Vec<Event>,
    ) {
        let mut state = self.lock();
        let now = self.now_ms();
        let mut fresh = || fresh_event(&self.world);
        let HubState { subscriptions, prompts, sessions, .. } = &mut *state;
        let Some(sub) = subscriptions.iter_mut().find(|sub| sub.id == id) else { return };
        for snapshot in sessions.iter() {
            for event in what(snapshot, &mut fresh) {
                if let Some(kind) = event.kind().filter(|kind| is_prompt(*kind)) {
                    if !sub.takes(kind) || self.is(Fault::OpenPromptForgotten) {
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

    /// Ends a subscription and its reader's stream.
    pub(super) fn close(&self, id: &str) -> bool {
        let mut state = self.lock();
        let before = state.subscriptions.len();
        state.subscriptions.retain(|sub| sub.id != id);
        let closed = state.subscriptions.len() < before;
        drop(state);
        self.tick();
        closed
    }

    /// Changes the terms of a subscription.
    pub(super) fn change(&self, id: &str, terms: &Terms) {
        let applied_terms = self.applied_terms(terms);
        self.with(id, |sub| sub.change(terms.clone(), applied_terms));
    }

    /// Calls a function with one subscription.
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

    /// Sends an event to its recipients.
    pub(super) fn publish(&self, event: Event, recipients: Recipients<'_>) {
        let mut state = self.lock();
        self.sweep(&mut state);
        let now = self.now_ms();
        let mut fresh = || fresh_event(&self.world);
        let HubState { subscriptions, prompts, sessions, answerer, .. } = &mut *state;
        let only = answerer.as_deref().filter(|_| recipients == Recipients::Answerer);
        let prompt = match recipients {
            Recipients::All | Recipients::Answerer => None,
            Recipients::PromptHolders(token) => prompts.iter_mut().find(|open| open.token == token),
        };
        let kind = event.kind();
        match (
            kind,
            sessions.iter_mut().find(|snapshot| snapshot.session() == event.envelope.session_id.as_str()),
        ) {
            (Some(Kind::SessionStarted), None) => sessions.push(SessionSnapshot::new(event.clone())),
            (Some(kind), Some(_)) if kind.is_terminal() => {
                sessions.retain(|snapshot| snapshot.session() != event.envelope.session_id.as_str());
            }
            (_, Some(snapshot)) => snapshot.note(&event),
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

    /// Whether any subscriber can answer prompts of this kind.
    pub(super) fn has_replier(&self, kind: Kind) -> bool {
        let now = self.now_ms();
        self.behaviour.level >= 2
            && self.lock().subscriptions.iter().any(|sub| sub.takes(kind) && sub.is_present(now))
    }

    /// Sends a prompt to the subscriptions that can answer it.
    pub(super) fn open_prompt(
        &self,
        event: Event,
        timeout_seconds: u32,
    ) -> Option<(String, oneshot::Receiver<PromptOutcome>)> {
        let (open, outcome) = OpenPrompt::new(event.clone(), timeout_seconds)?;
        let token = open.token.clone();
        self.lock().prompts.push(open);
        self.publish(event, Recipients::PromptHolders(&token));
        Some((token, outcome))
    }

    /// Removes a prompt if it is still open.
    pub(super) fn take(&self, token: &str) -> Option<OpenPrompt> {
        let mut state = self.lock();
        let at = state.prompts.iter().position(|open| open.token == token)?;
        let open = state.prompts.swap_remove(at);
        for snapshot in &mut state.sessions {
            snapshot.prompt.take_if(|event| event.envelope.event_id == open.event.envelope.event_id);
        }
        Some(open)
    }

    /// Until when a subscriber may answer a prompt: `None` if none remains.
    pub(super) fn answerable_until_ms(&self, token: &str) -> Option<u64> {
        let state = self.lock();
        let now = self.now_ms();
        let open = state.prompts.iter().find(|open| open.token == token)?;
        let here =
            state.subscriptions.iter().filter(|sub| open.sent_to.contains(&sub.id) && sub.is_present(now));
        here.map(|sub| if sub.attached { u64::MAX } else { sub.present_until_ms }).max()
    }

    /// Accepts one more reply to a settled prompt for a while. A correct producer never does.
    pub(super) async fn await_second_reply(&self, event: Event) -> Option<PromptOutcome> {
        let (mut open, outcome) = OpenPrompt::new(event, 0)?;
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

    /// Whether a prompt is a clarification.
    pub(super) fn is_question(&self, token: &str) -> bool {
        let state = self.lock();
        let open = state.prompts.iter().find(|open| open.token == token);
        open.is_some_and(|open| open.event.kind() == Some(Kind::AwaitingClarification))
    }

    /// Waits until every reader has read everything, for a while. A correct producer never does.
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
            // The stall is long enough to be observed.
        }
    }

    /// Reserves a slot for a session; false at the limit.
    pub(super) fn try_start_session(&self) -> bool {
        let mut state = self.lock();
        let is_free = state.playing < limits::SCRIPTED_SESSIONS_MAX;
        state.playing += usize::from(is_free);
        is_free
    }

    pub(super) fn end_session(&self) {
        self.lock().playing -= 1;
        self.tick();
    }

    /// Opens a legacy subscription in advance, so that a stream opened soon after misses nothing.
    pub(super) fn reserve_stream(&self) {
        let now = self.now_ms();
        // If a reader is connected already, wait for no other: a prompt would wait, too.
        let here = |sub: &Subscription| {
            sub.attached || (sub.surface == ProducerSurface::Legacy && sub.is_present(now))
        };
        if !self.lock().subscriptions.iter().any(here) {
            // At the limit, nothing is reserved.
            self.open(ProducerSurface::Legacy, self.default_terms());
        }
    }

    /// The subscription that is reserved for the next reader.
    pub(super) fn reserved_stream(&self) -> Option<String> {
        let now = self.now_ms();
        let state = self.lock();
        let kept = state
            .subscriptions
            .iter()
            .find(|sub| sub.surface == ProducerSurface::Legacy && sub.reader == 0 && sub.is_present(now));
        kept.map(|sub| sub.id.clone())
    }

    /// The subscription and position at which a legacy reader with this event resumes.
    pub(super) fn resume(&self, event_id: &str) -> Option<(String, u64)> {
        let mut state = self.lock();
        let mut fresh = || fresh_event(&self.world);
        let free = state.subscriptions.iter_mut().rev();
        let mut free = free.filter(|sub| sub.surface == ProducerSurface::Legacy && !sub.attached);
        free.find_map(|sub| Some((sub.id.clone(), sub.position_after(event_id, &mut fresh)?)))
    }

    /// A reader has advanced; only a faulty producer waits for that.
    pub(super) fn reader_advanced(&self) {
        if self.is(Fault::SlowReaderStalls) {
            self.tick();
        }
    }

    /// Adds a reader to a subscription; the previous reader ends.
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

    /// Detaches a reader. It may return for a while, unless its surface does not allow that.
    pub(super) fn detach(&self, id: &str, reader: u64) {
        let now = self.now_ms();
        let mut state = self.lock();
        if let Some(sub) = state.subscriptions.iter_mut().find(|sub| sub.id == id && sub.reader == reader) {
            sub.attached = false;
            sub.present_until_ms = now + self.behaviour.grace_ms;
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
    pub(super) fn read(&self, id: &str, reader: u64, at: u64) -> NextMessage {
        let mut state = self.lock();
        let Some(sub) = state.subscriptions.iter_mut().find(|sub| sub.id == id && sub.reader == reader)
        else {
            return NextMessage::Over;
        };
        sub.write_due(self.now_ms(), &mut || fresh_event(&self.world));
        if let Some(due_ms) = sub.lags_until(at) {
            return NextMessage::Wait(Some(due_ms));
        }
        match sub.at(at) {
            Ok(Some(sent)) => NextMessage::Message(sent),
            Ok(None) if sub.ending => NextMessage::Over,
            Ok(None) => NextMessage::Wait(sub.next_due_ms()),
            Err(Dropped) => NextMessage::Over,
        }
    }
}

/// The next message of a subscription, or why there is none.
pub(super) enum NextMessage {
    Message(OutgoingMessage),
    /// None now; check again at this time.
    Wait(Option<u64>),
    /// No further messages.
    Over,
}

pub(super) fn is_prompt(kind: Kind) -> bool {
    matches!(kind, Kind::AwaitingConfirmation | Kind::AwaitingClarification)
}
