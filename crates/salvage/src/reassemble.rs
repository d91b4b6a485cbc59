//! Reassembles one stream from the pieces found: the proven records, where they end, and the other readable ones.
//!
//! A piece of the hot part is proven by its group's sum; a chunk by the chain, which leads from its start over its
//! bytes to the start of the next chunk or to the stream's head. Pieces may overlap. This file must not know pages or
//! files. Entry point: [`reassemble`].

use std::collections::HashMap;
use std::ops::Range;

use recount_log::chain::ChainValue;

use super::cells::CellPlace;
use super::classify::StreamRow;

/// Records of one stream, in one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundRecords {
    pub(super) place: CellPlace,
    pub(super) first_sequence: u64,
    pub(super) end: u64,
    pub(super) last_position: u64,
    /// Of a chunk: the chain before its first record and after its last.
    pub(super) chain: Option<(ChainValue, ChainValue)>,
    /// Of the hot part: the stream that the records themselves name.
    pub(super) claimed: Option<String>,
    pub(super) proof: Soundness,
}

/// Whether bytes are proven to be unaltered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Soundness {
    Sound,
    /// The value to compare with is lost.
    Unknown,
    Changed,
}

/// The pieces found of one stream.
#[derive(Default)]
pub(super) struct StreamPieces {
    pub(super) row: Option<StreamRow>,
    pub(super) pieces: Vec<FoundRecords>,
    /// Every record before it is known to have existed.
    pub(super) known_end: u64,
}

/// The salvageable records of a stream.
#[derive(Debug, Clone)]
pub(super) struct RebuiltStream {
    /// Where it begins, and the chain before that.
    pub(super) first_sequence: u64,
    pub(super) start: ChainValue,
    /// The contiguous parts of pieces from there on, in order.
    pub(super) kept: Vec<(FoundRecords, Range<u64>)>,
    /// The end of the kept records, and of the proven ones among them.
    pub(super) end: u64,
    pub(super) proven_end: u64,
    pub(super) known_end: u64,
    /// Whether records before the first are missing although nothing shows that they were removed.
    pub(super) lost_beginning: bool,
    /// Proven pieces after a gap.
    pub(super) beyond: Vec<(FoundRecords, Range<u64>)>,
}

pub(super) fn reassemble(key: &str, found: &StreamPieces) -> RebuiltStream {
    let mut pieces = found.pieces.clone();
    pieces.retain(|piece| piece.claimed.as_deref().is_none_or(|claimed| claimed == key));
    prove(&mut pieces, found.row.as_ref());
    pieces.sort_by_key(|piece| (piece.first_sequence, piece.end));
    let (first_sequence, start) = beginning(key, &pieces, found.row.as_ref());
    let mut rebuilt = RebuiltStream {
        first_sequence,
        start,
        kept: Vec::new(),
        end: first_sequence,
        proven_end: first_sequence,
        known_end: found.known_end.max(first_sequence),
        lost_beginning: first_sequence > 0
            && found.row.as_ref().is_none_or(|row| row.first_sequence != first_sequence),
        beyond: Vec::new(),
    };
    if let Some(row) = found.row.as_ref().filter(|row| row.first_sequence < first_sequence) {
        // Kept from the middle on, it would look like a stream with a removed beginning.
        rebuilt.first_sequence = row.first_sequence;
        rebuilt.start = row.start.unwrap_or(ChainValue::start(key));
        (rebuilt.end, rebuilt.proven_end) = (row.first_sequence, row.first_sequence);
        rebuilt.beyond = beyond(&pieces, row.first_sequence);
        return rebuilt;
    }
    rebuilt.proven_end = rebuilt.follow(&pieces, |piece| piece.proof == Soundness::Sound);
    // Without a head to compare with, records are kept and reported as unproven.
    rebuilt.follow(&pieces, |piece| piece.proof != Soundness::Changed);
    rebuilt.known_end = rebuilt.known_end.max(rebuilt.end);
    rebuilt.beyond = beyond(&pieces, rebuilt.end);
    rebuilt
}

/// Marks chunks that the chain leads over.
fn prove(pieces: &mut [FoundRecords], row: Option<&StreamRow>) {
    let mut expected: HashMap<u64, Vec<ChainValue>> = HashMap::new();
    for piece in pieces.iter() {
        if let Some((start, _)) = piece.chain {
            expected.entry(piece.first_sequence).or_default().push(start);
        }
    }
    if let Some(row) = row {
        expected.entry(row.next_sequence).or_default().push(row.head);
    }
    for piece in pieces {
        if let Some((_, head)) = piece.chain {
            piece.proof = match expected.get(&piece.end) {
                Some(heads) if heads.contains(&head) => Soundness::Sound,
                Some(_) => Soundness::Changed,
                None => Soundness::Unknown,
            };
        }
    }
}

/// The start of the first usable piece, and the chain value before it.
fn beginning(key: &str, pieces: &[FoundRecords], row: Option<&StreamRow>) -> (u64, ChainValue) {
    let from_zero = ChainValue::start(key);
    let begins = |piece: &&FoundRecords| {
        piece.chain.is_none_or(|(start, _)| piece.first_sequence > 0 || start == from_zero)
    };
    let usable = pieces.iter().filter(|piece| piece.proof != Soundness::Changed).filter(begins);
    let first = usable.min_by_key(|piece| piece.first_sequence);
    let of_row = row.map(|row| (row.first_sequence, row.start.unwrap_or(from_zero)));
    match first {
        None => of_row.unwrap_or((0, from_zero)),
        Some(piece) if piece.first_sequence == 0 => (0, from_zero),
        // The records before it were removed, and a piece of the hot part may begin before the cut.
        Some(piece) => match (of_row, piece.chain) {
            (Some(cut), _) if (piece.first_sequence..piece.end).contains(&cut.0) && cut.0 > 0 => cut,
            (_, Some((start, _))) => (piece.first_sequence, start),
            _ => match row.filter(|row| row.next_sequence == piece.first_sequence) {
                Some(row) => (row.next_sequence, row.head),
                // A hot piece with an unknown chain cannot begin a stream.
                None => of_row.unwrap_or((0, from_zero)),
            },
        },
    }
}

impl RebuiltStream {
    /// Adds pieces that continue the kept records; `pieces` are in order of their first record. Returns the new end.
    fn follow(&mut self, pieces: &[FoundRecords], takes: impl Fn(&FoundRecords) -> bool) -> u64 {
        let mut longest: Option<&FoundRecords> = None;
        for piece in pieces.iter().filter(|piece| takes(piece)) {
            if piece.first_sequence > self.end {
                self.keep(longest.take());
            }
            if piece.first_sequence > self.end {
                break;
            }
            if piece.end > longest.map_or(self.end, |longest| longest.end) {
                longest = Some(piece);
            }
        }
        self.keep(longest);
        self.end
    }

    fn keep(&mut self, piece: Option<&FoundRecords>) {
        if let Some(piece) = piece {
            self.kept.push((piece.clone(), self.end..piece.end));
            self.end = piece.end;
        }
    }

    pub(super) fn last_position(&self) -> u64 {
        self.kept.last().map_or(0, |(piece, _)| piece.last_position)
    }
}

/// Proven pieces from a sequence on, each record once.
fn beyond(pieces: &[FoundRecords], end: u64) -> Vec<(FoundRecords, Range<u64>)> {
    let mut next = end;
    let mut found = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.proof == Soundness::Sound) {
        if piece.end > next {
            found.push((piece.clone(), piece.first_sequence.max(next)..piece.end));
            next = piece.end;
        }
    }
    found
}
