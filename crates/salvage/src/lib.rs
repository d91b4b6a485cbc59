//! Salvage: reads everything readable of a damaged store, and writes it into a new one.
//!
//! ```text
//!   recount.db, recount.db-wal ─▶ image: pages ─▶ cells: rows ─▶ classify: tables ─▶ reassemble: streams ─▶ a new store
//! ```
//!
//! The old store is opened for reading only, and not by SQLite, which would recover its log and stop at damage.
//! Trees and schema are not trusted: each page is read by itself, and each record is kept only when a sum or the chain
//! proves its bytes. Streams keep names, sequences, positions, bytes and heads.
//! This must never know what a record contains. Entry point: [`Salvage::read`].

mod cells;
mod classify;
mod image;
mod reassemble;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use recount_log::chain::ChainValue;
use recount_log::{Fault, FaultKind, Retry, StreamKey, Tail};
use recount_log_sqlite::stored::NO_STREAM;
use recount_log_sqlite::{Blobs, RecordWriter, database_in, high_water, hold, restore};
pub use recount_log_sqlite::{BlobsCopied, RestoredRow as SalvagedRow};

use self::cells::{row_at, rows_of};
use self::classify::{ClassifiedRow, NewRow, classify};
use self::image::Image;
use self::reassemble::{FoundRecords, RebuiltStream, Soundness, StreamPieces, reassemble};

/// The stream and sequence that a record itself names; `None` when it is not a possible record. Compared with the index
/// of the hot part.
pub type Claim = dyn Fn(&[u8]) -> Option<(String, u64)>;

/// Version and value of each row, by space and key.
type Rows = BTreeMap<(String, String), (u64, Vec<u8>)>;

/// The readable content of a store, which stays locked until this is dropped.
pub struct Salvage {
    image: Image,
    _lock: Option<File>,
    streams: Vec<Stream>,
    rows: Rows,
    blobs: Blobs,
    /// Unreadable content.
    pub damage: Damage,
}

/// Damage that cannot be counted in streams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    /// Pages of the database that belong to it and cannot be read.
    pub pages: u64,
    /// Unreadable rows of all tables.
    pub rows: u64,
    /// Frames of the write-ahead log that were changed.
    pub frames: u64,
    /// Whether the newest commits may be missing, and their content is unknown: the store is damaged at its end, or
    /// ends before the position that its high-water mark names.
    pub commits: bool,
    /// Records whose stream is unknown.
    pub nameless_records: u64,
}

/// A stream and its salvageable records.
#[derive(Debug, Clone)]
pub struct Stream {
    pub key: StreamKey,
    /// The first sequence: 0, or where the stream was cut.
    pub first_sequence: u64,
    /// The sequence after the last kept record; all records before it are kept.
    pub end: u64,
    /// The bytes of the records before this are proven to be unaltered.
    pub proven_end: u64,
    /// The records before this are known to have existed.
    pub known_end: u64,
    /// The chain before the first record that is kept, and after the last.
    pub start: ChainValue,
    pub head: ChainValue,
    /// Only its tombstone remains.
    pub erased: bool,
    /// Its first records are missing although nothing shows that they were removed.
    pub lost_beginning: bool,
    /// The number of readable records after a gap.
    pub beyond: u64,
    /// Whether missing records at later positions may have belonged to it.
    pub may_continue: bool,
    id: i64,
    rebuilt: RebuiltStream,
    tombstone: Option<Tail>,
}

impl Stream {
    /// Its end and beginning in a new store.
    pub fn tail(&self) -> Tail {
        self.tombstone.unwrap_or(Tail {
            next_sequence: self.end,
            last_position: self.rebuilt.last_position(),
            head: self.head,
            first_sequence: self.first_sequence,
            start: self.start,
            erased: false,
        })
    }

    /// Whether no record can be kept.
    pub fn is_lost(&self) -> bool {
        !self.erased && self.end == self.first_sequence
    }

    /// Whether all records that are known to have existed are kept and proven.
    pub fn is_whole(&self) -> bool {
        self.erased || (!self.is_lost() && !self.lost_beginning && self.proven_end == self.known_end)
    }
}

