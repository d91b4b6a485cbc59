//! One subscription: its terms, what was sent to it, and how far its reader is. It must not know sockets or other
//! subscriptions.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use recount_aaep::Kind;
use recount_aaep::negotiate::Terms;
use recount_aaep::shaping::Shaper;
use recount_aaep::wire::{Event, EventId, SubscriptionId, Urgency, Verbosity};
use serde_json::Value;

use super::Fault;
use super::crooked::Crooked;
use super::tamper::{self, Memory};
use crate::limits;

/// Where a subscription came in.
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

/// One message as it goes out.
#[derive(Clone)]
pub(super) struct OutgoingMessage {
    /// The id of the event; answers have none.
    pub(super) id: Option<Arc<str>>,
    pub(super) text: Arc<str>,
    /// When it was ready to be sent.
    at_ms: u64,
}

/// One session as this subscription sees it.
#[derive(Default)]
struct View {
    next: u64,
    /// Events so far, those that are left out included.
    counted: u64,
    memory: Memory,
}

/// One subscription.
pub(super) struct Subscription {
    pub(super) id: String,
    pub(super) surface: ProducerSurface,
    /// What was agreed.
    pub(super) terms: Terms,
    shaper: Shaper,
    /// Sessions whose `session.started` is held back by the rate.
    unstarted: Vec<String>,
    crooked: Crooked,
    fault: Option<Fault>,
    /// How much later than it could a reader gets what is said.
    pub(super) lag_ms: u64,
    /// The time of the last look at it.
    now_ms: u64,
    log: VecDeque<OutgoingMessage>,
    /// The number of the first message of the log.
    first: u64,
    /// How far readers have come.
    seen: u64,
    views: HashMap<String, View>,
    /// The newest reader; older ones end.
    pub(super) reader: u64,
    pub(super) attached: bool,
    /// Until when it counts as there although nobody reads.
    pub(super) here_until_ms: u64,
    /// When it is forgotten unless it has a reader.
    pub(super) forget_at_ms: u64,
    /// Its reader still gets what is in the log, and nothing further.
    pub(super) ending: bool,
}

impl Subscription {
    pub(super) fn new(
        id: &SubscriptionId,
        surface: ProducerSurface,
        terms: Terms,
        held_to: Terms,
        now_ms: u64,
        fault: Option<Fault>,
    ) -> Self {
        Subscription {
            id: id.as_str().to_owned(),
            surface,
            shaper: Shaper::new(held_to, id),
            unstarted: Vec::new(),
            crooked: Crooked::default(),
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
            here_until_ms: now_ms + limits::SCRIPTED_ATTACH_MS,
            forget_at_ms: now_ms + limits::SCRIPTED_UNREAD_MS,
            ending: false,
        }
    }

    /// Whether it has a reader, or may have one again in a moment.
    pub(super) fn is_here(&self, now_ms: u64) -> bool {
        self.attached || now_ms < self.here_until_ms
    }

    /// Whether prompts of a kind may be sent to it.
    pub(super) fn takes(&self, kind: Kind) -> bool {
        self.terms.replies(kind) || self.fault == Some(Fault::DeafAreAsked)
    }

    /// Other terms from now on, and what events are really held to.
    pub(super) fn change(&mut self, terms: Terms, held_to: Terms) {
        self.shaper.terms_changed(held_to);
        self.terms = terms;
    }

    /// Takes an event for this subscriber.
    pub(super) fn push(&mut self, event: Event, now_ms: u64, fresh: &mut dyn FnMut() -> EventId) {
        self.now_ms = now_ms;
        let Some(fault) = self.fault else {
            self.shape(event, now_ms, fresh);
            return self.turn(now_ms, fresh);
        };
        if self.keeps_back(fault, &event) {
            return;
        }
        self.views.entry(event.envelope.session_id.as_str().to_owned()).or_default().counted += 1;
        self.crooked.push(fault, event, now_ms, self.terms.events_per_second());
        self.turn(now_ms, fresh);
    }

    /// Hands an event to the shaper. What is critical overtakes what the rate holds back, but never the beginning of
    /// its own session: nobody could tell what it belongs to.
    fn shape(&mut self, event: Event, now_ms: u64, fresh: &mut dyn FnMut() -> EventId) {
        let session = &event.envelope.session_id;
        if event.kind() == Some(Kind::SessionStarted) && self.shaper.terms().wants(event.type_name()) {
            self.unstarted.push(session.as_str().to_owned());
        } else if event.envelope.urgency() == &Urgency::Critical
            && self.unstarted.iter().any(|unstarted| unstarted == session.as_str())
        {
            let held = self.shaper.flush();
            self.write(held, fresh);
        }
        self.shaper.push(event, now_ms);
    }

