//! One subscription: its terms, its sent messages, and its reader's position. It does not depend on sockets or other
//! subscriptions.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use recount_aaep::Kind;
use recount_aaep::negotiate::Terms;
use recount_aaep::shaping::Shaper;
use recount_aaep::wire::{Body, Event, EventId, SubscriptionId, Urgency, Verbosity};
use serde_json::Value;

use super::Fault;
use super::delayer::EventDelayer;
use super::tamper::{self, TamperState};
use crate::limits;

/// The surface of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProducerSurface {
    /// `/events` and `/messages`.
    Legacy,
    /// `/aaep/v1`.
    Versioned,
    /// `/ws`.
    LegacySocket,
    /// `/aaep/v1/ws`.
    Socket,
}

/// A message to send.
#[derive(Clone)]
pub(super) struct OutgoingMessage {
    /// The id of the event; responses have none.
    pub(super) id: Option<Arc<str>>,
    pub(super) text: Arc<str>,
    /// When it became ready to send.
    at_ms: u64,
}

/// A session as seen by this subscription.
#[derive(Default)]
struct SessionView {
    next: u64,
    /// Events so far, including excluded ones.
    counted: u64,
    tamper_state: TamperState,
    /// The state before the states that were merged away.
    merged_from: Option<String>,
}

/// One subscription.
pub(super) struct Subscription {
    pub(super) id: String,
    pub(super) surface: ProducerSurface,
    /// The agreed terms.
    pub(super) terms: Terms,
    shaper: Shaper,
    /// Sessions whose `session.started` is held back by the rate.
    unstarted: Vec<String>,
    delayer: EventDelayer,
    fault: Option<Fault>,
    /// The extra delay before a reader gets a message.
    pub(super) lag_ms: u64,
    /// The time of the last update.
    now_ms: u64,
    log: VecDeque<OutgoingMessage>,
    /// The number of the first message of the log.
    first: u64,
    /// The furthest position of any reader.
    seen: u64,
    views: HashMap<String, SessionView>,
    /// The number of the newest reader; older ones end.
    pub(super) reader: u64,
    pub(super) attached: bool,
    /// Until when it counts as present without a reader.
    pub(super) present_until_ms: u64,
    /// When it is removed, unless it has a reader.
    pub(super) forget_at_ms: u64,
    /// Whether its reader gets only the rest of the log.
    pub(super) ending: bool,
}

impl Subscription {
    pub(super) fn new(
        id: &SubscriptionId,
        surface: ProducerSurface,
        terms: Terms,
        applied_terms: Terms,
        now_ms: u64,
        fault: Option<Fault>,
    ) -> Self {
        Subscription {
            id: id.as_str().to_owned(),
            surface,
            shaper: Shaper::new(applied_terms, id),
            unstarted: Vec::new(),
            delayer: EventDelayer::default(),
            terms,
            fault,
            lag_ms: 0,
            now_ms,
            log: VecDeque::new(),
            first: 0,
            seen: 0,
            views: HashMap::new(),
            reader: 0,
            attached: false,
            present_until_ms: now_ms + limits::SCRIPTED_ATTACH_MS,
            forget_at_ms: now_ms + limits::SCRIPTED_UNREAD_MS,
            ending: false,
        }
    }

    /// Whether it has a reader, or may have one again soon.
    pub(super) fn is_present(&self, now_ms: u64) -> bool {
        self.attached || now_ms < self.present_until_ms
    }

    /// Whether prompts of a kind may be sent to it.
    pub(super) fn takes(&self, kind: Kind) -> bool {
        self.terms.replies(kind) || self.fault == Some(Fault::MuteSubscribersPrompted)
    }

    /// Changes the agreed terms and the applied ones.
    pub(super) fn change(&mut self, terms: Terms, applied_terms: Terms) {
        self.shaper.terms_changed(applied_terms);
        self.terms = terms;
    }

    /// Processes an event for this subscriber.
    pub(super) fn push(&mut self, event: Event, now_ms: u64, fresh: &mut dyn FnMut() -> EventId) {
        self.now_ms = now_ms;
        let Some(fault) = self.fault else {
            self.shape(event, now_ms, fresh);
            return self.write_due(now_ms, fresh);
        };
        if self.is_suppressed(fault, &event) {
            return;
        }
        let Some(event) = self.merge_outcome(fault, event) else { return };
        self.views.entry(event.envelope.session_id.as_str().to_owned()).or_default().counted += 1;
        self.delayer.push(fault, event, now_ms, self.terms.events_per_second());
        self.write_due(now_ms, fresh);
    }

    /// Passes an event to the shaper. Critical events overtake events that the rate holds back, but never the start of
    /// their own session, which receivers need to interpret them.
    fn shape(&mut self, event: Event, now_ms: u64, fresh: &mut dyn FnMut() -> EventId) {
        let session = &event.envelope.session_id;
        if event.kind() == Some(Kind::SessionStarted) && self.shaper.terms().passes_filters(event.type_name())
        {
            self.unstarted.push(session.as_str().to_owned());
        } else if event.envelope.urgency() == &Urgency::Critical
            && self.unstarted.iter().any(|unstarted| unstarted == session.as_str())
        {
            let held = self.shaper.flush();
            self.write(held, fresh);
        }
        self.shaper.push(event, now_ms);
    }

    /// Whether a fault suppresses this event.
    fn is_suppressed(&self, fault: Fault, event: &Event) -> bool {
        let critical = event.envelope.urgency() == &Urgency::Critical;
        match fault {
            Fault::CriticalFiltered => critical && !self.terms.passes_filters(event.type_name()),
            Fault::TerseLeavesOut => {
                *self.terms.verbosity() == Verbosity::Terse && event.kind() == Some(Kind::ProgressUpdated)
            }
            Fault::LanguageKeepsSilent => self.terms.languages().iter().all(|tag| !tag.starts_with("en")),
            _ => false,
        }
    }