impl Salvage {
    /// Reads a data folder that no server holds. `claim` reads the stream and sequence that a record itself names.
    pub fn read(data_dir: &Path, claim: &Claim) -> Result<Self, Fault> {
        let database = database_in(data_dir);
        if !data_dir.is_dir() || !(database.exists() || image::log_of(&database).exists()) {
            let message = format!("{} contains no store; name a data folder", data_dir.display());
            return Err(Fault::new(FaultKind::Io, Retry::Never, message));
        }
        let lock = hold(data_dir)?;
        let mut image = Image::open(&database)?;
        let mut gathered = FoundContent::default();
        gathered.gather(&mut image, claim);
        let short = image.pages_noted().saturating_sub(image.pages());
        let ends_early = acknowledged(data_dir) > gathered.last_position();
        let damage = Damage {
            pages: gathered.unreadable_pages(),
            rows: gathered.broken,
            frames: image.log_state.damaged,
            commits: image.log_state.lost || short > 0 || gathered.lost_end() || ends_early,
            nameless_records: 0,
        };
        let mut salvage = Salvage {
            image,
            _lock: lock,
            streams: Vec::new(),
            rows: std::mem::take(&mut gathered.journal).over(std::mem::take(&mut gathered.rows)),
            blobs: Blobs::of(data_dir),
            damage,
        };
        salvage.reassemble(gathered, claim);
        if salvage.streams.is_empty() && salvage.rows.is_empty() {
            return Err(corrupt(format!(
                "no part of a store can be read in {}; it has schema 1, belongs to another program or is \
                 completely damaged",
                data_dir.display()
            )));
        }
        Ok(salvage)
    }

