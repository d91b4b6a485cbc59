//! Reads streams across the border between hot and sealed.
//!
//! Sealing goes on meanwhile, so each read uses one snapshot of the database, and the index of the hot
//! part from *before* that (see `hot.rs`): what was hot then is, in the snapshot, hot still or sealed by now, and
//! the snapshot's row of the stream has the border. Nothing is read twice or skipped, and
//! nothing needs a retry, except ranges of rows (see `pending_rows.rs`). A missing record is a fault and never skipped.

mod feed;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use recount_log::chain::ChainValue;
use recount_log::{
    Damage, End, Fault, Meter, PageWriter, ReadBound, Record, RecordPage, RowRange, StreamKey, Tail,
    WholeRows,
};
use rusqlite::Connection;

pub(crate) use self::feed::feed;
use crate::fault::{FaultContext as _, about, corrupt};
use crate::hot::{Hot, Part};
use crate::layout::{self, StoredChunk, StreamTail};
use crate::packing::Slot;
use crate::pages::Pages;
use crate::rows;

/// One state of the database for several questions, as long as it lives.
struct Snapshot<'c>(&'c Connection);

/// The words that begin and end it are prepared once: a page is read too quickly to parse them each time.
fn snapshot(connection: &Connection) -> Result<Snapshot<'_>, Fault> {
    execute(connection, "BEGIN").context("starting to read")?;
    Ok(Snapshot(connection))
}

/// Up to so many rows of a range, as the table has them in one snapshot, and the damaged ones of it; `None` when `holds`
/// returns false for the snapshot.
pub(crate) fn rows(
    connection: &Connection,
    range: &RowRange,
    most: usize,
    holds: &dyn Fn() -> bool,
) -> Result<Option<WholeRows>, Fault> {
    let context = || format!("reading rows of space {}", range.space);
    let snapshot = snapshot(connection)?;
    // It is taken when something is read.
    layout::fence(&snapshot).context(&context())?;
    if !holds() {
        return Ok(None);
    }
    match rows::rows(&snapshot, range, most) {
        Ok(rows) => Ok(Some(WholeRows { rows, damaged: Vec::new() })),
        Err(error) if rows::is_of_row(&error) => {
            rows::whole_rows(&snapshot, range, most).context(&context()).map(Some)
        }
        Err(error) => Err(error).context(&context()),
    }
}

fn execute(connection: &Connection, word: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(word)?.execute([]).map(drop)
}

impl std::ops::Deref for Snapshot<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // It was only read, so this is as good as committing.
        if let Err(error) = execute(self.0, "ROLLBACK") {
            tracing::warn!(%error, "cannot end a read transaction");
        }
    }
}

/// Where a stream ends, without what its records add up to: nothing is read but its row, and not even that
/// while something of it is hot.
pub(crate) fn end(connection: &Connection, hot: &Hot, key: &StreamKey) -> Result<Option<End>, Fault> {
    if let Some(known) = hot.known(key) {
        return Ok(Some(known.end()));
    }
    let stored = tail_of(connection, key)?;
    // A stream that got its first record just now is not known to the index above and has nothing sealed.
    Ok(stored.filter(|tail| tail.next_sequence > 0).map(|tail| tail.known().end()))
}

/// The same with the chain: hot records are read and added to the chain of the sealed part.
pub(crate) fn tail(connection: &Connection, hot: &Hot, key: &StreamKey) -> Result<Option<Tail>, Fault> {
    let found = hot.known_with_parts(key);
    let snapshot = snapshot(connection)?;
    let stored = tail_of(&snapshot, key)?;
    let Some(mut tail) = stored else { return Ok(None) };
    if let Some((known, parts)) = found {
        let all = ReadBound { count: usize::MAX, bytes: usize::MAX };
        let mut page = PageReader::new(key, tail.next_sequence, all, tail.head);
        let read = page.hot(&snapshot, &tail, &parts);
        read.map_err(|fault| page.about(&snapshot, &tail, &parts, fault))?;
        tail.head = page.filling;
        // The part sealed meanwhile may go further than the index did.
        if known.next_sequence > tail.next_sequence {
            page.expect(known.next_sequence)?;
            (tail.next_sequence, tail.last_position) = (known.next_sequence, known.last_position);
        }
    }
    Ok(Some(tail).filter(|tail| tail.next_sequence > 0).map(StreamTail::told))
}

