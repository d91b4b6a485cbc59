//! What goes out on one stream: events as the subscription sees them, shaped by its terms, under ids that it can be
//! resumed from. Time is passed in, nothing is waited for.
//!
//! It must not know where events come from or how they are written. See [`Delivery::push`] and [`Delivery::due`].

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
use crate::resume::{Ledger, Mark, Noted, Resume};
use crate::view::View;

/// See the head of this file.
pub(crate) struct Delivery {
    shaper: Shaper,
    view: View,
    /// Gives prompts the tokens of this subscription.
    replies: Arc<ReplyState>,
    places: Places,
    /// Left out of what is pushed.
    resume: Option<Resume>,
}

/// Where a stream can be resumed.
enum Places {
    /// In the run, from the ids of frames.
    Run(Box<Ledger>),
    /// In the frames that went out last.
    Frames(SentFrames),
}

/// Frames that went out, the newest of them, bounded in bytes.
#[derive(Default)]
struct SentFrames {
    queue: VecDeque<OutgoingFrame>,
    bytes: usize,
}

/// An event that goes out.
#[derive(Debug, Clone)]
pub(crate) struct OutgoingFrame {
    /// Where the stream goes on after it; `None` if it does not move that.
    pub(crate) id: Option<Arc<str>>,
    pub(crate) text: Bytes,
}

impl Delivery {
    /// For one run, from its beginning or after a mark.
    pub(crate) fn of_run(terms: Terms, replies: Arc<ReplyState>, view: View, after: Option<Mark>) -> Self {
        let places = Places::Run(Box::default());
        let resume = after.map(Resume::at);
        Delivery { resume, ..Delivery::new(terms, replies, view, places) }
    }

    /// For all runs, from now on.
    pub(crate) fn of_all(terms: Terms, replies: Arc<ReplyState>, view: View) -> Self {
        Delivery::new(terms, replies, view, Places::Frames(SentFrames::default()))
    }

    fn new(terms: Terms, replies: Arc<ReplyState>, view: View, places: Places) -> Self {
        let shaper = Shaper::new(terms, replies.subscription()).with_lead_in(is_lead_in);
        Delivery { shaper, view, replies, places, resume: None }
    }

    /// Other terms, for what goes out from now on.
    pub(crate) fn change_terms(&mut self, terms: Terms, view: View) {
        self.shaper.terms_changed(terms);
        self.view = view;
    }

    /// Takes an event of a projection.
    pub(crate) fn push(&mut self, event: &Event, place: Place, now_ms: u64) {
        let seen = self.view.of(event);
        let seen = match &mut self.resume {
            Some(resume) => seen.and_then(|event| resume.rest(event, place)),
            None => seen,
        };
        let Some(mut seen) = seen else { return self.left_out(place) };
        self.replies.show(&mut seen);
        match &mut self.places {
            Places::Run(ledger) => {
                let filtered = self.shaper.counts().filtered;
                let noted = Noted::of(&seen);
                self.shaper.push(seen, now_ms);
                match self.shaper.counts().filtered == filtered {
                    true => ledger.pushed(noted, place),
                    false => ledger.left_out(place),
                }
            }
            Places::Frames(_) => self.shaper.push(seen, now_ms),
        }
    }

    /// Takes where a run stands, for a stream that joins it. Such events do not move the place in the stream.
    pub(crate) fn push_lead_in(&mut self, lead_in: &[Event], now_ms: u64) {
        for mut event in lead_in.iter().filter_map(|event| self.view.of(event)) {
            self.replies.show(&mut event);
            self.shaper.push(event, now_ms);
        }
    }

    /// Everything up to this place is not sent.
    pub(crate) fn left_out(&mut self, place: Place) {
        if let Places::Run(ledger) = &mut self.places {
            ledger.left_out(place);
        }
    }

    /// What may go out now.
    pub(crate) fn due(&mut self, now_ms: u64, out: &mut VecDeque<OutgoingFrame>) {
        for event in self.shaper.due(now_ms) {
            let frame = self.frame(event);
            out.push_back(frame);
        }
    }

    /// All that waits, whatever the rate: the server ends, and nothing else would send it.
    pub(crate) fn flush(&mut self, out: &mut VecDeque<OutgoingFrame>) {
        for event in self.shaper.flush() {
            let frame = self.frame(event);
            out.push_back(frame);
        }
    }

    fn frame(&mut self, mut event: Event) -> OutgoingFrame {
        // Numbers would begin anew where a stream is resumed.
        event.envelope.sequence_number = None;
        let is_of_the_log = Place::parse(event.envelope.event_id.as_str()).is_none_or(Place::is_of_the_log);
        let id: Option<Arc<str>> = match &mut self.places {
            _ if !is_of_the_log => None,
            Places::Run(ledger) => {
                let named = ledger.sent(&event);
                if let Some(id) = named.event {
                    event.envelope.event_id = id;
                }
                named.mark.map(|mark| mark.id().into())
            }
            Places::Frames(_) => Some(event.envelope.event_id.as_str().into()),
        };
        let frame = OutgoingFrame { id, text: Bytes::from(event.to_json()) };
        if let Places::Frames(sent) = &mut self.places {
            sent.push(frame.clone());
        }
        frame
    }

    /// The frames after one that went out, if it is among those that are kept.
    pub(crate) fn after(&self, id: &str) -> Option<VecDeque<OutgoingFrame>> {
        let Places::Frames(sent) = &self.places else { return None };
        let at = sent.queue.iter().rposition(|frame| frame.id.as_deref() == Some(id))?;
        Some(sent.queue.iter().skip(at + 1).cloned().collect())
    }

    /// When there may be something due, if nothing is pushed.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.shaper.next_due()
    }

    /// Whether nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.shaper.held_events() == 0
    }

    pub(crate) fn counts(&self) -> Counts {
        self.shaper.counts()
    }
}

/// Whether an event says where a run stands that is joined in its middle.
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