    /// All known streams, by name.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    pub fn rows(&self) -> impl Iterator<Item = SalvagedRow<'_>> {
        rows_of_spaces(&self.rows)
    }

    /// Whether a blob of this name exists, correct or not.
    pub fn has_blob(&self, hash: &str) -> bool {
        self.blobs.exists(hash)
    }

    /// Passes the kept records of a stream to a closure.
    pub fn kept(&mut self, stream: &Stream, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), Fault> {
        show(&mut self.image, stream.id, &stream.rebuilt.kept, &mut |sequence, _, bytes| {
            each(sequence, bytes);
            Ok(())
        })
    }

    /// A page of the kept records of a stream from a sequence on: those of one row of the store.
    pub fn page(&mut self, stream: &Stream, from: u64) -> Result<Vec<Bytes>, Fault> {
        let mut page = Vec::new();
        let piece = stream.rebuilt.kept.iter().find(|(_, range)| range.contains(&from));
        let piece: Vec<_> =
            piece.map(|(piece, range)| (piece.clone(), from..range.end)).into_iter().collect();
        show(&mut self.image, stream.id, &piece, &mut |_, _, bytes| {
            page.push(Bytes::copy_from_slice(bytes));
            Ok(())
        })?;
        Ok(page)
    }

    /// Passes the readable records of a stream after a gap, which are not kept, to a closure.
    pub fn beyond(&mut self, stream: &Stream, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), Fault> {
        show(&mut self.image, stream.id, &stream.rebuilt.beyond, &mut |sequence, _, bytes| {
            each(sequence, bytes);
            Ok(())
        })
    }

    /// Writes the chosen streams and rows into a new store at `to`, which must not exist. Streams without kept records
    /// are omitted.
    pub fn write(
        &mut self,
        to: &Path,
        streams: &dyn Fn(&Stream) -> bool,
        rows: &dyn Fn(SalvagedRow<'_>) -> bool,
    ) -> Result<BlobsCopied, Fault> {
        let chosen: Vec<&Stream> =
            self.streams.iter().filter(|stream| !stream.is_lost() && streams(stream)).collect();
        let tails: Vec<_> = chosen.iter().map(|stream| (stream.key.clone(), stream.tail())).collect();
        let image = &mut self.image;
        let mut records = |write: RecordWriter<'_>| {
            for (number, stream) in chosen.iter().enumerate().filter(|(_, stream)| !stream.erased) {
                show(image, stream.id, &stream.rebuilt.kept, &mut |sequence, position, bytes| {
                    write(number, sequence, position, bytes)
                })?;
            }
            Ok(())
        };
        restore(to, &tails, &mut records, &mut rows_of_spaces(&self.rows).filter(|row| rows(*row)))?;
        self.blobs.copy_sound_to(&Blobs::of(to))
    }

    fn reassemble(&mut self, gathered: FoundContent, claim: &Claim) {
        let FoundContent { streams, names, mut positions, .. } = gathered;
        positions.sort_unstable();
        let mut found: BTreeMap<String, Stream> = BTreeMap::new();
        for (id, pieces) in streams {
            let Some(key) = self.name(id, &pieces, names.get(&id), claim) else {
                self.damage.nameless_records +=
                    pieces.pieces.iter().map(|one| one.end - one.first_sequence).sum::<u64>();
                continue;
            };
            let stream = self.stream(id, &key, &pieces);
            // Two numbers have one name, so one row is damaged. The one with more records is the stream.
            match found.get(&key) {
                Some(other) if other.end >= stream.end => {}
                _ => drop(found.insert(key, stream)),
            }
        }
        let last_missing = last_missing(&positions);
        self.streams = found.into_values().collect();
        for stream in &mut self.streams {
            let missing = self.damage.commits || stream.rebuilt.last_position() < last_missing;
            stream.may_continue = missing && !stream.erased;
        }
    }

    /// The name of a stream: from its chain, else from its row, the index or its records.
    fn name(
        &mut self,
        id: i64,
        found: &StreamPieces,
        indexed: Option<&String>,
        claim: &Claim,
    ) -> Option<String> {
        let first =
            found.pieces.iter().min_by_key(|piece| (piece.first_sequence, piece.proof != Soundness::Sound));
        let mut claimed = None;
        if let Some(first) = first {
            let only = [(first.clone(), first.first_sequence..first.first_sequence + 1)];
            let shown = show(&mut self.image, id, &only, &mut |_, _, bytes| {
                claimed = claim(bytes).map(|(name, _)| name);
                Ok(())
            });
            shown.ok()?;
        }
        let stored = found.row.as_ref().map(|row| row.key.clone());
        let names: Vec<String> = [stored, claimed, indexed.cloned()].into_iter().flatten().collect();
        let begins = |name: &&String| {
            let start = ChainValue::start(name);
            found.pieces.iter().any(|piece| {
                piece.first_sequence == 0 && piece.chain.is_some_and(|(before, _)| before == start)
            })
        };
        names.iter().find(begins).or(names.first()).cloned()
    }

    fn stream(&mut self, id: i64, key: &str, pieces: &StreamPieces) -> Stream {
        let rebuilt = reassemble(key, pieces);
        let mut head = rebuilt.start;
        let chained = show(&mut self.image, id, &rebuilt.kept, &mut |_, _, bytes| {
            head = head.then(bytes);
            Ok(())
        });
        let tombstone = pieces.row.as_ref().filter(|row| row.erased).map(classify::StreamRow::tombstone);
        Stream {
            key: key.into(),
            first_sequence: rebuilt.first_sequence,
            end: rebuilt.end,
            proven_end: rebuilt.proven_end,
            known_end: rebuilt.known_end,
            start: rebuilt.start,
            head,
            erased: tombstone.is_some(),
            lost_beginning: rebuilt.lost_beginning || chained.is_err(),
            beyond: rebuilt.beyond.iter().map(|(_, range)| range.end - range.start).sum(),
            may_continue: false,
            id,
            rebuilt,
            tombstone,
        }
    }
}

fn rows_of_spaces(rows: &Rows) -> impl Iterator<Item = SalvagedRow<'_>> {
    rows.iter().map(|((space, key), (version, value))| SalvagedRow { space, key, version: *version, value })
}

/// The content found on all pages, before it is reassembled.
#[derive(Default)]
struct FoundContent {
    streams: BTreeMap<i64, StreamPieces>,
    names: HashMap<i64, String>,
    rows: Rows,
    journal: FoundChanges,
    /// Ranges of positions whose records were found or removed.
    positions: Vec<(u64, u64)>,
    broken: u64,
    children: BTreeSet<u32>,
    /// Those of them that hold the last rows of a table.
    last_children: BTreeSet<u32>,
    trees: BTreeSet<u32>,
    /// Positions from which on content is unreadable; `u64::MAX` where the position is unknown.
    unreadable_from: Vec<u64>,
}