fn tail_of(connection: &Connection, key: &StreamKey) -> Result<Option<StreamTail>, Fault> {
    let stored = layout::stream_tail_for_sure(connection, key);
    let stored = stored.context(&format!("reading the row of stream {key}"));
    // With a damaged stream row, its records cannot be located.
    stored.map_err(|fault| about(fault, || Damage { stream: Some(key.clone()), ..Damage::default() }))
}

/// Records of one stream. A gap is a fault: what is missing is never passed over in silence.
pub(crate) fn stream(
    connection: &Connection,
    hot: &Hot,
    key: &StreamKey,
    from: u64,
    bound: ReadBound,
) -> Result<Vec<Record>, Fault> {
    let parts = hot.parts(key, from, bound.count.max(1));
    page(connection, &parts, key, from, bound, Vec::new()).map_err(|fault| up_to_end(fault, hot, key, from))
}

/// Where the row of a stream is damaged, all of it is: to where it ends, if that is known from what is hot.
fn up_to_end(mut fault: Fault, hot: &Hot, key: &StreamKey, from: u64) -> Fault {
    let end = hot.known(key).map(|known| known.next_sequence).filter(|end| *end > from);
    if let (Some(end), Some(damage)) = (end, &mut fault.damage)
        && damage.sequences.is_none()
    {
        damage.sequences = Some(from..=end - 1);
    }
    fault
}

/// The same records, written one after the other. Where a page holds something already, it ends before the
/// chunk that it cannot take whole, so that no chunk is read twice.
pub(crate) fn record_page(
    connection: &Connection,
    hot: &Hot,
    key: &StreamKey,
    from: u64,
    bound: ReadBound,
    write: &PageWriter,
    pages: &Arc<Pages>,
) -> Result<Option<RecordPage>, Fault> {
    let parts = hot.parts(key, from, bound.count.max(1));
    let filling = WrittenPage { write, pages, out: BytesMut::new(), ends: None };
    let page = page(connection, &parts, key, from, bound, filling);
    let WrittenPage { out, ends, .. } = page.map_err(|fault| up_to_end(fault, hot, key, from))?;
    Ok(ends.map(|(first, last)| RecordPage { bytes: pages.page(out), first, last }))
}

/// Where the records of a page go.
trait Filling {
    /// Whether a page may end before its bound where the next chunk does not fit.
    const ENDS_WITH_CHUNKS: bool;

    /// So many bytes are about to come.
    fn expect(&mut self, bytes: usize, records: usize);

    fn take(&mut self, position: u64, sequence: u64, bytes: &[u8]);
}

impl Filling for Vec<Record> {
    const ENDS_WITH_CHUNKS: bool = false;

    fn expect(&mut self, _bytes: usize, _records: usize) {}

    fn take(&mut self, position: u64, sequence: u64, bytes: &[u8]) {
        self.push(Record { position, sequence, bytes: Bytes::copy_from_slice(bytes) });
    }
}

/// The chain over the records; they themselves are not kept.
impl Filling for ChainValue {
    const ENDS_WITH_CHUNKS: bool = false;

    fn expect(&mut self, _bytes: usize, _records: usize) {}

    fn take(&mut self, _position: u64, _sequence: u64, bytes: &[u8]) {
        *self = self.then(bytes);
    }
}

struct WrittenPage<'f> {
    write: &'f PageWriter,
    pages: &'f Pages,
    out: BytesMut,
    /// The first and the last sequence.
    ends: Option<(u64, u64)>,
}

impl Filling for WrittenPage<'_> {
    const ENDS_WITH_CHUNKS: bool = true;

    fn expect(&mut self, bytes: usize, records: usize) {
        let bytes = bytes + records * WRITTEN_EXTRA_BYTES;
        if self.out.capacity() == 0 {
            self.out = self.pages.buffer(bytes);
        }
        self.out.reserve(bytes);
    }

    fn take(&mut self, _position: u64, sequence: u64, bytes: &[u8]) {
        (self.write)(sequence, bytes, &mut self.out);
        let first = self.ends.map_or(sequence, |(first, _)| first);
        self.ends = Some((first, sequence));
    }
}

