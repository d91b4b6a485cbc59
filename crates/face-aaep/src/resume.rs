//! Resume marks: the positions from which a stream of one run can be resumed, encoded in frame ids. Pure.
//!
//! Shaping merges, cuts and reorders events, so the last sent event is not always the position to continue from.
//! [`Ledger`] tracks which events were sent and gives each frame a [`Mark`]. [`Resume`] skips the events that a mark
//! covers.

use std::collections::VecDeque;

use recount_aaep::shaping::EXTENSION_PREFIX;
use recount_aaep::wire::{EventId, OutputStreaming};
use recount_aaep::{Body, Event, Kind};
use recount_event::RunId;
use serde_json::Value;

use crate::limits;
use crate::project::{Place, digits, number};

/// The part of a run that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Everything before this was sent.
    place: Place,
    /// The sent part of the event at that place: all of it, or a number of characters of the text that begins with it.
    sent: SentPart,
    /// The last critical event that was sent, if it is later.
    critical: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SentPart {
    Whole,
    Characters(u64),
}

/// Digits of a number of characters.
const SENT_DIGITS: usize = 4;

/// The number of characters that means a whole event.
const SENT_WHOLE: u64 = (1 << (5 * SENT_DIGITS)) - 1;
const _: () = assert!(limits::MARKED_CHARACTERS_MAX < SENT_WHOLE);

/// Digits of the sequence and of the part of a critical event, as places have them.
const SEQUENCE_DIGITS: usize = 11;
const PART_DIGITS: usize = 5;

/// Characters of the id of a place.
const PLACE_LENGTH: usize = 4 + ulid::ULID_LEN + SEQUENCE_DIGITS + PART_DIGITS;

impl Mark {
    fn whole(place: Place) -> Self {
        Mark { place, sent: SentPart::Whole, critical: None }
    }

    /// The run and sequence of its place.
    pub(crate) fn of(&self) -> (RunId, u64) {
        (self.place.run, self.place.sequence)
    }

    /// Whether an event was sent.
    pub(crate) fn covers(&self, place: Place) -> bool {
        let critical = self.critical.is_some_and(|critical| (place.sequence, place.part) <= critical);
        place.run == self.place.run && (place <= self.place || critical)
    }

    /// The place after which the projection is needed.
    pub(crate) fn after(&self) -> Option<Place> {
        match self.sent {
            SentPart::Whole => Some(self.place),
            SentPart::Characters(_) => before(self.place),
        }
    }

    /// The mark as the id of a frame. A completely sent event, with everything before it, has its own id.
    pub(crate) fn id(&self) -> String {
        let mut text = self.place.event_id().as_str().to_owned();
        if self.sent == SentPart::Whole && self.critical.is_none() {
            return text;
        }
        let sent = match self.sent {
            SentPart::Whole => SENT_WHOLE,
            SentPart::Characters(count) => count.min(SENT_WHOLE - 1),
        };
        digits(&mut text, sent, SENT_DIGITS);
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
        let (sent, rest) = rest.split_at_checked(SENT_DIGITS)?;
        match number(sent)? {
            SENT_WHOLE => {}
            characters => mark.sent = SentPart::Characters(characters),
        }
        if !rest.is_empty() {
            let (sequence, part) = rest.split_at_checked(SEQUENCE_DIGITS)?;
            mark.critical = Some((number(sequence)?, number(part).filter(|_| part.len() == PART_DIGITS)?));
        }
        Some(mark)
    }
}

/// The place before another, if there is one in the run.
fn before(place: Place) -> Option<Place> {
    match (place.sequence, place.part) {
        (0, 0) => None,
        (sequence, 0) => Some(Place { sequence: sequence - 1, part: (1 << 25) - 1, ..place }),
        (_, part) => Some(Place { part: part - 1, ..place }),
    }
}

/// Tracks the events that were pushed into a shaper, and those that came out.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pending: VecDeque<Entry>,
    /// The last event that was pushed or left out.
    last: Option<Place>,
    /// The last critical event that was sent.
    critical: Option<Place>,
}

/// A pushed event that is not completely sent. Consecutive pieces of one text are one entry.
#[derive(Debug)]
struct Entry {
    /// The last event before it.
    before: Option<Place>,
    first: Place,
    last: Place,
    kind: EntryKind,
    done: bool,
}

#[derive(Debug)]
enum EntryKind {
    Text(Text),
    /// State changes and progress reports, which may be merged into later ones.
    Joinable(Kind),
    Single,
}

/// The facts about an event that the ledger needs.
pub(crate) struct PushedItem(EntryKind);

