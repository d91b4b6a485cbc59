//! Places that a stream of one run can be resumed from, and which of them each frame names. Pure.
//!
//! Shaping joins, cuts and overtakes, so the last event that was sent is not always the place to go on from. [`Ledger`]
//! knows what of the projection is sent and gives each frame a [`Mark`]; [`Resume`] leaves out of the projection what a
//! mark says was sent.

use std::collections::VecDeque;

use recount_aaep::shaping::EXTENSION_PREFIX;
use recount_aaep::wire::{EventId, OutputStreaming};
use recount_aaep::{Body, Event, Kind};
use recount_event::RunId;
use serde_json::Value;

use crate::limits;
use crate::project::{Place, digits, number};

/// What was sent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Everything before this was sent.
    place: Place,
    /// What of the event at that place was sent: all of it, or so many characters of the text that begins with it.
    said: Said,
    /// The last critical event that was sent, if it is after that.
    critical: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Whole,
    Characters(u64),
}

/// Digits of a number of characters.
const SAID_DIGITS: usize = 4;

/// The number of characters that stands for a whole event.
const SAID_WHOLE: u64 = (1 << (5 * SAID_DIGITS)) - 1;
const _: () = assert!(limits::MARKED_CHARACTERS_MAX < SAID_WHOLE);

/// Digits of the sequence and of the part of a critical event, as places have them.
const SEQUENCE_DIGITS: usize = 11;
const PART_DIGITS: usize = 5;

/// Characters of the id of a place.
const PLACE_LENGTH: usize = 4 + ulid::ULID_LEN + SEQUENCE_DIGITS + PART_DIGITS;

impl Mark {
    fn whole(place: Place) -> Self {
        Mark { place, said: Said::Whole, critical: None }
    }

    /// The last event of the log that it says something of.
    pub(crate) fn of(&self) -> (RunId, u64) {
        (self.place.run, self.place.sequence)
    }

    /// The place after which the projection is needed.
    pub(crate) fn after(&self) -> Option<Place> {
        match self.said {
            Said::Whole => Some(self.place),
            Said::Characters(_) => before(self.place),
        }
    }

    /// As the id of a frame. An event that was sent whole, with everything before it, has its own id.
    pub(crate) fn id(&self) -> String {
        let mut text = self.place.event_id().as_str().to_owned();
        if self.said == Said::Whole && self.critical.is_none() {
            return text;
        }
        let said = match self.said {
            Said::Whole => SAID_WHOLE,
            Said::Characters(count) => count.min(SAID_WHOLE - 1),
        };
        digits(&mut text, said, SAID_DIGITS);
        if let Some((sequence, part)) = self.critical {
            digits(&mut text, sequence, SEQUENCE_DIGITS);
            digits(&mut text, part, PART_DIGITS);
        }
        text
    }

    /// The mark that an id names; `None` for an id that no frame can have.
    pub(crate) fn parse(id: &str) -> Option<Mark> {
        let (place, rest) = id.split_at_checked(PLACE_LENGTH)?;
        let mut mark = Mark::whole(Place::parse(place).filter(|place| place.is_of_the_log())?);
        if rest.is_empty() {
            return Some(mark);
        }
        let (said, rest) = rest.split_at_checked(SAID_DIGITS)?;
        match number(said)? {
            SAID_WHOLE => {}
            characters => mark.said = Said::Characters(characters),
        }
        if !rest.is_empty() {
            let (sequence, part) = rest.split_at_checked(SEQUENCE_DIGITS)?;
            mark.critical = Some((number(sequence)?, number(part).filter(|_| part.len() == PART_DIGITS)?));
        }
        Some(mark)
    }
}

/// The last place before one, if there is one in the run.
fn before(place: Place) -> Option<Place> {
    match (place.sequence, place.part) {
        (0, 0) => None,
        (sequence, 0) => Some(Place { sequence: sequence - 1, part: (1 << 25) - 1, ..place }),
        (_, part) => Some(Place { part: part - 1, ..place }),
    }
}

/// What of a projection was pushed into a shaper, and what of it came out.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pending: VecDeque<Entry>,
    /// The last event that was pushed or left out.
    last: Option<Place>,
    /// The last critical event that came out.
    critical: Option<Place>,
}

/// Something that was pushed and has not come out whole. Pieces of one text that follow each other are one entry.
#[derive(Debug)]
struct Entry {
    /// The last event before it.
    before: Option<Place>,
    first: Place,
    last: Place,
    what: What,
    done: bool,
}

#[derive(Debug)]
enum What {
    Text(Text),
    /// Changes of state and reports of progress may be joined to later ones.
    Joinable(Kind),
    Single,
}

/// What is to be known of an event that is pushed.
pub(crate) struct Noted(What);

impl Noted {
    pub(crate) fn of(event: &Event) -> Self {
        Noted(match &event.body {
            Body::OutputStreaming(piece) => What::Text(Text {
                output: piece.output_id.clone(),
                from: piece.position,
                total: piece.chunk.chars().count() as u64,
                said: 0,
                complete: piece.complete,
            }),
            Body::StateChanged(_) => What::Joinable(Kind::StateChanged),
            Body::ProgressUpdated(_) => What::Joinable(Kind::ProgressUpdated),
            _ => What::Single,
        })
    }
}

/// A text by its characters.
#[derive(Debug)]
struct Text {
    output: Option<String>,
    /// Where in its output it begins.
    from: u64,
    total: u64,
    said: u64,
    complete: bool,
}

