//! Held output: text that grows at its end and is cut at its beginning, with its original chunks. Decides where it may
//! be cut. It must not know rates or other events. Start at [`HeldText`].

use std::collections::VecDeque;

use super::grapheme::{self, between_characters, is_settled};
use super::rank::{AgreedBoundaries, Rank};
use super::scan::Scanner;
use crate::limits;
use crate::wire::{Boundary, EventId, Timestamp};

/// One or several received chunks and their end in the text.
#[derive(Debug, Clone)]
struct QueuedPiece {
    /// Its end in the held text.
    end: usize,
    first: EventId,
    /// `None` if it is a single chunk.
    last: Option<EventId>,
    count: u32,
    timestamp: Timestamp,
    /// Whether some of it was already sent or moved.
    part: bool,
}

impl QueuedPiece {
    /// Reduces it to its rest. Of several chunks, the others are counted with the cut piece.
    fn rest(&mut self) {
        self.part = true;
        if let Some(last) = self.last.take() {
            self.first = last;
        }
        self.count = 1;
    }
}

/// Offsets of boundaries, by rank.
#[derive(Debug, Clone, Default)]
struct BoundaryMarks([Vec<u32>; 4]);

impl BoundaryMarks {
    fn add(&mut self, rank: Rank, at: usize) {
        let places = &mut self.0[(rank as usize).min(3)];
        // The offset fits, because held text is bounded.
        let Ok(at) = u32::try_from(at) else { return };
        if places.last() != Some(&at) {
            places.push(at);
        }
    }

    /// The last boundary of at least this rank up to `most`.
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

/// A piece that was cut off.
#[derive(Debug)]
pub(super) struct CutPiece {
    pub(super) chunk: String,
    pub(super) position: u64,
    pub(super) complete: bool,
    pub(super) hint: Boundary,
    pub(super) timestamp: Timestamp,
    /// The known ids of its chunks, and their number.
    pub(super) ids: Vec<EventId>,
    pub(super) count: u32,
    /// Whether it is exactly one received chunk.
    pub(super) whole: bool,
}

/// Whether more text may follow the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TailState {
    /// More may arrive at any moment.
    Open,
    /// Another event arrived, or no text for a while.
    Quiet,
}

/// Held text.
#[derive(Debug, Clone)]
pub(super) struct HeldText {
    buffer: String,
    /// The position of the buffer in the output, in characters.
    position: u64,
    marks: BoundaryMarks,
    scanner: Scanner,
    pieces: VecDeque<QueuedPiece>,
    /// The producer's hint for the end; `None` without a hint.
    hinted: Option<Rank>,
    /// Offset of the first character that is not white space.
    ink: Option<usize>,
    pub(super) complete: bool,
    /// Whether no more text is appended.
    pub(super) closed: bool,
    /// When the last chunk arrived, in milliseconds.
    pub(super) last_piece_at: u64,
}

