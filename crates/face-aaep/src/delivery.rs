//! Shapes the events of one stream by the terms of its subscription, and gives them ids that the stream can be resumed
//! from.
//!
//! Time is passed in; nothing waits. Must not depend on where events come from or how they are written. Start with
//! [`Delivery::push`] and [`Delivery::due`].

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use recount_aaep::Event;
use recount_aaep::negotiate::Terms;
use recount_aaep::shaping::{Counts, Shaper};
use recount_aaep::wire::EventId;

use crate::limits;
use crate::project::Place;
use crate::reply_state::ReplyState;
use crate::resume::{Ledger, Mark, PushedItem, Resume};
use crate::view::View;

/// The shaping state of one stream.
pub(crate) struct Delivery {
    shaper: Shaper,
    view: View,
    /// Gives prompts the tokens of this subscription.
    replies: Arc<ReplyState>,
    tracker: ResumeTracker,
    /// Skips what was sent before a resume.
    resume: Option<Resume>,
    /// Open prompts to emit again, each after the event at a place.
    prompts_again: Vec<(Place, Event)>,
}

/// How a stream can be resumed.
enum ResumeTracker {
    /// A position in the run, from the ids of frames.
    Run(Box<Ledger>),
    /// The frames that were sent last.
    Frames(SentFrames),
}

/// The newest sent frames, bounded in bytes.
#[derive(Default)]
struct SentFrames {
    queue: VecDeque<OutgoingFrame>,
    bytes: usize,
}

/// An encoded event to send.
#[derive(Debug, Clone)]
pub(crate) struct OutgoingFrame {
    /// The cursor after this frame; `None` if the frame does not advance it.
    pub(crate) id: Option<Arc<str>>,
    pub(crate) text: Bytes,
}

impl Delivery {
    /// A delivery for one run, from its beginning or after a mark.
    pub(crate) fn of_run(terms: Terms, replies: Arc<ReplyState>, view: View, after: Option<Mark>) -> Self {
        let tracker = ResumeTracker::Run(Box::default());
        let resume = after.map(Resume::at);
        Delivery { resume, ..Delivery::new(terms, replies, view, tracker) }
    }

    /// A delivery for all runs, from now on.
    pub(crate) fn of_all(terms: Terms, replies: Arc<ReplyState>, view: View) -> Self {
        Delivery::new(terms, replies, view, ResumeTracker::Frames(SentFrames::default()))
    }

    fn new(terms: Terms, replies: Arc<ReplyState>, view: View, tracker: ResumeTracker) -> Self {
        let shaper = Shaper::new(terms, replies.subscription()).with_lead_in(is_lead_in);
        Delivery { shaper, view, replies, tracker, resume: None, prompts_again: Vec::new() }
    }

    /// Sets other terms for later events.
    pub(crate) fn change_terms(&mut self, terms: Terms, view: View) {
        self.shaper.terms_changed(terms);
        self.view = view;
    }

    /// Takes an event of a projection.
    pub(crate) fn push(&mut self, event: &Event, place: Place, now_ms: u64) {
        self.push_of_log(event, place, now_ms);
        for (_, prompt) in self.prompts_again.extract_if(.., |(after, _)| *after <= place).collect::<Vec<_>>()
        {
            self.push_again(&prompt, now_ms);
        }
    }

    fn push_of_log(&mut self, event: &Event, place: Place, now_ms: u64) {
        let seen = self.view.of(event);
        let seen = match &mut self.resume {
            Some(resume) => seen.and_then(|event| resume.rest(event, place)),
            None => seen,
        };
        let Some(mut seen) = seen else { return self.left_out(place) };
        self.replies.show(&mut seen);
        match &mut self.tracker {
            ResumeTracker::Run(ledger) => {
                let filtered = self.shaper.counts().filtered;
                let item = PushedItem::of(&seen);
                self.shaper.push(seen, now_ms);
                match self.shaper.counts().filtered == filtered {
                    true => ledger.pushed(item, place),
                    false => ledger.left_out(place),
                }
            }
            ResumeTracker::Frames(_) => self.shaper.push(seen, now_ms),
        }
    }