/// What a writer is guessed to add to a record.
const WRITTEN_EXTRA_BYTES: usize = 24;

/// A page, after the index was read, however long ago.
fn page<F: Filling>(
    connection: &Connection,
    parts: &[Part],
    key: &StreamKey,
    from: u64,
    bound: ReadBound,
    filling: F,
) -> Result<F, Fault> {
    let snapshot = snapshot(connection)?;
    let stored = tail_of(&snapshot, key)?;
    let Some(stored) = stored else { return Ok(filling) };
    let mut page = PageReader::new(key, from.max(stored.first_sequence), bound, filling);
    match page.sealed(&snapshot, &stored).and_then(|()| page.hot(&snapshot, &stored, parts)) {
        // Records before damage are returned; a read that begins at the damage fails.
        Err(fault) if page.taken == 0 => Err(page.about(&snapshot, &stored, parts, fault)),
        _ => Ok(page.filling),
    }
}

/// A page of one stream as it fills.
struct PageReader<'k, F> {
    key: &'k StreamKey,
    next: u64,
    count: usize,
    bound: ReadBound,
    meter: Meter,
    filling: F,
    taken: usize,
    bytes: usize,
}

impl<'k, F: Filling> PageReader<'k, F> {
    fn new(key: &'k StreamKey, next: u64, bound: ReadBound, filling: F) -> Self {
        let (count, meter) = (bound.count.max(1), bound.meter());
        PageReader { key, next, count, bound, meter, filling, taken: 0, bytes: 0 }
    }

    fn sealed(&mut self, connection: &Connection, stored: &StreamTail) -> Result<(), Fault> {
        if self.next >= stored.next_sequence {
            return Ok(());
        }
        let mut full = false;
        layout::chunks_from(connection, stored, self.next, &mut |chunk: StoredChunk<'_>| {
            if self.is_full() {
                return Ok(false);
            }
            self.expect(chunk.first_sequence.max(self.next))?;
            let bytes = chunk.bytes_from(self.next);
            if F::ENDS_WITH_CHUNKS && self.taken > 0 && self.bytes + bytes > self.bound.bytes {
                full = true;
                return Ok(false);
            }
            let left = usize::try_from(chunk.end().saturating_sub(self.next)).unwrap_or(usize::MAX);
            self.filling.expect(bytes.min(self.bound.bytes), left.min(self.count));
            while let Some((position, bytes)) = chunk.record(self.next) {
                if !self.take(position, bytes) {
                    full = true;
                    return Ok(false);
                }
            }
            full = self.is_well_filled();
            Ok(!full)
        })?;
        if full || self.is_full() { Ok(()) } else { self.expect(stored.next_sequence) }
    }

    fn hot(&mut self, connection: &Connection, stored: &StreamTail, parts: &[Part]) -> Result<(), Fault> {
        if self.next < stored.next_sequence {
            return Ok(());
        }
        for part in parts {
            let end = part.first_sequence + part.count;
            if end <= self.next {
                continue;
            }
            if self.is_full() {
                break;
            }
            self.expect(part.first_sequence.max(self.next))?;
            if self.is_well_filled() {
                break;
            }
            let full = layout::group_at(connection, part.group, |group| {
                group.check()?;
                let ours = |slot: &&Slot| {
                    slot.stream == stored.id && slot.sequence >= self.next && slot.sequence < end
                };
                let bytes: usize = group.slots.iter().filter(ours).map(|slot| slot.range.len()).sum();
                let left = usize::try_from(end - self.next).unwrap_or(usize::MAX);
                let room = self.bound.bytes.saturating_sub(self.bytes);
                self.filling.expect(bytes.min(room), left.min(self.count - self.taken));
                for (position, slot, bytes) in group.records() {
                    let ours = slot.stream == stored.id && slot.sequence == self.next && self.next < end;
                    if ours && !self.take(position, bytes) {
                        return Ok(true);
                    }
                }
                Ok(false)
            })?;
            if full {
                return Ok(());
            }
            self.expect(end)?;
        }
        Ok(())
    }

    /// Adds to damage how far it goes: to the start of the next chunk, or to the end of one append.
    fn about(&self, connection: &Connection, stored: &StreamTail, parts: &[Part], fault: Fault) -> Fault {
        let sealed_end = || match layout::chunk_after(connection, stored.id, self.next) {
            Ok(Some(first)) => first.min(stored.next_sequence),
            Ok(None) | Err(_) => stored.next_sequence,
        };
        let hot_end = || {
            let part = parts.iter().find(|part| part.first_sequence + part.count > self.next)?;
            let inside = part.first_sequence <= self.next;
            Some(if inside { part.first_sequence + part.count } else { part.first_sequence })
        };
        let is_sealed = self.next < stored.next_sequence;
        let end = if is_sealed { Some(sealed_end()) } else { hot_end() };
        let sequences = end.map(|end| self.next..=end - 1);
        about(fault, || Damage { stream: Some(self.key.clone()), sequences, positions: None })
    }

    fn take(&mut self, position: u64, bytes: &[u8]) -> bool {
        if !self.meter.admits(bytes.len()) {
            return false;
        }
        self.filling.take(position, self.next, bytes);
        self.taken += 1;
        self.bytes += bytes.len();
        self.next += 1;
        true
    }

    fn is_full(&self) -> bool {
        self.taken >= self.count
    }

    /// Whether a page that may end early ends here. The next chunk or group would likely not fit, and
    /// SQLite copies all of it out of its pages before its size is known.
    fn is_well_filled(&self) -> bool {
        F::ENDS_WITH_CHUNKS && self.taken > 0 && self.bytes >= self.bound.bytes / 2
    }

    /// Checks that the next record is the expected one.
    fn expect(&self, found: u64) -> Result<(), Fault> {
        if found == self.next {
            return Ok(());
        }
        let (key, expected) = (self.key, self.next);
        Err(corrupt(format!(
            "stream {key} has sequence {found}, expected sequence {expected}; check the store with `recount verify \
             --data`"
        )))
    }
}