impl PushedItem {
    pub(crate) fn of(event: &Event) -> Self {
        PushedItem(match &event.body {
            Body::OutputStreaming(piece) => EntryKind::Text(Text {
                output: piece.output_id.clone(),
                from: piece.position,
                total: piece.chunk.chars().count() as u64,
                sent: 0,
                complete: piece.complete,
            }),
            Body::StateChanged(_) => EntryKind::Joinable(Kind::StateChanged),
            Body::ProgressUpdated(_) => EntryKind::Joinable(Kind::ProgressUpdated),
            _ => EntryKind::Single,
        })
    }
}

/// A text by its characters.
#[derive(Debug)]
struct Text {
    output: Option<String>,
    /// The position of its beginning in the output.
    from: u64,
    total: u64,
    sent: u64,
    complete: bool,
}

/// The ids of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FrameIds {
    /// The id of its event: the last place that it covers.
    pub(crate) event: Option<EventId>,
    /// The mark to resume from after it.
    pub(crate) mark: Option<Mark>,
}

impl Ledger {
    /// Records an event that is not sent.
    pub(crate) fn left_out(&mut self, place: Place) {
        self.last = Some(place);
    }

    /// Records an event that was pushed into the shaper.
    pub(crate) fn pushed(&mut self, item: PushedItem, place: Place) {
        let before = self.last.replace(place);
        let kind = match item.0 {
            EntryKind::Text(text) => match self.extend(text, place) {
                None => return,
                Some(text) => EntryKind::Text(text),
            },
            kind => kind,
        };
        self.pending.push_back(Entry { before, first: place, last: place, kind, done: false });
    }

    /// Adds a piece to the last pushed text, if it belongs to that text; otherwise returns it.
    fn extend(&mut self, piece: Text, place: Place) -> Option<Text> {
        let Some(Entry { last, kind: EntryKind::Text(text), .. }) = self.pending.back_mut() else {
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

    /// Records an event that came out of the shaper.
    pub(crate) fn sent(&mut self, event: &Event) -> FrameIds {
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
        FrameIds { event: named.and_then(|mark| EventId::new(mark.id()).ok()), mark: self.mark() }
    }

    fn text_sent(&mut self, piece: &OutputStreaming) -> Option<Mark> {
        let end = piece.position + piece.chunk.chars().count() as u64;
        let mut named = None;
        for entry in &mut self.pending {
            let EntryKind::Text(text) = &mut entry.kind else { continue };
            if text.output != piece.output_id || end < text.from {
                continue;
            }
            let sent = (end - text.from).min(text.total).max(text.sent);
            entry.done = sent == text.total && (piece.complete || !text.complete);
            if entry.done {
                named = Some(Mark::whole(entry.last));
            } else if sent > text.sent {
                named = Some(Mark { sent: SentPart::Characters(sent), ..Mark::whole(entry.first) });
            }
            text.sent = sent;
        }
        named
    }

    fn event_sent(&mut self, event: &Event) -> Option<Mark> {
        let own = Place::parse(event.envelope.event_id.as_str());
        // Events that were merged into this one are sent with it.
        let joined = own.is_none();
        let place = own.or_else(|| last_source(event))?;
        for entry in &mut self.pending {
            entry.done |= match &entry.kind {
                EntryKind::Joinable(kind) if joined => event.kind() == Some(*kind) && entry.last <= place,
                EntryKind::Text(_) => false,
                EntryKind::Joinable(_) | EntryKind::Single => entry.last == place,
            };
        }
        Some(Mark::whole(place))
    }

    /// The current mark.
    fn mark(&self) -> Option<Mark> {
        let mut mark = match self.pending.front() {
            None => Mark::whole(self.last?),
            Some(Entry { first, kind: EntryKind::Text(text), .. }) if text.sent > 0 => {
                Mark { sent: SentPart::Characters(text.sent), ..Mark::whole(*first) }
            }
            Some(entry) => Mark::whole(entry.before?),
        };
        let after = self.critical.filter(|critical| *critical > mark.place);
        mark.critical = after.map(|critical| (critical.sequence, critical.part));
        Some(mark)
    }
}

/// The last event that was merged into this one.
fn last_source(event: &Event) -> Option<Place> {
    let own = event.envelope.extensions.get(EXTENSION_PREFIX)?;
    let own: Value = serde_json::from_str(own.get()).ok()?;
    own.get("coalesced_from")?.as_array()?.last()?.as_str().and_then(Place::parse)
}

/// Skips what was sent before.
#[derive(Debug)]
pub(crate) struct Resume {
    mark: Mark,
    /// Characters still to skip, and the output they belong to once it is known.
    left: u64,
    output: Option<Option<String>>,
}

impl Resume {
    pub(crate) fn at(mark: Mark) -> Self {
        let left = match mark.sent {
            SentPart::Whole => 0,
            SentPart::Characters(count) => count,
        };
        Resume { mark, left, output: None }
    }

    /// The part of an event that was not sent yet.
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
