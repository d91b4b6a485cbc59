//! What goes out on one stream: events as the subscription sees them, shaped by its terms, under ids that it can be
//! resumed from. Time is passed in, nothing is waited for.
//!
//! It must not know where events come from or how they are written. See [`Delivery::push`] and [`Delivery::due`].

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use recount_aaep::negotiate::Terms;
use recount_aaep::shaping::Shaper;
use recount_aaep::wire::SubscriptionId;
use recount_aaep::{Event, Kind};
use tokio::time::Instant;

use crate::limits;
use crate::project::Place;
use crate::resume::{Ledger, Mark, Resume};
use crate::view::View;

/// See the head of this file.
pub(crate) struct Delivery {
    shaper: Shaper,
    view: View,
    places: Places,
    /// Left out of what is pushed.
    resume: Option<Resume>,
    /// When critical events that were pushed were made.
    criticals: VecDeque<Instant>,
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
    queue: VecDeque<Frame>,
    bytes: usize,
}

/// An event that goes out.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Where the stream goes on after it; `None` if it does not move that.
    pub(crate) id: Option<Arc<str>>,
    pub(crate) text: Bytes,
    /// Of a critical event: when it was made.
    pub(crate) critical_since: Option<Instant>,
}

impl Delivery {
    /// For one run, from its beginning or after a mark.
    pub(crate) fn of_run(terms: Terms, subscription: &SubscriptionId, view: View, after: Option<Mark>) -> Self {
        let places = Places::Run(Box::default());
        let resume = after.map(Resume::at);
        Delivery { resume, ..Delivery::new(terms, subscription, view, places) }
    }

    /// For all runs, from now on.
    pub(crate) fn of_all(terms: Terms, subscription: &SubscriptionId, view: View) -> Self {
        Delivery::new(terms, subscription, view, Places::Frames(SentFrames::default()))
    }

    fn new(terms: Terms, subscription: &SubscriptionId, view: View, places: Places) -> Self {
        let shaper = Shaper::new(terms, subscription);
        Delivery { shaper, view, places, resume: None, criticals: VecDeque::new() }
    }

    /// Other terms, for what goes out from now on.
    pub(crate) fn change_terms(&mut self, terms: Terms, view: View) {
        self.shaper.terms_changed(terms);
        self.view = view;
    }

    /// Takes an event of a projection. Answers whether it is a prompt that can be answered on this stream.
    pub(crate) fn push(&mut self, event: &Event, place: Place, made_at: Option<Instant>, now_ms: u64) -> bool {
        let seen = self.view.of(event);
        let seen = match &mut self.resume {
            Some(resume) => seen.and_then(|event| resume.rest(event, place)),
            None => seen,
        };
        let Some(seen) = seen else {
            if let Places::Run(ledger) = &mut self.places {
                ledger.left_out(place);
            }
            return false;
        };
        let is_critical = seen.kind().is_some_and(Kind::is_critical);
        if is_critical {
            // One without a time has one all the same, so that those behind it keep theirs.
            self.criticals.push_back(made_at.unwrap_or_else(recount_world::moment));
        }
        let is_prompt = matches!(seen.kind(), Some(Kind::AwaitingConfirmation | Kind::AwaitingClarification));
        let filtered = self.shaper.counts().filtered;
        match &mut self.places {
            Places::Run(ledger) => {
                let copy = seen.clone();
                self.shaper.push(seen, now_ms);
                match self.shaper.counts().filtered == filtered {
                    true => ledger.pushed(&copy, place),
                    false => ledger.left_out(place),
                }
            }
            Places::Frames(_) => self.shaper.push(seen, now_ms),
        }
        is_prompt
    }

    /// A sentence that is no event of the log: it goes out at once and does not move the place.
    pub(crate) fn aside(&self, event: &Event) -> Option<Frame> {
        let seen = self.view.of(event)?;
        Some(Frame { id: None, text: Bytes::from(seen.to_json()), critical_since: None })
    }

    /// What may go out now.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<Frame> {
        let due = self.shaper.due(now_ms);
        due.into_iter().map(|event| self.frame(event)).collect()
    }

    /// Everything that waits, whatever the rate.
    pub(crate) fn flush(&mut self) -> Vec<Frame> {
        let rest = self.shaper.flush();
        rest.into_iter().map(|event| self.frame(event)).collect()
    }

    fn frame(&mut self, mut event: Event) -> Frame {
        // Numbers would begin anew where a stream is resumed.
        event.envelope.sequence_number = None;
        let is_critical = event.kind().is_some_and(Kind::is_critical);
        let id: Option<Arc<str>> = match &mut self.places {
            Places::Run(ledger) => {
                let named = ledger.sent(&event);
                if let Some(id) = named.event {
                    event.envelope.event_id = id;
                }
                named.mark.map(|mark| mark.id().into())
            }
            Places::Frames(_) => Some(event.envelope.event_id.as_str().into()),
        };
        let critical_since = if is_critical { self.criticals.pop_front() } else { None };
        let frame = Frame { id, text: Bytes::from(event.to_json()), critical_since };
        if let Places::Frames(sent) = &mut self.places {
            sent.push(frame.clone());
        }
        frame
    }

    /// The frames after one that went out, if it is among those that are kept.
    pub(crate) fn after(&self, id: &str) -> Option<Vec<Frame>> {
        let Places::Frames(sent) = &self.places else { return None };
        let at = sent.queue.iter().rposition(|frame| frame.id.as_deref() == Some(id))?;
        Some(sent.queue.iter().skip(at + 1).cloned().collect())
    }

    /// When there may be something due, if nothing is pushed.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.shaper.next_due()
    }
}

impl SentFrames {
    fn push(&mut self, frame: Frame) {
        self.bytes += frame.text.len();
        self.queue.push_back(Frame { critical_since: None, ..frame });
        while self.bytes > limits::SENT_FRAMES_BYTES_MAX && self.queue.len() > 1 {
            if let Some(oldest) = self.queue.pop_front() {
                self.bytes -= oldest.text.len();
            }
        }
    }
}
