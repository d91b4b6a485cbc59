//! The queue of one subscription: which events wait, which one is next, and when. Start at [`Shaper`].

mod bounds;
mod hold;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::bucket::Bucket;
use super::held::{HeldEvent, ends_prompt, is_of_prompt};

use super::rank::{AgreedBoundaries, Rank};
use super::text::TailState;
use super::track::SessionTrack;
use super::tune::tune;
use crate::kind::Kind;
use crate::limits;
use crate::negotiate::Terms;
use crate::wire::{Body, Boundary, Event, EventId, Pace, SessionId, SubscriptionId, Urgency};

/// Counts of what happened to the pushed events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Sent events.
    pub sent: u64,
    /// Dropped by the filters.
    pub filtered: u64,
    /// Merged into a waiting event.
    pub merged: u64,
    /// Marked critical without need, and too often to be sent at once. A producer that does this often can be
    /// disconnected (4004).
    pub metered: u64,
    /// Sent ahead of the agreed rate, because the queue was full.
    pub ahead: u64,
}

/// Shapes the events of any number of sessions for one subscription.
///
/// [`Shaper::push`] adds an event, [`Shaper::due`] returns the events to send now, [`Shaper::next_due`] returns the
/// time of the next call. Call `due` soon after a push: due events are not bounded, waiting ones are. Milliseconds are
/// from any monotonic clock.
#[derive(Debug)]
pub struct Shaper {
    terms: Terms,
    agreed: AgreedBoundaries,
    subscription: String,
    bucket: Option<Bucket>,
    meter: Bucket,
    /// Types of extensions that may be critical.
    critical: Vec<String>,
    is_lead_in: fn(&EventId) -> bool,
    held: VecDeque<HeldEvent>,
    /// Queue length at which states and texts are merged across other events.
    merge_at: usize,
    ready: Vec<Event>,
    tracks: BTreeMap<SessionId, SessionTrack>,
    event_count: u64,
    now: u64,
    counts: Counts,
}

impl Shaper {
    pub fn new(terms: Terms, subscription: &SubscriptionId) -> Self {
        Shaper {
            agreed: AgreedBoundaries::new(terms.boundaries()),
            bucket: terms.events_per_second().map(Bucket::new),
            meter: Bucket::bursting(limits::SHAPED_CRITICAL_PER_SECOND),
            subscription: subscription.as_str().to_owned(),
            terms,
            critical: Vec::new(),
            is_lead_in: |_| false,
            held: VecDeque::new(),
            merge_at: limits::SHAPED_MERGE_EVENTS,
            ready: Vec::new(),
            tracks: BTreeMap::new(),
            event_count: 0,
            now: 0,
            counts: Counts::default(),
        }
    }

    /// Sets event types of extensions that may be critical without being metered.
    #[must_use]
    pub fn with_critical(mut self, types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.critical.extend(types.into_iter().map(Into::into));
        self
    }

    /// Sets which event ids describe the current state of a session joined in its middle. These events are sent before
    /// all waiting events, in order, within the rate, and are never merged. The open prompts of their session follow
    /// directly. A critical mark on them is ignored.
    #[must_use]
    pub fn with_lead_in(mut self, is_lead_in: fn(&EventId) -> bool) -> Self {
        self.is_lead_in = is_lead_in;
        self
    }

    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Number of waiting events; merged text counts once.
    pub fn held_events(&self) -> usize {
        self.held.len()
    }

    /// Bytes of waiting events. A producer that can pause should do so near [`limits::SHAPED_HELD_BYTES_MAX`].
    pub fn held_bytes(&self) -> usize {
        self.held.iter().map(HeldEvent::bytes).sum()
    }

    /// Adds an event.
    pub fn push(&mut self, event: Event, now_ms: u64) {
        self.now = self.now.max(now_ms);
        let kind = event.kind();
        self.touch_session(&event.envelope.session_id);
        let must = kind.is_some_and(Kind::is_critical);
        let is_lead_in = !must && (self.is_lead_in)(&event.envelope.event_id);
        let is_marked_critical = !is_lead_in && *event.envelope.urgency() == Urgency::Critical;
        if !must && !is_marked_critical && !self.terms.passes_filters(event.type_name()) {
            self.counts.filtered += 1;
            if kind.is_some_and(Kind::is_terminal) {
                self.close(&event.envelope.session_id);
                self.dispatch_ready();
                self.forget_if_idle(&event.envelope.session_id);
            }
        } else if is_lead_in {
            self.hold_lead_in(event);
        } else if must || (is_marked_critical && self.bypasses_rate(&event)) {
            self.send_urgent(event);
        } else if self.is_prompt_outcome(&event) {
            self.release_held(&event.envelope.session_id, false);
            self.overdraw();
            self.send(event);
        } else {
            self.hold(event);
        }
        self.dispatch_ready();
        self.enforce_bounds();
    }

