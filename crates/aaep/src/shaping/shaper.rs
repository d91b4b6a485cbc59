//! The queue of one subscription: what waits, what goes next, and when.

mod hold;
mod room;

use std::collections::{BTreeMap, VecDeque};

use super::bucket::Bucket;
use super::held::Held;

use super::rank::{Legal, Rank};
use super::text::End;
use super::track::SessionTrack;
use super::tune::tune;
use crate::kind::Kind;
use crate::limits;
use crate::negotiate::Terms;
use crate::wire::{Body, Boundary, Event, EventId, Pace, SessionId, SubscriptionId, Urgency};

/// What became of the events that were pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events that went out.
    pub sent: u64,
    /// Left out by the filters.
    pub filtered: u64,
    /// Joined to one that waited.
    pub merged: u64,
    /// Called critical without need, and too often to go out at once. A producer that does this often can be closed
    /// off (4004).
    pub metered: u64,
    /// Went out ahead of the agreed rate, because there was no more room to hold them.
    pub ahead: u64,
}

/// Shapes the events of any number of sessions for one subscription.
///
/// [`Shaper::push`] takes an event, [`Shaper::due`] gives what may go out now, [`Shaper::next_due`] says when to ask
/// again. The caller asks for what is due soon after: what may go out is not bounded, what must wait is.
/// Milliseconds are of any clock that does not run backwards.
#[derive(Debug)]
pub struct Shaper {
    terms: Terms,
    legal: Legal,
    subscription: String,
    bucket: Option<Bucket>,
    meter: Bucket,
    /// Types of extensions that may be critical.
    critical: Vec<String>,
    is_lead_in: fn(&EventId) -> bool,
    held: VecDeque<Held>,
    /// How many wait when states and texts are merged past what is between them.
    merge_at: usize,
    ready: Vec<Event>,
    tracks: BTreeMap<SessionId, SessionTrack>,
    heard: u64,
    now: u64,
    counts: Counts,
}

impl Shaper {
    pub fn new(terms: Terms, subscription: &SubscriptionId) -> Self {
        Shaper {
            legal: Legal::new(terms.boundaries()),
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
            heard: 0,
            now: 0,
            counts: Counts::default(),
        }
    }

    /// Event types of extensions that are critical when they say so, without being metered.
    #[must_use]
    pub fn with_critical(mut self, types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.critical.extend(types.into_iter().map(Into::into));
        self
    }

    /// Ids of events that say where a session stands that is joined in its middle. They go out before everything that
    /// waits, in their order, as fast as the rate lets them, and nothing is merged with them; the open prompts of their
    /// session come directly after them. They are never critical by being called so.
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

    /// Events that wait; text that is joined counts once.
    pub fn held_events(&self) -> usize {
        self.held.len()
    }

    /// Bytes that wait. A producer that can wait does so while this is near
    /// [`limits::SHAPED_HELD_BYTES_MAX`].
    pub fn held_bytes(&self) -> usize {
        self.held.iter().map(Held::bytes).sum()
    }

    /// Takes an event.
    pub fn push(&mut self, event: Event, now_ms: u64) {
        self.now = self.now.max(now_ms);
        let kind = event.kind();
        self.hear(&event.envelope.session_id);
        let must = kind.is_some_and(Kind::is_critical);
        let leads_in = !must && (self.is_lead_in)(&event.envelope.event_id);
        let called = !leads_in && *event.envelope.urgency() == Urgency::Critical;
        if !must && !called && !self.terms.wants(event.type_name()) {
            self.counts.filtered += 1;
            if kind.is_some_and(Kind::is_terminal) {
                self.close(&event.envelope.session_id);
                self.pump();
                self.forget_if_idle(&event.envelope.session_id);
            }
        } else if leads_in {
            self.hold_lead_in(event);
        } else if must || (called && self.passes(&event)) {
            self.urgent(event);
        } else {
            self.hold(event);
        }
        self.pump();
        self.make_room();
    }

    /// What may go out now, in order.
    pub fn due(&mut self, now_ms: u64) -> Vec<Event> {
        self.now = self.now.max(now_ms);
        self.pump();
        std::mem::take(&mut self.ready)
    }

    /// When [`Shaper::due`] has something, if nothing more is pushed; `None` when it will not have anything.
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

    /// Other terms, after a change of mind: what goes out from now on keeps to them. What was left out stays out.
    pub fn terms_changed(&mut self, terms: Terms) {
        self.legal = Legal::new(terms.boundaries());
        self.bucket = terms.events_per_second().map(|rate| match &self.bucket {
            Some(bucket) => bucket.changed(rate),
            None => Bucket::new(rate),
        });
        self.terms = terms;
        self.pump();
    }