#[cfg(test)]
mod tests {
    use recount_log::{Append, limits};
    use recount_log_conformance::{ALL, both, cut, records};

    use super::*;
    use crate::changes::ChangeJournal;
    use crate::gather::{Unit, Window, WindowBounds};
    use crate::group::{Group, GroupContext, GroupOutcome};
    use crate::layout::Totals;
    use crate::pending_rows::PendingRows;
    use crate::tails::Tails;
    use crate::{schema, seal};

    /// What the writer does, without its thread.
    struct Hand {
        connection: Connection,
        tails: Tails,
        hot: Hot,
    }

    impl Hand {
        fn new() -> Self {
            let connection = Connection::open_in_memory().unwrap();
            schema::migrate(&connection, "a database in memory").unwrap();
            Hand { connection, tails: Tails::new(8), hot: Hot::default() }
        }

        fn append(&mut self, append: &Append) {
            let mut written = GroupOutcome::default();
            let (pending_rows, mut journal) = (PendingRows::default(), ChangeJournal::default());
            let shared = GroupContext {
                hot: &self.hot,
                pending_rows: &pending_rows,
                journal: &journal,
                fresh_rows_max: 1,
            };
            let mut group = Group::begin(&self.connection, &mut self.tails, shared, &mut written);
            group.land(append).unwrap().unwrap();
            group.finish().unwrap();
            written.remember(&self.hot, &pending_rows, &mut journal);
        }

        /// Puts the oldest records of so many groups into chunks. The groups stay.
        fn seal(&mut self, groups: u64) -> Vec<Unit> {
            // Of two records each.
            let most = Totals { records: 2 * groups, bytes: u64::MAX };
            let bounds = WindowBounds { from: 0, last_position: u64::MAX, least_bytes: u64::MAX, most };
            let mut window = Window::new(&self.connection);
            window.gather(&bounds, &|| false).unwrap();
            let mut pieces = Vec::new();
            let all = &mut |piece| {
                pieces.push(piece);
                Ok(true)
            };
            window.pieces(all).unwrap();
            let units = window.units().unwrap();
            self.hot.sealed(seal::land(&self.connection, &pieces).unwrap());
            units
        }