    /// Takes the state of a run for a joining stream. Such events do not advance the cursor.
    pub(crate) fn push_lead_in(&mut self, lead_in: &[Event], now_ms: u64) {
        let view = self.view;
        for event in lead_in.iter().filter_map(|event| view.of(event)) {
            self.push_aside(event, now_ms);
        }
    }

    /// Takes open prompts that another subscription was sent, each to be emitted now or after the event at a place.
    pub(crate) fn push_prompts_again(&mut self, prompts: Vec<(Option<Place>, Event)>, now_ms: u64) {
        for (after, prompt) in prompts {
            match after {
                None => self.push_again(&prompt, now_ms),
                Some(after) => self.prompts_again.push((after, prompt)),
            }
        }
    }

    /// Emits a prompt again, unless this subscription can reply to it already, or never can.
    fn push_again(&mut self, prompt: &Event, now_ms: u64) {
        let Some(event) = self.view.of(prompt) else { return };
        if event.body.prompt().is_some() && !self.replies.has_shown(&event) {
            self.push_aside(event, now_ms);
        }
    }

    fn push_aside(&mut self, mut event: Event, now_ms: u64) {
        self.replies.identify_aside(&mut event);
        self.replies.show(&mut event);
        self.shaper.push(event, now_ms);
    }

    /// Records that everything up to this place is not sent.
    pub(crate) fn left_out(&mut self, place: Place) {
        if let ResumeTracker::Run(ledger) = &mut self.tracker {
            ledger.left_out(place);
        }
    }

    /// Moves the events that may be sent now to `out`.
    pub(crate) fn due(&mut self, now_ms: u64, out: &mut VecDeque<OutgoingFrame>) {
        for event in self.shaper.due(now_ms) {
            let frame = self.frame(event);
            out.push_back(frame);
        }
    }

    /// Moves all held events to `out`, regardless of the rate, because the server ends.
    pub(crate) fn flush(&mut self, out: &mut VecDeque<OutgoingFrame>) {
        for event in self.shaper.flush() {
            let frame = self.frame(event);
            out.push_back(frame);
        }
    }

    fn frame(&mut self, mut event: Event) -> OutgoingFrame {
        // Numbers would start again when a stream is resumed.
        event.envelope.sequence_number = None;
        let is_of_the_log = Place::parse(event.envelope.event_id.as_str()).is_none_or(Place::is_of_the_log);
        let id: Option<Arc<str>> = match &mut self.tracker {
            _ if !is_of_the_log => None,
            ResumeTracker::Run(ledger) => {
                let named = ledger.sent(&event);
                if let Some(id) = named.event {
                    event.envelope.event_id = id;
                }
                named.mark.map(|mark| mark.id().into())
            }
            ResumeTracker::Frames(_) => Some(event.envelope.event_id.as_str().into()),
        };
        let frame = OutgoingFrame { id, text: Bytes::from(event.to_json()) };
        if let ResumeTracker::Frames(sent) = &mut self.tracker {
            sent.push(frame.clone());
        }
        frame
    }

    /// The frames after a sent frame, if that frame is still kept.
    pub(crate) fn after(&self, id: &str) -> Option<VecDeque<OutgoingFrame>> {
        let ResumeTracker::Frames(sent) = &self.tracker else { return None };
        let at = sent.queue.iter().rposition(|frame| frame.id.as_deref() == Some(id))?;
        Some(sent.queue.iter().skip(at + 1).cloned().collect())
    }

    /// When an event may become due, if nothing is pushed.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.shaper.next_due()
    }

    /// Whether no event is held.
    pub(crate) fn is_idle(&self) -> bool {
        self.shaper.held_events() == 0
    }

    pub(crate) fn counts(&self) -> Counts {
        self.shaper.counts()
    }
}

/// Whether an event is part of the state of a run that a stream joins.
fn is_lead_in(id: &EventId) -> bool {
    let place = Place::parse(id.as_str());
    place.is_some_and(|place| !place.is_of_the_log() && place.part < Place::COUNTDOWN_PART)
}

impl SentFrames {
    fn push(&mut self, frame: OutgoingFrame) {
        self.bytes += frame.text.len();
        self.queue.push_back(frame);
        while self.bytes > limits::SENT_FRAMES_BYTES_MAX && self.queue.len() > 1 {
            if let Some(oldest) = self.queue.pop_front() {
                self.bytes -= oldest.text.len();
            }
        }
    }
}