impl FoundContent {
    fn gather(&mut self, image: &mut Image, claim: &Claim) {
        let mut number = 0;
        while number < image.pages() {
            number += 1;
            let page = rows_of(image, number);
            self.broken += page.broken.len() as u64;
            self.unreadable_from.extend(
                page.broken
                    .iter()
                    .map(|number| number.and_then(|number| u64::try_from(number).ok()).unwrap_or(u64::MAX)),
            );
            if page.in_tree {
                self.trees.insert(number);
                self.children.extend(page.children);
                self.last_children.extend(page.last_child);
            }
            for row in page.rows {
                let number = row.number;
                self.take(classify(&row), number, claim);
            }
        }
    }

    /// The number of pages that a tree refers to and that are not tree pages.
    fn unreadable_pages(&self) -> u64 {
        self.children.difference(&self.trees).count() as u64
    }

    /// The last position that was found or removed.
    fn last_position(&self) -> u64 {
        self.positions.iter().map(|(_, last)| *last).max().unwrap_or(0)
    }

    /// Whether the newest content may be unreadable. Row numbers are positions in the hot part, and never larger
    /// elsewhere.
    fn lost_end(&self) -> bool {
        let last = self.last_position();
        self.unreadable_from.iter().any(|from| *from > last) || !self.last_children.is_subset(&self.trees)
    }

    fn take(&mut self, row: ClassifiedRow, number: Option<i64>, claim: &Claim) {
        match row {
            ClassifiedRow::Stream(row) => {
                let stream = self.streams.entry(row.id).or_default();
                stream.known_end = stream.known_end.max(row.next_sequence);
                let rank = |row: &classify::StreamRow| (row.erased, row.first_sequence, row.next_sequence);
                if stream.row.as_ref().is_none_or(|other| rank(other) < rank(&row)) {
                    stream.row = Some(row);
                }
            }
            ClassifiedRow::Name { id, key } => drop(self.names.insert(id, key)),
            ClassifiedRow::Chunk(chunk) => {
                let end = chunk.first_sequence + chunk.records.len() as u64;
                let head = chunk.records.iter().fold(chunk.start, |head, (_, bytes)| head.then(bytes));
                for (position, _) in &chunk.records {
                    match self.positions.last_mut() {
                        Some((_, last)) if *last + 1 == *position => *last = *position,
                        _ => self.positions.push((*position, *position)),
                    }
                }
                let stream = self.streams.entry(chunk.stream).or_default();
                stream.known_end = stream.known_end.max(end);
                stream.pieces.push(FoundRecords {
                    place: chunk.place,
                    first_sequence: chunk.first_sequence,
                    end,
                    last_position: chunk.records.last().map_or(0, |(position, _)| *position),
                    chain: Some((chunk.start, head)),
                    claimed: None,
                    proof: Soundness::Unknown,
                });
            }
            ClassifiedRow::Group(group) => self.group(&group, claim),
            ClassifiedRow::Feed { first, spans } => {
                let mut position = first;
                for span in spans {
                    if span.stream != NO_STREAM {
                        let stream = self.streams.entry(span.stream).or_default();
                        stream.known_end = stream.known_end.max(span.first_sequence + span.count);
                    }
                    // The stream of each record is known, so a missing one is reported with its stream.
                    self.positions.push((position, position + span.count.saturating_sub(1)));
                    position += span.count;
                }
            }
            ClassifiedRow::Changes { first_needed, rows } => self.journal.take(first_needed, rows),
            ClassifiedRow::Row(row) => {
                let NewRow { space, key, value, .. } = row;
                let Some((version, value)) = value else { return };
                let kept = self.rows.entry((space, key)).or_insert_with(|| (version, value.clone()));
                if kept.0 < version {
                    *kept = (version, value);
                }
            }
            ClassifiedRow::Root(page) => {
                self.children.insert(page);
                self.last_children.insert(page);
            }
            ClassifiedRow::Damaged => {
                self.broken += 1;
                self.unreadable_from.extend(number.and_then(|number| u64::try_from(number).ok()));
            }
            ClassifiedRow::Foreign => {}
        }
    }