    /// Everything that waits, whatever the rate: the stream ends, and nothing is to be lost.
    pub fn flush(&mut self) -> Vec<Event> {
        for held in &mut self.held {
            if let Some(text) = &mut held.text {
                text.closed = true;
            }
        }
        while !self.held.is_empty() {
            self.dispatch(0, End::Quiet);
        }
        std::mem::take(&mut self.ready)
    }

    /// Whether something that is called critical without need goes out at once all the same.
    fn passes(&mut self, event: &Event) -> bool {
        let passes =
            self.critical.iter().any(|known| known == event.type_name()) || self.meter.take(self.now);
        self.counts.metered += u64::from(!passes);
        passes
    }

    /// What does not wait, and before it what has to come before it.
    fn urgent(&mut self, event: Event) {
        let session = event.envelope.session_id.clone();
        let terminal = event.kind().is_some_and(Kind::is_terminal);
        // Nothing comes before the beginning of its session, nor before what leads into it.
        let begins =
            |held: &Held| *held.session() == session && (held.is_lead_in || held.is(Kind::SessionStarted));
        while let Some(at) = self.held.iter().position(begins) {
            self.owe();
            self.dispatch(at, End::Quiet);
        }
        if matches!(event.body, Body::OutputStreaming(_)) {
            // It is part of a text; so the text goes.
            let at = self.hold_text(event);
            if let Some(text) = at.and_then(|at| self.held[at].text.as_mut()) {
                text.closed = true;
            }
            return self.release_text(&session);
        }
        if terminal {
            self.close(&session);
            while let Some(at) = self.held.iter().position(|held| *held.session() == session) {
                self.owe();
                self.dispatch(at, End::Quiet);
            }
        } else {
            self.hurry(&session);
            self.release_text(&session);
        }
        self.send(event);
    }

    /// What waits only for something to join goes, as far as the rate lets it: something came behind it.
    fn hurry(&mut self, session: &SessionId) {
        for held in self.held.iter_mut().filter(|held| held.session() == session) {
            held.ripe = 0;
        }
        if let Some(track) = self.tracks.get_mut(session) {
            track.spoken = 0;
        }
        self.pump();
    }

    /// All text of a session, joined, each text in one piece where that is not too long: first what ends where it was
    /// agreed, then what has not ended.
    fn release_text(&mut self, session: &SessionId) {
        let mut at = 0;
        while at < self.held.len() {
            if self.held[at].text.is_none() || self.held[at].session() != session {
                at += 1;
                continue;
            }
            self.join_text(at, true);
            at += usize::from(!self.release(at));
        }
    }

    /// The text at a place; answers whether nothing of it is left.
    fn release(&mut self, at: usize) -> bool {
        loop {
            let Some(text) = &self.held[at].text else { return false };
            if text.place(&self.legal, End::Quiet).is_some() {
                self.owe();
                if self.dispatch(at, End::Quiet) {
                    return true;
                }
            } else if let Some(fragment) = text.fragment() {
                self.owe();
                return self.dispatch_piece(at, fragment, self.legal.hint(Rank::Character));
            } else {
                return false;
            }
        }
    }

    fn owe(&mut self) {
        if let Some(bucket) = &mut self.bucket {
            bucket.owe(self.now);
        }
    }

    /// Nothing more will be added to the texts of a session.
    fn close(&mut self, session: &SessionId) {
        for held in self.held.iter_mut().filter(|held| held.session() == session) {
            if let Some(text) = &mut held.text {
                text.closed = true;
            }
        }
        self.held.retain(|held| held.text.as_ref().is_none_or(|text| !(text.closed && text.is_done())));
    }

    /// Whether something of the same session waits behind it that it has to come before.
    fn is_pressed(&self, at: usize) -> bool {
        let held = &self.held[at];
        let mut behind = self.held.iter().skip(at + 1).filter(|other| other.session() == held.session());
        if held.is_progress() {
            // It may wait for later reports while states change and text is written, but it does not come behind the
            // end of what it reports on.
            behind.any(|other| !other.is_progress() && !other.is_state() && other.text.is_none())
        } else if held.text.is_some() {
            behind.any(|other| !other.is_progress() && other.text.is_none())
        } else {
            behind.any(|other| !other.is_progress())
        }
    }

