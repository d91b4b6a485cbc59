//! Output that is held: text that grows at its end and is cut at its beginning, with the pieces it came in. Says where
//! it may be cut now; knows neither rates nor other events.

use std::collections::VecDeque;

use super::grapheme::{self, between_characters, is_settled};
use super::rank::{Legal, Rank};
use super::scan::Scanner;
use crate::limits;
use crate::wire::{Boundary, EventId, Timestamp};

/// How far one or several pieces reach.
#[derive(Debug, Clone)]
struct QueuedPiece {
    /// Where it ends in the text that is held.
    end: usize,
    first: EventId,
    /// `None` when it is one.
    last: Option<EventId>,
    count: u32,
    timestamp: Timestamp,
    /// It is not all there: some of it is elsewhere or went already.
    part: bool,
}

impl QueuedPiece {
    /// What is left of it. Where it was several, the others are counted with what was cut off.
    fn rest(&mut self) {
        self.part = true;
        if let Some(last) = self.last.take() {
            self.first = last;
        }
        self.count = 1;
    }
}

/// Places where something ends, by what it is.
#[derive(Debug, Clone, Default)]
struct Marks([Vec<u32>; 4]);

impl Marks {
    fn add(&mut self, rank: Rank, at: usize) {
        let places = &mut self.0[(rank as usize).min(3)];
        // A text is much shorter: what is held is bounded.
        let Ok(at) = u32::try_from(at) else { return };
        if places.last() != Some(&at) {
            places.push(at);
        }
    }

    /// The furthest place of at least this rank that is not behind `most`.
    fn last(&self, least: Rank, most: usize) -> Option<(usize, Rank)> {
        const RANKS: [Rank; 4] = [Rank::Character, Rank::Word, Rank::Sentence, Rank::Paragraph];
        let mut best: Option<(usize, Rank)> = None;
        for rank in RANKS.into_iter().filter(|rank| *rank >= least) {
            let places = &self.0[rank as usize];
            let upto = places.partition_point(|at| *at as usize <= most);
            if let Some(at) = upto.checked_sub(1).map(|last| places[last] as usize)
                && best.is_none_or(|(furthest, _)| at >= furthest)
            {
                best = Some((at, rank));
            }
        }
        best
    }

    fn cut(&mut self, at: usize) {
        for places in &mut self.0 {
            places.drain(..places.partition_point(|place| *place as usize <= at));
            places.iter_mut().for_each(|place| *place -= at as u32);
        }
    }

    fn truncate(&mut self, at: usize) {
        for places in &mut self.0 {
            places.truncate(places.partition_point(|place| *place as usize <= at));
            places.shrink_to_fit();
        }
    }
}

/// What is cut off.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) chunk: String,
    pub(super) position: u64,
    pub(super) complete: bool,
    pub(super) hint: Boundary,
    pub(super) timestamp: Timestamp,
    /// The pieces it was made of, as far as they are known, and how many there were.
    pub(super) ids: Vec<EventId>,
    pub(super) count: u32,
    /// It is one piece as it came.
    pub(super) whole: bool,
}

/// How much is known about what comes behind the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// More may come at any moment.
    Open,
    /// Something else came, or nothing for a while.
    Quiet,
}

/// Text that is held.
#[derive(Debug, Clone)]
pub(super) struct Text {
    buffer: String,
    /// Where the buffer begins in the output, in characters.
    position: u64,
    marks: Marks,
    scanner: Scanner,
    pieces: VecDeque<QueuedPiece>,
    /// What the producer says ends at the end; `None` when it said nothing.
    hinted: Option<Rank>,
    /// Where the first character is that is no white space.
    ink: Option<usize>,
    pub(super) complete: bool,
    /// Nothing more is joined to it.
    pub(super) closed: bool,
    /// When the last piece came, in milliseconds.
    pub(super) came: u64,
}