    /// Merges the states of a prompt into the next state, if the fault does. Then there is no event.
    fn merge_outcome(&mut self, fault: Fault, mut event: Event) -> Option<Event> {
        if fault != Fault::OutcomeMerged || self.terms.events_per_second().is_none() {
            return Some(event);
        }
        if let Body::StateChanged(change) = &mut event.body {
            let view = self.views.entry(event.envelope.session_id.as_str().to_owned()).or_default();
            if [&change.from_state, &change.to_state].iter().any(|state| *state == "awaiting_input") {
                view.merged_from.get_or_insert_with(|| change.from_state.clone());
                return None;
            }
            change.from_state = view.merged_from.take().unwrap_or_else(|| change.from_state.clone());
        }
        Some(event)
    }

    /// Writes events that are due.
    pub(super) fn write_due(&mut self, now_ms: u64, fresh: &mut dyn FnMut() -> EventId) {
        self.now_ms = now_ms;
        for event in self.delayer.due(now_ms) {
            self.shape(event, now_ms, fresh);
        }
        let ready = self.shaper.due(now_ms);
        self.write(ready, fresh);
    }

    pub(super) fn next_due_ms(&self) -> Option<u64> {
        [self.shaper.next_due(), self.delayer.next_due_ms()].into_iter().flatten().min()
    }

    fn write(&mut self, events: Vec<Event>, fresh: &mut dyn FnMut() -> EventId) {
        for event in events {
            if event.kind() == Some(Kind::SessionStarted) {
                self.unstarted.retain(|unstarted| unstarted != event.envelope.session_id.as_str());
            }
            let is_unlimited = self.terms.events_per_second().is_none();
            match self.fault.filter(|fault| *fault != Fault::PromptOvertakesState || !is_unlimited) {
                None => self.append(Some(event.envelope.event_id.as_str()), event.to_json()),
                Some(fault) => self.write_wrong(fault, &event, fresh),
            }
        }
    }

    fn write_wrong(&mut self, fault: Fault, event: &Event, fresh: &mut dyn FnMut() -> EventId) {
        let session = event.envelope.session_id.as_str();
        let mut view = self.views.remove(session).unwrap_or_default();
        if fault == Fault::SequenceGaps {
            view.next = view.next.max(view.counted.saturating_sub(1));
        }
        let Ok(Value::Object(right)) = serde_json::to_value(event) else { return };
        for mut altered in tamper::event(fault, right, &mut view.tamper_state, fresh) {
            altered.insert("sequence_number".into(), tamper::number(fault, view.next).into());
            view.next += 1;
            let id = altered.get("event_id").and_then(Value::as_str).map(str::to_owned);
            let text = tamper::text(fault, Value::Object(altered).to_string());
            self.append(id.as_deref(), text);
        }
        // If filters excluded the end of a session, its view remains; the number is bounded.
        let ended = event.kind().is_some_and(Kind::is_terminal);
        if !ended && self.views.len() < limits::SCRIPTED_SESSIONS_MAX * 2 {
            self.views.insert(session.to_owned(), view);
        }
    }

    /// Appends a message that is not an event, such as the response to a handshake.
    pub(super) fn append(&mut self, id: Option<&str>, text: String) {
        if self.log.len() >= limits::SCRIPTED_LOG_MAX {
            self.log.pop_front();
            self.first += 1;
        }
        self.log.push_back(OutgoingMessage { id: id.map(Into::into), text: text.into(), at_ms: self.now_ms });
    }

    /// The message with this number, if it exists; `Err` if it was dropped.
    pub(super) fn at(&mut self, number: u64) -> Result<Option<OutgoingMessage>, Dropped> {
        let Some(back) = number.checked_sub(self.first) else { return Err(Dropped) };
        let sent = usize::try_from(back).ok().and_then(|back| self.log.get(back)).cloned();
        if sent.is_some() {
            self.seen = self.seen.max(number + 1);
        }
        Ok(sent)
    }

    /// Until when the message with this number is delayed.
    pub(super) fn lags_until(&self, number: u64) -> Option<u64> {
        let back = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let due_ms = self.log.get(back)?.at_ms + self.lag_ms;
        (due_ms > self.now_ms).then_some(due_ms)
    }

    /// The position after the last message.
    pub(super) fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// The position at which a reader without a known event resumes.
    pub(super) fn seen(&self) -> u64 {
        self.seen.max(self.first)
    }

    /// The position after the event with this id.
    pub(super) fn position_after(
        &mut self,
        event_id: &str,
        fresh: &mut dyn FnMut() -> EventId,
    ) -> Option<u64> {
        let at = self.log.iter().rposition(|sent| sent.id.as_deref() == Some(event_id))?;
        let position = self.first + at as u64 + 1;
        match self.fault {
            Some(Fault::ResumeIgnored) => Some(self.end()),
            Some(Fault::ResumeLoses) => Some(self.end().min(position + 1)),
            Some(Fault::ResumeRenames) => {
                self.rename(at, fresh);
                Some(position - 1)
            }
            _ => Some(position),
        }
    }

    /// Gives the events of the log new ids from a position on.
    fn rename(&mut self, at: usize, fresh: &mut dyn FnMut() -> EventId) {
        for sent in self.log.iter_mut().skip(at) {
            let Some(old) = sent.id.take() else { continue };
            let new = fresh();
            sent.text = sent.text.replace(&*old, new.as_str()).into();
            sent.id = Some(new.as_str().into());
        }
    }
}

/// The log no longer contains the message.
pub(super) struct Dropped;