    /// Whether a wrong producer sends less than it should.
    fn keeps_back(&self, fault: Fault, event: &Event) -> bool {
        let critical = event.envelope.urgency() == &Urgency::Critical;
        match fault {
            Fault::CriticalFiltered => critical && !self.terms.wants(event.type_name()),
            Fault::TerseLeavesOut => {
                *self.terms.verbosity() == Verbosity::Terse && event.kind() == Some(Kind::ProgressUpdated)
            }
            Fault::LanguageKeepsSilent => self.terms.languages().iter().all(|tag| !tag.starts_with("en")),
            _ => false,
        }
    }

    /// Lets go what has waited long enough.
    pub(super) fn turn(&mut self, now_ms: u64, fresh: &mut dyn FnMut() -> EventId) {
        self.now_ms = now_ms;
        for event in self.crooked.due(now_ms) {
            self.shape(event, now_ms, fresh);
        }
        let ready = self.shaper.due(now_ms);
        self.write(ready, fresh);
    }

    pub(super) fn next_due_ms(&self) -> Option<u64> {
        [self.shaper.next_due(), self.crooked.next_due_ms()].into_iter().flatten().min()
    }

    fn write(&mut self, events: Vec<Event>, fresh: &mut dyn FnMut() -> EventId) {
        for event in events {
            if event.kind() == Some(Kind::SessionStarted) {
                self.unstarted.retain(|unstarted| unstarted != event.envelope.session_id.as_str());
            }
            match self.fault {
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
        for mut altered in tamper::event(fault, right, &mut view.memory, fresh) {
            altered.insert("sequence_number".into(), tamper::number(fault, view.next).into());
            view.next += 1;
            let id = altered.get("event_id").and_then(Value::as_str).map(str::to_owned);
            let text = tamper::text(fault, Value::Object(altered).to_string());
            self.append(id.as_deref(), text);
        }
        // Of sessions whose end the filters left out something stays; not for ever.
        let ended = event.kind().is_some_and(Kind::is_terminal);
        if !ended && self.views.len() < limits::SCRIPTED_SESSIONS_MAX * 2 {
            self.views.insert(session.to_owned(), view);
        }
    }

    /// Tells what is no event: the answer to a handshake, say.
    pub(super) fn append(&mut self, id: Option<&str>, text: String) {
        if self.log.len() >= limits::SCRIPTED_LOG_MAX {
            self.log.pop_front();
            self.first += 1;
        }
        self.log.push_back(OutgoingMessage { id: id.map(Into::into), text: text.into(), at_ms: self.now_ms });
    }

    /// The message of this number, if it is there: `Err` when it was forgotten.
    pub(super) fn at(&mut self, number: u64) -> Result<Option<OutgoingMessage>, Forgotten> {
        let Some(back) = number.checked_sub(self.first) else { return Err(Forgotten) };
        let sent = usize::try_from(back).ok().and_then(|back| self.log.get(back)).cloned();
        if sent.is_some() {
            self.seen = self.seen.max(number + 1);
        }
        Ok(sent)
    }

    /// Until when the message of this number lags.
    pub(super) fn lags_until(&self, number: u64) -> Option<u64> {
        let back = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let due_ms = self.log.get(back)?.at_ms + self.lag_ms;
        (due_ms > self.now_ms).then_some(due_ms)
    }

    /// Where the log ends.
    pub(super) fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// Where a reader goes on that says nothing of what it has.
    pub(super) fn seen(&self) -> u64 {
        self.seen.max(self.first)
    }

    /// Where a reader goes on that has this event.
    pub(super) fn behind(&mut self, event_id: &str, fresh: &mut dyn FnMut() -> EventId) -> Option<u64> {
        let at = self.log.iter().rposition(|sent| sent.id.as_deref() == Some(event_id))?;
        let behind = self.first + at as u64 + 1;
        match self.fault {
            Some(Fault::ResumeIgnored) => Some(self.end()),
            Some(Fault::ResumeLoses) => Some(self.end().min(behind + 1)),
            Some(Fault::ResumeRenames) => {
                self.rename(at, fresh);
                Some(behind - 1)
            }
            _ => Some(behind),
        }
    }

    /// Gives the events of the log new ids, from this one on.
    fn rename(&mut self, at: usize, fresh: &mut dyn FnMut() -> EventId) {
        for sent in self.log.iter_mut().skip(at) {
            let Some(old) = sent.id.take() else { continue };
            let new = fresh();
            sent.text = sent.text.replace(&*old, new.as_str()).into();
            sent.id = Some(new.as_str().into());
        }
    }
}

/// The log does not reach back so far.
pub(super) struct Forgotten;