        fn take_away(&mut self, units: &[Unit]) {
            seal::take_away(&self.connection, units).unwrap();
            for unit in units {
                self.hot.taken_away(unit.last_position, &unit.streams);
            }
        }
    }

    /// However much happens between reading the index and taking the snapshot, nothing is read twice,
    /// nothing is missed that existed when the index was read, and nothing removed reappears.
    #[test]
    fn what_the_index_told_is_found_wherever_it_is_by_now() {
        let key: StreamKey = "a".into();
        let mut hand = Hand::new();
        for n in 0..6 {
            hand.append(&both(records("a", n, &[&[n as u8]]), records("b", n, &[b"other"])));
        }
        let parts = hand.hot.parts(&key, 0, limits::APPENDS_WAITING_MAX);
        assert_eq!(parts.len(), 6);
        let check = |hand: &Hand, expected: std::ops::Range<u64>, what: &str| {
            for from in 0..6 {
                let read = page(&hand.connection, &parts, &key, from, ALL, Vec::<Record>::new()).unwrap();
                let sequences: Vec<u64> = read.iter().map(|record| record.sequence).collect();
                let expected = expected.clone().filter(|sequence| *sequence >= from);
                assert_eq!(sequences, expected.collect::<Vec<_>>(), "{what}, from {from}");
            }
        };
        check(&hand, 0..6, "at once");
        for sealed in 1..4 {
            let units = hand.seal(1);
            check(&hand, 0..6, &format!("{sealed} groups were sealed, the last is there still"));
            hand.take_away(&units);
            check(&hand, 0..6, &format!("{sealed} groups were sealed"));
        }
        // Of which the groups stay for now.
        hand.seal(1);
        hand.append(&records("a", 6, &[b"later"]));
        check(&hand, 0..6, "what came later is for who asks later");
        hand.append(&cut("a", 2));
        check(&hand, 2..6, "sealed records were taken away");
        hand.append(&cut("a", 5));
        check(&hand, 5..6, "hot records were taken away");
        let units = hand.seal(4);
        check(&hand, 5..7, "all was sealed, and tells what is there");
        hand.take_away(&units);
        check(&hand, 5..7, "all was sealed and the groups are gone");
        assert_eq!(hand.hot.totals(), (Totals::default(), layout::totals(&hand.connection).unwrap()));
        assert_eq!(stream(&hand.connection, &hand.hot, &key, 0, ALL).unwrap().len(), 2);
    }

    fn numbered() -> PageWriter {
        Box::new(|sequence, record, out| {
            out.extend_from_slice(format!("{sequence}:").as_bytes());
            out.extend_from_slice(record);
        })
    }

    /// A page that is half full ends at the end of a group or chunk, and the next one continues there.
    #[test]
    fn pages_that_are_half_full_end_with_their_chunk_or_group() {
        let key: StreamKey = "a".into();
        let (mut hand, pages) = (Hand::new(), Arc::new(Pages::default()));
        for n in 0..3 {
            hand.append(&records("a", n * 3, &[b"xxxx", b"yyyy", b"zzzz"]));
        }
        let check = |hand: &Hand, what: &str| {
            for (bytes, ends) in [(4, &[0, 1, 2, 3, 4, 5, 6, 7, 8][..]), (23, &[2, 5, 8]), (40, &[5, 8])] {
                let bound = ReadBound { count: 100, bytes };
                let (mut next, mut found, mut text) = (0, Vec::new(), Vec::new());
                while let Some(page) =
                    record_page(&hand.connection, &hand.hot, &key, next, bound, &numbered(), &pages).unwrap()
                {
                    assert_eq!(page.first, next, "{what}, {bytes} bytes");
                    next = page.last + 1;
                    found.push(page.last);
                    text.extend_from_slice(&page.bytes);
                }
                assert_eq!(found, ends, "{what}, {bytes} bytes");
                assert_eq!(text, b"0:xxxx1:yyyy2:zzzz3:xxxx4:yyyy5:zzzz6:xxxx7:yyyy8:zzzz", "{what}");
            }
        };
        check(&hand, "hot");
        hand.seal(1);
        check(&hand, "one group is sealed");
        hand.seal(2);
        check(&hand, "all is sealed");
    }
}