    /// What is known of what comes behind a text.
    fn end_of(&self, at: usize) -> End {
        let came = self.held[at].text.as_ref().map_or(0, |text| text.came);
        let quiet = self.now >= came.saturating_add(limits::SHAPED_QUIET_MS);
        if quiet || self.is_pressed(at) { End::Quiet } else { End::Open }
    }

    /// When it may go, the rate aside.
    fn ready_at(&self, at: usize) -> Option<u64> {
        let held = &self.held[at];
        let pressed = self.is_pressed(at);
        let Some(text) = &held.text else { return Some(if pressed { 0 } else { held.ripe }) };
        let unfinished = || text.unfinished_at(&self.legal);
        if pressed {
            return text.place(&self.legal, End::Quiet).map(|_| 0).or_else(unfinished);
        }
        let spoken = || self.tracks.get(held.session()).map_or(0, |track| track.spoken);
        let ripe = if text.closed { 0 } else { spoken() };
        let quiet = || text.quiet_at(&self.legal);
        let ready = text.place(&self.legal, End::Open).map(|_| 0).or_else(quiet).or_else(unfinished);
        ready.map(|ready| ready.max(ripe))
    }

    /// Sends what may go.
    fn pump(&mut self) {
        loop {
            if self.held.is_empty() || self.bucket.as_mut().is_some_and(|bucket| !bucket.has(self.now)) {
                return;
            }
            let may = |at: &usize| self.ready_at(*at).is_some_and(|ready| ready <= self.now);
            let Some(at) = (0..self.held.len()).find(may) else { return };
            if let Some(bucket) = &mut self.bucket {
                bucket.take(self.now);
            }
            let end = self.end_of(at);
            if !self.dispatch_due(at, end)
                && !self.is_pressed(at)
                && let Some(rest) = self.held.remove(at)
            {
                // A text that never stops growing lets the others go first.
                self.held.push_back(rest);
            }
        }
    }

    /// The same as [`Shaper::dispatch`], of what is due: text that has waited for its end for too long goes without it.
    fn dispatch_due(&mut self, at: usize, end: End) -> bool {
        let unfinished = self.held[at].text.as_ref().filter(|text| text.place(&self.legal, end).is_none());
        match unfinished.and_then(|text| text.fragment()) {
            // Nothing followed it for so long that a word is taken to end, so its reader need not wait for more.
            Some(fragment) => self.dispatch_piece(at, fragment, Boundary::Word),
            None => self.dispatch(at, end),
        }
    }

    /// Sends what waits at a place, of text one piece; answers whether nothing of it is left.
    fn dispatch(&mut self, at: usize, end: End) -> bool {
        let held = &mut self.held[at];
        let Some(text) = &mut held.text else {
            if let Some(held) = self.held.remove(at) {
                let event = held.into_event(&self.subscription);
                self.send(event);
            }
            return true;
        };
        // What goes although it cannot be cut goes as it is.
        text.closed |= text.place(&self.legal, end).is_none();
        match text.place(&self.legal, end) {
            Some((place, rank)) => self.dispatch_piece(at, place, self.legal.hint(rank)),
            None => self.held.remove(at).is_some(),
        }
    }

    /// Sends a text up to a place; answers whether nothing of it is left.
    fn dispatch_piece(&mut self, at: usize, place: usize, hint: Boundary) -> bool {
        let held = &mut self.held[at];
        let Some(text) = &mut held.text else { return false };
        let cut = text.cut(place, hint);
        let done = text.is_done();
        let event = cut.and_then(|cut| held.piece(cut, &self.subscription));
        // What gives no piece has nothing in it.
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
        if matches!(event.body, Body::ProgressUpdated(_)) {
            track.progress_at = Some(self.now);
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

    fn hear(&mut self, session: &SessionId) {
        self.heard += 1;
        let heard = self.heard;
        if let Some(track) = self.tracks.get_mut(session) {
            track.heard = heard;
            return;
        }
        if self.tracks.len() >= limits::SHAPED_SESSIONS_MAX {
            let mut times: Vec<u64> = self.tracks.values().map(|track| track.heard).collect();
            times.sort_unstable();
            let middle = times[times.len() / 2];
            let waits: std::collections::BTreeSet<&SessionId> = self.held.iter().map(Held::session).collect();
            self.tracks.retain(|id, track| track.heard > middle || waits.contains(id));
        }
        self.tracks.entry(session.clone()).or_default().heard = heard;
    }

    fn forget_if_idle(&mut self, session: &SessionId) {
        if !self.held.iter().any(|held| held.session() == session) {
            self.tracks.remove(session);
        }
    }
}