    /// The events to send now, in order.
    pub fn due(&mut self, now_ms: u64) -> Vec<Event> {
        self.now = self.now.max(now_ms);
        self.dispatch_ready();
        std::mem::take(&mut self.ready)
    }

    /// When [`Shaper::due`] returns an event, if none is pushed before; `None` if no event is waiting.
    pub fn next_due(&self) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(self.now);
        }
        let mut soonest: Option<u64> = None;
        for at in 0..self.held.len() {
            let ready = self.ready_at(at);
            soonest = soonest.into_iter().chain(ready).min();
            if soonest.is_some_and(|time| time <= self.now) {
                break;
            }
        }
        let allowed = self.bucket.as_ref().map_or(0, Bucket::next);
        soonest.map(|time| time.max(allowed).max(self.now))
    }

    /// Changes the terms after a renegotiation, from the next call that has the time on. Filtered events stay dropped.
    pub fn terms_changed(&mut self, terms: Terms) {
        self.agreed = AgreedBoundaries::new(terms.boundaries());
        self.bucket = terms.events_per_second().map(|rate| match &self.bucket {
            Some(bucket) => bucket.changed(rate),
            None => Bucket::new(rate),
        });
        self.terms = terms;
    }

    /// Returns all waiting events, whatever the rate, so that the end of the stream loses nothing.
    pub fn flush(&mut self) -> Vec<Event> {
        for held in &mut self.held {
            if let Some(text) = &mut held.text {
                text.closed = true;
            }
        }
        while !self.held.is_empty() {
            self.dispatch(0, TailState::Quiet);
        }
        std::mem::take(&mut self.ready)
    }

    /// Whether an event that is marked critical without need may bypass the rate.
    fn bypasses_rate(&mut self, event: &Event) -> bool {
        let passes =
            self.critical.iter().any(|known| known == event.type_name()) || self.meter.take(self.now);
        self.counts.metered += u64::from(!passes);
        passes
    }

    /// Whether an event shows the end of a prompt that was sent, or that others are still open. It is sent at once:
    /// until then the listener believes that it can reply.
    fn is_prompt_outcome(&self, event: &Event) -> bool {
        let track = self.tracks.get(&event.envelope.session_id);
        is_of_prompt(&event.body) && track.is_some_and(|track| track.open_prompts > 0)
    }

    /// Sends an urgent event, after the events that must precede it.
    fn send_urgent(&mut self, event: Event) {
        let session = event.envelope.session_id.clone();
        let terminal = event.kind().is_some_and(Kind::is_terminal);
        // No event precedes the start of its session or its lead-ins.
        let begins = |held: &HeldEvent| {
            *held.session() == session && (held.is_lead_in || held.is(Kind::SessionStarted))
        };
        while let Some(at) = self.held.iter().position(begins) {
            self.overdraw();
            self.dispatch(at, TailState::Quiet);
        }
        if matches!(event.body, Body::OutputStreaming(_)) {
            // The chunk is part of a text, so the whole text is sent.
            let at = self.hold_text(event);
            if let Some(text) = at.and_then(|at| self.held[at].text.as_mut()) {
                text.closed = true;
            }
            return self.release_held(&session, true);
        }
        if terminal {
            self.close(&session);
            while let Some(at) = self.held.iter().position(|held| *held.session() == session) {
                self.overdraw();
                self.dispatch(at, TailState::Quiet);
            }
        } else {
            self.release_waiting(&session);
            self.release_held(&session, true);
        }
        self.send(event);
    }

    /// Releases events that wait only for more to merge, within the rate, because a later event arrived.
    fn release_waiting(&mut self, session: &SessionId) {
        for held in self.held.iter_mut().filter(|held| held.session() == session) {
            held.not_before = 0;
        }
        if let Some(track) = self.tracks.get_mut(session) {
            track.spoken_until = 0;
        }
        self.dispatch_ready();
    }

    /// Sends the states of a session, merged as far as they may be, and if requested its text, each text merged into one
    /// chunk if it is not too long: first up to an agreed boundary, then the rest. The end of a call whose start was sent
    /// precedes the states after it.
    fn release_held(&mut self, session: &SessionId, with_text: bool) {
        self.collapse_states(Some(session));
        let is_of = |held: &&HeldEvent| held.session() == session && held.is_state();
        let mut states = self.held.iter().filter(is_of).count();
        let mut waiting_calls: BTreeSet<Box<str>> = BTreeSet::new();
        let mut at = 0;
        while at < self.held.len() {
            let held = &self.held[at];
            if held.session() != session {
                at += 1;
            } else if held.text.is_some() {
                if with_text {
                    self.join_text(at, true);
                    at += usize::from(!self.release(at));
                } else {
                    at += 1;
                }
            } else if held.is_state()
                || (states > 0
                    && held.is(Kind::ToolCompleted)
                    && held.call().is_some_and(|call| !waiting_calls.contains(call)))
            {
                states -= usize::from(held.is_state());
                self.overdraw();
                self.dispatch(at, TailState::Quiet);
            } else {
                if held.is(Kind::ToolInvoked) {
                    waiting_calls.extend(held.call().map(Into::into));
                }
                at += 1;
            }
        }
    }

    /// Sends the text at an index; returns whether it is complete.
    fn release(&mut self, at: usize) -> bool {
        loop {
            let Some(text) = &self.held[at].text else { return false };
            if text.next_cut(&self.agreed, TailState::Quiet).is_some() {
                self.overdraw();
                if self.dispatch(at, TailState::Quiet) {
                    return true;
                }
            } else if let Some(fragment) = text.fragment() {
                self.overdraw();
                return self.dispatch_piece(at, fragment, self.agreed.hint(Rank::Character));
            } else {
                return false;
            }
        }
    }

    fn overdraw(&mut self) {
        if let Some(bucket) = &mut self.bucket {
            bucket.overdraw(self.now);
        }
    }

    /// Closes the texts of a session.
    fn close(&mut self, session: &SessionId) {
        for held in self.held.iter_mut().filter(|held| held.session() == session) {
            if let Some(text) = &mut held.text {
                text.closed = true;
            }
        }
        self.held.retain(|held| held.text.as_ref().is_none_or(|text| !(text.closed && text.is_done())));
    }

    /// Whether a later event of the same session must wait for this one.
    fn is_blocking(&self, at: usize) -> bool {
        let held = &self.held[at];
        let mut later = self.held.iter().skip(at + 1).filter(|other| other.session() == held.session());
        if held.is_progress() {
            // Progress may wait while states change and text is written, but it must precede the end of the work it
            // reports on.
            later.any(|other| !other.is_progress() && !other.is_state() && other.text.is_none())
        } else if held.text.is_some() {
            later.any(|other| !other.is_progress() && other.text.is_none())
        } else {
            later.any(|other| !other.is_progress())
        }
    }

    /// Whether more of a text may follow.
    fn tail_of(&self, at: usize) -> TailState {
        let last_piece_at = self.held[at].text.as_ref().map_or(0, |text| text.last_piece_at);
        let quiet = self.now >= last_piece_at.saturating_add(limits::SHAPED_QUIET_MS);
        if quiet || self.is_blocking(at) { TailState::Quiet } else { TailState::Open }
    }

    /// When an event may be sent, ignoring the rate.
    fn ready_at(&self, at: usize) -> Option<u64> {
        let held = &self.held[at];
        let pressed = self.is_blocking(at);
        let Some(text) = &held.text else { return Some(if pressed { 0 } else { held.not_before }) };
        let unfinished = || text.unfinished_at(&self.agreed);
        if pressed {
            return text.next_cut(&self.agreed, TailState::Quiet).map(|_| 0).or_else(unfinished);
        }
        let spoken = || self.tracks.get(held.session()).map_or(0, |track| track.spoken_until);
        let not_before = if text.closed { 0 } else { spoken() };
        let quiet = || text.quiet_at(&self.agreed);
        let ready =
            text.next_cut(&self.agreed, TailState::Open).map(|_| 0).or_else(quiet).or_else(unfinished);
        ready.map(|ready| ready.max(not_before))
    }

    /// Sends all events that may be sent now.
    fn dispatch_ready(&mut self) {
        loop {
            if self.held.is_empty() || self.bucket.as_mut().is_some_and(|bucket| !bucket.has(self.now)) {
                return;
            }
            let may = |at: &usize| self.ready_at(*at).is_some_and(|ready| ready <= self.now);
            let Some(at) = (0..self.held.len()).find(may) else { return };
            if let Some(bucket) = &mut self.bucket {
                bucket.take(self.now);
            }
            let end = self.tail_of(at);
            if !self.dispatch_due(at, end)
                && !self.is_blocking(at)
                && let Some(rest) = self.held.remove(at)
            {
                // A text that keeps growing moves to the end, so that other events are sent.
                self.held.push_back(rest);
            }
        }
    }

    /// Like [`Shaper::dispatch`] for a due event: text that has waited too long for a boundary is sent without one.
    fn dispatch_due(&mut self, at: usize, end: TailState) -> bool {
        let unfinished =
            self.held[at].text.as_ref().filter(|text| text.next_cut(&self.agreed, end).is_none());
        match unfinished.and_then(|text| text.fragment()) {
            // After the silence, a word counts as ended, so that the reader does not wait for more.
            Some(fragment) => self.dispatch_piece(at, fragment, Boundary::Word),
            None => self.dispatch(at, end),
        }
    }

    /// Sends the event at an index, or one chunk of a text; returns whether it is complete.
    fn dispatch(&mut self, at: usize, end: TailState) -> bool {
        let held = &mut self.held[at];
        let Some(text) = &mut held.text else {
            if let Some(held) = self.held.remove(at) {
                let event = held.into_event(&self.subscription);
                self.send(event);
            }
            return true;
        };
        // Text that cannot be cut is sent as it is.
        text.closed |= text.next_cut(&self.agreed, end).is_none();
        match text.next_cut(&self.agreed, end) {
            Some((place, rank)) => self.dispatch_piece(at, place, self.agreed.hint(rank)),
            None => self.held.remove(at).is_some(),
        }
    }

    /// Sends a text up to an offset; returns whether it is complete.
    fn dispatch_piece(&mut self, at: usize, place: usize, hint: Boundary) -> bool {
        let held = &mut self.held[at];
        let Some(text) = &mut held.text else { return false };
        let cut = text.cut(place, hint);
        let done = text.is_done();
        let event = cut.and_then(|cut| held.piece(cut, &self.subscription));
        // A text without a piece is empty.
        let is_finished = done || event.is_none();
        if is_finished {
            self.held.remove(at);
        }
        if let Some(event) = event {
            self.send(event);
        }
        is_finished
    }

    fn send(&mut self, mut event: Event) {
        tune(&mut event, &self.terms);
        let session = event.envelope.session_id.clone();
        let track = self.tracks.entry(session.clone()).or_default();
        track.stamp(&mut event);
        match &event.body {
            Body::ProgressUpdated(_) => track.progress_at = Some(self.now),
            Body::AwaitingConfirmation(_) | Body::AwaitingClarification(_) => track.open_prompts += 1,
            body if ends_prompt(body) => track.open_prompts = track.open_prompts.saturating_sub(1),
            _ => {}
        }
        let low = (*self.terms.cognitive_load() == Pace::Low).then_some(limits::SHAPED_WPM_LOW);
        if let Some(pace) = self.terms.pace_wpm().or(low) {
            track.speaks(&event, pace, self.now);
        }
        if event.kind().is_some_and(Kind::is_terminal) {
            self.tracks.remove(&session);
        }
        self.counts.sent += 1;
        self.ready.push(event);
    }

    fn touch_session(&mut self, session: &SessionId) {
        self.event_count += 1;
        let event_count = self.event_count;
        if let Some(track) = self.tracks.get_mut(session) {
            track.last_event = event_count;
            return;
        }
        if self.tracks.len() >= limits::SHAPED_SESSIONS_MAX {
            let mut times: Vec<u64> = self.tracks.values().map(|track| track.last_event).collect();
            times.sort_unstable();
            let middle = times[times.len() / 2];
            let waits: BTreeSet<&SessionId> = self.held.iter().map(HeldEvent::session).collect();
            self.tracks.retain(|id, track| track.last_event > middle || waits.contains(id));
        }
        self.tracks.entry(session.clone()).or_default().last_event = event_count;
    }

    fn forget_if_idle(&mut self, session: &SessionId) {
        if !self.held.iter().any(|held| held.session() == session) {
            self.tracks.remove(session);
        }
    }
}