impl Text {
    pub(super) fn new(position: u64) -> Self {
        Text {
            buffer: String::new(),
            position,
            marks: Marks::default(),
            scanner: Scanner::default(),
            pieces: VecDeque::new(),
            hinted: None,
            ink: None,
            complete: false,
            closed: false,
            came: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let marks: usize = self.marks.0.iter().map(Vec::capacity).sum();
        let ids = |piece: &QueuedPiece| {
            piece.first.as_str().len()
                + piece.last.as_ref().map_or(0, |last| last.as_str().len())
                + piece.timestamp.as_str().len()
        };
        let pieces: usize = self.pieces.iter().map(|piece| size_of::<QueuedPiece>() + ids(piece)).sum();
        size_of::<Text>() + self.buffer.capacity() + pieces + marks * size_of::<u32>()
    }

    /// No piece is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Nothing is left to send.
    pub(super) fn is_done(&self) -> bool {
        self.buffer.is_empty() && !self.complete
    }

    /// Adds a piece.
    pub(super) fn add(
        &mut self,
        chunk: &str,
        hint: Option<&Boundary>,
        complete: bool,
        id: EventId,
        timestamp: Timestamp,
        now: u64,
    ) {
        let from = self.buffer.len();
        self.buffer.push_str(chunk);
        for (offset, c) in chunk.char_indices() {
            let at = from + offset;
            let ends = self.scanner.read(c);
            if let Some(place) = ends.sentence_before.and_then(|bytes| at.checked_sub(bytes)) {
                self.mark(Rank::Sentence, place);
            }
            let mut rank = ends.here;
            if offset == 0 && at > 0 {
                // What the producer said of the end of the piece before.
                rank = rank.max(self.hinted.unwrap_or(Rank::Character));
            }
            let piece_ends = offset == 0 && at > 0;
            if (rank > Rank::Character || piece_ends) && between_characters(&self.buffer, at) {
                self.mark(rank, at);
            }
            if self.ink.is_none() && !c.is_whitespace() {
                self.ink = Some(at);
            }
        }
        if !chunk.is_empty() || self.hinted.is_none() {
            self.hinted = hint.and_then(Rank::of).map(|rank| rank.min(Rank::Paragraph));
        }
        self.complete |= complete;
        self.came = now;
        let end = self.buffer.len();
        let many = self.pieces.len() >= limits::SHAPED_PIECES_MAX;
        match self.pieces.back_mut() {
            // Beyond so many pieces it is only known how many there were.
            Some(newest) if many || newest.end == end => {
                (newest.end, newest.last, newest.timestamp) = (end, Some(id), timestamp);
                newest.count = newest.count.saturating_add(1);
            }
            _ => self.pieces.push_back(QueuedPiece {
                end,
                first: id,
                last: None,
                count: 1,
                timestamp,
                part: false,
            }),
        }
    }

    fn mark(&mut self, rank: Rank, at: usize) {
        // What is nothing but white space is not sent by itself.
        if self.ink.is_some_and(|ink| ink < at) {
            self.marks.add(rank, at);
        }
    }

    /// Where it may be cut now, and what ends there; as far behind as may be.
    pub(super) fn place(&self, legal: &Legal, end: End) -> Option<(usize, Rank)> {
        let length = self.buffer.len();
        let most = length.min(limits::SHAPED_CHUNK_BYTES);
        if length == most {
            if self.complete {
                return Some((length, Rank::Completion));
            }
            if length > 0
                && let Some(rank) = self.end_rank(end)
                && rank >= legal.least
            {
                return Some((length, rank));
            }
        }
        if let Some(place) = self.marks.last(legal.least, most) {
            return Some(place);
        }
        if length > most {
            // Too long for one event and nowhere an agreed boundary: a fragment, to be joined by who gets it.
            let at = self.marks.last(Rank::Word, most).map(|(at, _)| at);
            return Some((
                at.unwrap_or_else(|| grapheme::characters_up_to(&self.buffer, most)),
                Rank::Character,
            ));
        }
        (self.closed && length > 0).then_some((length, Rank::Character))
    }

    /// Up to where it goes out although nothing ends there: all of it, but a character that may still grow.
    pub(super) fn fragment(&self) -> Option<usize> {
        let upto = match !self.closed && grapheme::may_grow(&self.buffer) {
            true => grapheme::last_character(&self.buffer),
            false => self.buffer.len(),
        };
        self.ink.is_some_and(|ink| ink < upto).then_some(upto)
    }

    /// What ends at the end, if that can be told now.
    fn end_rank(&self, end: End) -> Option<Rank> {
        self.ink?;
        let rank = match self.hinted {
            // `none` says that its producer knows of no end; after a silence the text itself is looked at.
            Some(Rank::Character) if end == End::Quiet || self.closed => self.scanner.ends(None),
            Some(hinted) => hinted,
            None => self.scanner.ends(None),
        };
        let settled = || self.buffer.chars().next_back().is_some_and(is_settled);
        let sure = match end {
            _ if self.closed => true,
            End::Quiet => settled() || !grapheme::may_grow(&self.buffer),
            End::Open => self.hinted.is_some() && settled(),
        };
        sure.then_some(rank)
    }

    /// When the end can be told if nothing more comes; `None` when only more text or something else helps.
    pub(super) fn quiet_at(&self, legal: &Legal) -> Option<u64> {
        self.place(legal, End::Quiet).map(|_| self.came.saturating_add(limits::SHAPED_QUIET_MS))
    }

    /// When it goes although nothing ends, if nothing more comes; `None` where whole outputs were agreed.
    pub(super) fn unfinished_at(&self, legal: &Legal) -> Option<u64> {
        let may = legal.least < Rank::Completion && self.fragment().is_some();
        may.then(|| self.came.saturating_add(limits::SHAPED_UNFINISHED_MS))
    }

    /// Cuts off the beginning.
    pub(super) fn cut(&mut self, at: usize, hint: Boundary) -> Option<Cut> {
        let last = self.pieces.partition_point(|piece| piece.end < at).min(self.pieces.len().checked_sub(1)?);
        let rest = self.buffer.split_off(at);
        let chunk = std::mem::replace(&mut self.buffer, rest);
        let complete = self.complete && self.buffer.is_empty();
        let taken = || self.pieces.iter().take(last + 1);
        let count = taken().fold(0_u32, |sum, piece| sum.saturating_add(piece.count));
        let ids = taken().flat_map(|piece| std::iter::once(&piece.first).chain(&piece.last).cloned());
        let (ids, newest) = (ids.collect(), &self.pieces[last]);
        let cut = Cut {
            position: self.position,
            complete,
            hint,
            timestamp: newest.timestamp.clone(),
            ids,
            count,
            whole: count == 1 && !newest.part && newest.end == at,
            chunk,
        };
        self.position = self.position.saturating_add(cut.chunk.chars().count() as u64);
        self.complete &= !complete;
        self.pieces.drain(..last);
        match self.pieces.front_mut() {
            Some(piece) if piece.end > at => piece.rest(),
            _ => drop(self.pieces.pop_front()),
        }
        for piece in &mut self.pieces {
            piece.end -= at;
        }
        self.marks.cut(at);
        self.ink = self.buffer.char_indices().find(|(_, c)| !c.is_whitespace()).map(|(at, _)| at);
        Some(cut)
    }

    /// Takes what is behind the last place where it may be cut; what is before stays, and is closed.
    pub(super) fn split(&mut self, legal: &Legal) -> Text {
        let length = self.buffer.len();
        let at = match self.end_rank(End::Quiet) {
            Some(rank) if rank >= legal.least => length,
            _ => self.marks.last(legal.least, length).map_or(0, |(at, _)| at),
        };
        let mut rest = self.clone();
        if at == length {
            rest = Text::new(self.position.saturating_add(self.buffer.chars().count() as u64));
        } else if at > 0 {
            rest.position = self.position.saturating_add(self.buffer[..at].chars().count() as u64);
            rest.buffer.drain(..at);
            let before = rest.pieces.partition_point(|piece| piece.end <= at);
            let from = before.checked_sub(1).map_or(0, |last| rest.pieces[last].end);
            rest.pieces.drain(..before);
            for piece in &mut rest.pieces {
                piece.end -= at;
            }
            if from < at
                && let Some(piece) = rest.pieces.front_mut()
            {
                piece.rest();
            }
            rest.marks.cut(at);
            rest.ink = rest.buffer.char_indices().find(|(_, c)| !c.is_whitespace()).map(|(at, _)| at);
            self.truncate(at);
        } else {
            self.truncate(0);
        }
        self.closed = true;
        rest
    }

    /// Forgets what is behind a place, which has another owner now.
    fn truncate(&mut self, at: usize) {
        self.buffer.truncate(at);
        let keep = self.pieces.partition_point(|piece| piece.end < at);
        self.pieces.truncate(keep + usize::from(at > 0));
        if let Some(last) = self.pieces.back_mut() {
            last.part |= last.end > at;
            last.end = last.end.min(at);
        }
        self.marks.truncate(at);
        self.buffer.shrink_to_fit();
        self.pieces.shrink_to_fit();
        self.complete = false;
        self.hinted = None;
        // What it saw is behind the new end; what ends there is among the marks.
        self.scanner = Scanner::default();
        self.ink = self.ink.filter(|ink| *ink < at);
    }

    /// Joins what was held behind it.
    pub(super) fn join(&mut self, other: Text) {
        let from = self.buffer.len();
        let ends = self.end_rank(End::Quiet);
        self.buffer.push_str(&other.buffer);
        if let Some(rank) = ends
            && !other.buffer.is_empty()
            && between_characters(&self.buffer, from)
        {
            self.marks.add(rank, from);
        }
        for (mine, theirs) in self.marks.0.iter_mut().zip(other.marks.0) {
            mine.extend(theirs.into_iter().map(|at| at + from as u32));
        }
        for mut piece in other.pieces {
            piece.end += from;
            if self.pieces.len() < limits::SHAPED_PIECES_MAX {
                self.pieces.push_back(piece);
            } else if let Some(last) = self.pieces.back_mut() {
                let newest = piece.last.unwrap_or(piece.first);
                (last.end, last.last, last.timestamp) = (piece.end, Some(newest), piece.timestamp);
                last.count = last.count.saturating_add(piece.count);
            }
        }
        self.scanner = other.scanner;
        self.hinted = other.hinted;
        self.ink = self.ink.or(other.ink.map(|at| at + from));
        self.complete = other.complete;
        self.closed = other.closed;
        self.came = other.came;
    }
}