    fn group(&mut self, group: &classify::GroupRow, claim: &Claim) {
        let last = group.first_position + group.slots.len() as u64 - 1;
        if group.sound || group.index_sound {
            self.positions.push((group.first_position, last));
        }
        if !group.sound {
            self.broken += 1;
            if !group.index_sound {
                self.unreadable_from.push(last);
            }
            // A sound index names the streams with lost records; no other stream lost any here.
            for slot in group.slots.iter().filter(|slot| group.index_sound && !slot.is_removed()) {
                let stream = self.streams.entry(slot.stream).or_default();
                stream.known_end = stream.known_end.max(slot.sequence + 1);
            }
            return;
        }
        let mut open: HashMap<i64, FoundRecords> = HashMap::new();
        for (position, slot) in
            (group.first_position..).zip(&group.slots).filter(|(_, slot)| !slot.is_removed())
        {
            // The sum covers the records and not the index with their streams.
            let claimed = claim(&group.joined[slot.range.clone()]);
            let Some((name, _)) = claimed.filter(|(_, sequence)| *sequence == slot.sequence) else {
                self.broken += 1;
                continue;
            };
            let stream = self.streams.entry(slot.stream).or_default();
            stream.known_end = stream.known_end.max(slot.sequence + 1);
            match open.get_mut(&slot.stream) {
                Some(piece) if piece.end == slot.sequence && piece.claimed.as_ref() == Some(&name) => {
                    (piece.end, piece.last_position) = (slot.sequence + 1, position);
                }
                _ => {
                    let piece = FoundRecords {
                        place: group.place,
                        first_sequence: slot.sequence,
                        end: slot.sequence + 1,
                        last_position: position,
                        chain: None,
                        claimed: Some(name),
                        proof: Soundness::Sound,
                    };
                    stream.pieces.extend(open.insert(slot.stream, piece));
                }
            }
        }
        for (stream, piece) in open {
            self.streams.entry(stream).or_default().pieces.push(piece);
        }
    }
}

/// Row changes that are only in the journal.
#[derive(Default)]
struct FoundChanges {
    first_needed: u64,
    rows: Vec<NewRow>,
}

impl FoundChanges {
    fn take(&mut self, first_needed: u64, rows: Vec<NewRow>) {
        // After the journal was emptied, numbers start at 1 again and no older ones exist.
        self.first_needed = self.first_needed.max(first_needed);
        self.rows.extend(rows);
    }

    /// The rows of the table with the changes of the journal applied.
    fn over(mut self, mut rows: Rows) -> Rows {
        self.rows.sort_by_key(|row| row.commit);
        let needed = self.rows.into_iter().filter(|row| row.commit >= self.first_needed);
        for NewRow { space, key, value, .. } in needed {
            match value {
                Some(value) => drop(rows.insert((space, key), value)),
                None => drop(rows.remove(&(space, key))),
            }
        }
        rows
    }
}

/// The last missing position; 0 if none is missing.
fn last_missing(positions: &[(u64, u64)]) -> u64 {
    let (mut next, mut missing) = (1, 0);
    for (first, last) in positions {
        if *first > next {
            missing = first - 1;
        }
        next = next.max(last + 1);
    }
    missing
}

/// Receives the sequence, position and bytes of a record.
type RecordVisitor<'e> = &'e mut dyn FnMut(u64, u64, &[u8]) -> Result<(), Fault>;

/// Passes records of one stream to a closure, piece by piece.
fn show(
    image: &mut Image,
    stream: i64,
    pieces: &[(FoundRecords, Range<u64>)],
    each: RecordVisitor<'_>,
) -> Result<(), Fault> {
    for (piece, wanted) in pieces {
        let changed = || {
            corrupt(format!(
                "page {} was read twice with different content; check the disk for failures",
                piece.place.page
            ))
        };
        let row = row_at(image, piece.place).ok_or_else(changed)?;
        match classify(&row) {
            ClassifiedRow::Chunk(chunk) => {
                for (sequence, (position, bytes)) in (chunk.first_sequence..).zip(&chunk.records) {
                    if wanted.contains(&sequence) {
                        each(sequence, *position, bytes)?;
                    }
                }
            }
            ClassifiedRow::Group(group) if group.sound => {
                for (position, slot) in (group.first_position..).zip(&group.slots) {
                    if slot.stream == stream && wanted.contains(&slot.sequence) {
                        each(slot.sequence, position, &group.joined[slot.range.clone()])?;
                    }
                }
            }
            _ => return Err(changed()),
        }
    }
    Ok(())
}

/// The position of the high-water mark; 0 without a readable mark.
fn acknowledged(data_dir: &Path) -> u64 {
    high_water(data_dir).ok().flatten().unwrap_or(0)
}

fn corrupt(message: String) -> Fault {
    Fault::new(FaultKind::Corrupt, Retry::Never, message)
}