impl HeldText {
    pub(super) fn new(position: u64) -> Self {
        HeldText {
            buffer: String::new(),
            position,
            marks: BoundaryMarks::default(),
            scanner: Scanner::default(),
            pieces: VecDeque::new(),
            hinted: None,
            ink: None,
            complete: false,
            closed: false,
            last_piece_at: 0,
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
        size_of::<HeldText>() + self.buffer.capacity() + pieces + marks * size_of::<u32>()
    }

    /// Whether it has no chunk.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether all of it is sent.
    pub(super) fn is_done(&self) -> bool {
        self.buffer.is_empty() && !self.complete
    }

    /// Appends a chunk.
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
                // The producer's hint for the end of the previous chunk.
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
        self.last_piece_at = now;
        let end = self.buffer.len();
        let many = self.pieces.len() >= limits::SHAPED_PIECES_MAX;
        match self.pieces.back_mut() {
            // Beyond the limit, only the number of chunks is kept.
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
        // White space is not sent by itself.
        if self.ink.is_some_and(|ink| ink < at) {
            self.marks.add(rank, at);
        }
    }

    /// The last offset where it may be cut now, and its rank.
    pub(super) fn next_cut(&self, agreed: &AgreedBoundaries, end: TailState) -> Option<(usize, Rank)> {
        let length = self.buffer.len();
        let most = length.min(limits::SHAPED_CHUNK_BYTES);
        if length == most {
            if self.complete {
                return Some((length, Rank::Completion));
            }
            if length > 0
                && let Some(rank) = self.end_rank(end)
                && rank >= agreed.least
            {
                return Some((length, rank));
            }
        }
        if let Some(place) = self.marks.last(agreed.least, most) {
            return Some(place);
        }
        if length > most {
            // Too long for one event, without an agreed boundary: a fragment, which the reader joins.
            let at = self.marks.last(Rank::Word, most).map(|(at, _)| at);
            return Some((
                at.unwrap_or_else(|| grapheme::characters_up_to(&self.buffer, most)),
                Rank::Character,
            ));
        }
        (self.closed && length > 0).then_some((length, Rank::Character))
    }

    /// The end of a fragment without a boundary: all of the text, except a character that may still grow.
    pub(super) fn fragment(&self) -> Option<usize> {
        let upto = match !self.closed && grapheme::may_grow(&self.buffer) {
            true => grapheme::last_character(&self.buffer),
            false => self.buffer.len(),
        };
        self.ink.is_some_and(|ink| ink < upto).then_some(upto)
    }

    /// The rank of the end, if it is certain now.
    fn end_rank(&self, end: TailState) -> Option<Rank> {
        self.ink?;
        let rank = match self.hinted {
            // With `none`, the producer knows of no boundary; after a silence, the text itself decides.
            Some(Rank::Character) if end == TailState::Quiet || self.closed => self.scanner.ends(None),
            Some(hinted) => hinted,
            None => self.scanner.ends(None),
        };
        let settled = || self.buffer.chars().next_back().is_some_and(is_settled);
        let sure = match end {
            _ if self.closed => true,
            TailState::Quiet => settled() || !grapheme::may_grow(&self.buffer),
            TailState::Open => self.hinted.is_some() && settled(),
        };
        sure.then_some(rank)
    }

    /// When the end becomes certain if no more text arrives; `None` if only more text helps.
    pub(super) fn quiet_at(&self, agreed: &AgreedBoundaries) -> Option<u64> {
        self.next_cut(agreed, TailState::Quiet)
            .map(|_| self.last_piece_at.saturating_add(limits::SHAPED_QUIET_MS))
    }

    /// When it is sent without a boundary if no more text arrives; `None` if whole outputs were agreed.
    pub(super) fn unfinished_at(&self, agreed: &AgreedBoundaries) -> Option<u64> {
        let may = agreed.least < Rank::Completion && self.fragment().is_some();
        may.then(|| self.last_piece_at.saturating_add(limits::SHAPED_UNFINISHED_MS))
    }

    /// Cuts off the text before an offset.
    pub(super) fn cut(&mut self, at: usize, hint: Boundary) -> Option<CutPiece> {
        let last = self.pieces.partition_point(|piece| piece.end < at).min(self.pieces.len().checked_sub(1)?);
        let rest = self.buffer.split_off(at);
        let chunk = std::mem::replace(&mut self.buffer, rest);
        let complete = self.complete && self.buffer.is_empty();
        let taken = || self.pieces.iter().take(last + 1);
        let count = taken().fold(0_u32, |sum, piece| sum.saturating_add(piece.count));
        let ids = taken().flat_map(|piece| std::iter::once(&piece.first).chain(&piece.last).cloned());
        let (ids, newest) = (ids.collect(), &self.pieces[last]);
        let cut = CutPiece {
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

    /// Splits off the text after the last possible cut; the text before it is closed.
    pub(super) fn split(&mut self, agreed: &AgreedBoundaries) -> HeldText {
        let length = self.buffer.len();
        let at = match self.end_rank(TailState::Quiet) {
            Some(rank) if rank >= agreed.least => length,
            _ => self.marks.last(agreed.least, length).map_or(0, |(at, _)| at),
        };
        let mut rest = self.clone();
        if at == length {
            rest = HeldText::new(self.position.saturating_add(self.buffer.chars().count() as u64));
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

    /// Drops the text after an offset, which has moved elsewhere.
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
        // Its state belongs to the removed text; the boundary at the new end is among the marks.
        self.scanner = Scanner::default();
        self.ink = self.ink.filter(|ink| *ink < at);
    }

    /// Appends a later held text.
    pub(super) fn join(&mut self, other: HeldText) {
        let from = self.buffer.len();
        let ends = self.end_rank(TailState::Quiet);
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
        self.last_piece_at = other.last_piece_at;
    }
}