/// What a frame that comes out is called.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The id of its event: the last place that it says something of.
    pub(crate) event: Option<EventId>,
    /// Where to go on after it.
    pub(crate) mark: Option<Mark>,
}

impl Ledger {
    /// An event was left out.
    pub(crate) fn left_out(&mut self, place: Place) {
        self.last = Some(place);
    }

    /// An event was pushed, which this was noted of.
    pub(crate) fn pushed(&mut self, noted: Noted, place: Place) {
        let before = self.last.replace(place);
        let what = match noted.0 {
            What::Text(text) => match self.extend(text, place) {
                None => return,
                Some(text) => What::Text(text),
            },
            what => what,
        };
        self.pending.push_back(Entry { before, first: place, last: place, what, done: false });
    }

    /// Adds a piece to the text that was pushed last, if it is of that text; otherwise gives it back.
    fn extend(&mut self, piece: Text, place: Place) -> Option<Text> {
        let Some(Entry { last, what: What::Text(text), .. }) = self.pending.back_mut() else {
            return Some(piece);
        };
        let fits = text.total + piece.total <= limits::MARKED_CHARACTERS_MAX;
        if text.output != piece.output || text.complete || !fits {
            return Some(piece);
        }
        text.total += piece.total;
        text.complete = piece.complete;
        *last = place;
        None
    }

    /// An event came out.
    pub(crate) fn sent(&mut self, event: &Event) -> Named {
        let named = match &event.body {
            Body::OutputStreaming(piece) => self.text_sent(piece),
            _ => self.event_sent(event),
        };
        self.pending.retain(|entry| !entry.done);
        if event.kind().is_some_and(Kind::is_critical)
            && let Some(place) = named
        {
            self.critical = self.critical.max(Some(place.place));
        }
        Named { event: named.and_then(|mark| EventId::new(mark.id()).ok()), mark: self.mark() }
    }

    fn text_sent(&mut self, piece: &OutputStreaming) -> Option<Mark> {
        let end = piece.position + piece.chunk.chars().count() as u64;
        let mut named = None;
        for entry in &mut self.pending {
            let What::Text(text) = &mut entry.what else { continue };
            if text.output != piece.output_id || end < text.from {
                continue;
            }
            let said = (end - text.from).min(text.total).max(text.said);
            entry.done = said == text.total && (piece.complete || !text.complete);
            if entry.done {
                named = Some(Mark::whole(entry.last));
            } else if said > text.said {
                named = Some(Mark { said: Said::Characters(said), ..Mark::whole(entry.first) });
            }
            text.said = said;
        }
        named
    }

    fn event_sent(&mut self, event: &Event) -> Option<Mark> {
        let own = Place::parse(event.envelope.event_id.as_str());
        // What was joined to it before it is sent with it.
        let joined = own.is_none();
        let place = own.or_else(|| last_source(event))?;
        for entry in &mut self.pending {
            entry.done |= match &entry.what {
                What::Joinable(kind) if joined => event.kind() == Some(*kind) && entry.last <= place,
                What::Text(_) => false,
                What::Joinable(_) | What::Single => entry.last == place,
            };
        }
        Some(Mark::whole(place))
    }

    /// Where to go on from now.
    fn mark(&self) -> Option<Mark> {
        let mut mark = match self.pending.front() {
            None => Mark::whole(self.last?),
            Some(Entry { first, what: What::Text(text), .. }) if text.said > 0 => {
                Mark { said: Said::Characters(text.said), ..Mark::whole(*first) }
            }
            Some(entry) => Mark::whole(entry.before?),
        };
        let after = self.critical.filter(|critical| *critical > mark.place);
        mark.critical = after.map(|critical| (critical.sequence, critical.part));
        Some(mark)
    }
}

/// The last event that one stands for.
fn last_source(event: &Event) -> Option<Place> {
    let own = event.envelope.extensions.get(EXTENSION_PREFIX)?;
    let own: Value = serde_json::from_str(own.get()).ok()?;
    own.get("coalesced_from")?.as_array()?.last()?.as_str().and_then(Place::parse)
}

/// Leaves out what was sent before.
#[derive(Debug)]
pub(crate) struct Resume {
    mark: Mark,
    /// Characters that are still to be left out, once it is known of which text.
    left: u64,
    output: Option<Option<String>>,
}

impl Resume {
    pub(crate) fn at(mark: Mark) -> Self {
        let left = match mark.said {
            Said::Whole => 0,
            Said::Characters(count) => count,
        };
        Resume { mark, left, output: None }
    }

    /// What of an event was not sent yet.
    pub(crate) fn rest(&mut self, mut event: Event, place: Place) -> Option<Event> {
        let sent = |(sequence, part)| (place.sequence, place.part) <= (sequence, part);
        if event.kind().is_some_and(Kind::is_critical) && self.mark.critical.is_some_and(sent) {
            return None;
        }
        let Body::OutputStreaming(piece) = &mut event.body else { return Some(event) };
        if self.left == 0 || place < self.mark.place {
            return Some(event);
        }
        if *self.output.get_or_insert_with(|| piece.output_id.clone()) != piece.output_id {
            return Some(event);
        }
        let length = piece.chunk.chars().count() as u64;
        let cut = self.left.min(length);
        self.left -= cut;
        let at = usize::try_from(cut).ok()?;
        let from = piece.chunk.char_indices().nth(at).map_or(piece.chunk.len(), |(at, _)| at);
        piece.chunk.drain(..from);
        piece.position += cut;
        (!piece.chunk.is_empty() || piece.complete).then_some(event)
    }
}
