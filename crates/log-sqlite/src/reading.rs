//! Reads streams across the border between hot and sealed records.
//!
//! Sealing runs concurrently, so each read uses one snapshot of the database, and the index of the hot part from
//! *before* it (see `hot.rs`): records that were hot then are hot or sealed in the snapshot, and the snapshot's row of
//! the stream has the border. Nothing is read twice or skipped, and only ranges of rows need retries (see
//! `pending_rows.rs`). A missing record is a fault and never skipped.

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
use crate::connection::execute;
use crate::fault::{FaultContext as _, corrupt, with_damage};
use crate::hot::{Hot, Part};
use crate::layout::{self, StoredChunk, StreamTail};
use crate::packing::Slot;
use crate::pages::Pages;
use crate::rows;

/// A read transaction: one state of the database while it lives.
struct Snapshot<'c>(&'c Connection);

/// Begins a snapshot. The statements are cached, because parsing them would slow down small reads.
fn snapshot(connection: &Connection) -> Result<Snapshot<'_>, Fault> {
    execute(connection, "BEGIN").context("starting to read")?;
    Ok(Snapshot(connection))
}

/// The rows of a range in one snapshot, at most so many, and the damaged ones; `None` when `holds` returns false for
/// the snapshot.
pub(crate) fn rows(
    connection: &Connection,
    range: &RowRange,
    most: usize,
    holds: &dyn Fn() -> bool,
) -> Result<Option<WholeRows>, Fault> {
    let context = || format!("reading rows of space {}", range.space);
    let snapshot = snapshot(connection)?;
    // SQLite takes the snapshot at the first read.
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

impl std::ops::Deref for Snapshot<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // Nothing was written, so a rollback equals a commit.
        if let Err(error) = execute(self.0, "ROLLBACK") {
            tracing::warn!(%error, "cannot end a read transaction");
        }
    }
}

/// The end of a stream without its chain value. It reads only the row of the stream, and nothing if the stream is hot.
pub(crate) fn end(connection: &Connection, hot: &Hot, key: &StreamKey) -> Result<Option<End>, Fault> {
    if let Some(known) = hot.known(key) {
        return Ok(Some(known.end()));
    }
    let stored = tail_of(connection, key)?;
    // A stream whose first record is newer than the index has nothing sealed.
    Ok(stored.filter(|tail| tail.next_sequence > 0).map(|tail| tail.known().end()))
}

/// The tail of a stream with its chain value: reads the hot records and adds them to the chain of the sealed part.
pub(crate) fn tail(connection: &Connection, hot: &Hot, key: &StreamKey) -> Result<Option<Tail>, Fault> {
    let found = hot.known_with_parts(key);
    let snapshot = snapshot(connection)?;
    let stored = tail_of(&snapshot, key)?;
    let Some(mut tail) = stored else { return Ok(None) };
    if let Some((known, parts)) = found {
        let all = ReadBound { count: usize::MAX, bytes: usize::MAX };
        let mut page = PageReader::new(key, tail.next_sequence, all, tail.head);
        let read = page.hot(&snapshot, &tail, &parts);
        read.map_err(|fault| page.with_damage(&snapshot, &tail, &parts, fault))?;
        tail.head = page.sink;
        // The sealed part of the snapshot may go further than the index.
        if known.next_sequence > tail.next_sequence {
            page.check_next(known.next_sequence)?;
            (tail.next_sequence, tail.last_position) = (known.next_sequence, known.last_position);
        }
    }
    Ok(Some(tail).filter(|tail| tail.next_sequence > 0).map(StreamTail::to_tail))
}

fn tail_of(connection: &Connection, key: &StreamKey) -> Result<Option<StreamTail>, Fault> {
    let stored = layout::stream_tail_for_sure(connection, key);
    let stored = stored.context(&format!("reading the row of stream {key}"));
    // With a damaged stream row, its records cannot be located.
    stored.map_err(|fault| with_damage(fault, || Damage { stream: Some(key.clone()), ..Damage::default() }))
}

/// Reads records of one stream. A missing record is a fault.
pub(crate) fn stream(
    connection: &Connection,
    hot: &Hot,
    key: &StreamKey,
    from: u64,
    bound: ReadBound,
) -> Result<Vec<Record>, Fault> {
    let parts = hot.parts(key, from, bound.count.max(1));
    page(connection, &parts, key, from, bound, Vec::new())
        .map_err(|fault| damage_to_end(fault, hot, key, from))
}

/// Sets the damaged range of a stream with a damaged row: all of it, up to its end if the hot index knows it.
fn damage_to_end(mut fault: Fault, hot: &Hot, key: &StreamKey, from: u64) -> Fault {
    let end = hot.known(key).map(|known| known.next_sequence).filter(|end| *end > from);
    if let (Some(end), Some(damage)) = (end, &mut fault.damage)
        && damage.sequences.is_none()
    {
        damage.sequences = Some(from..=end - 1);
    }
    fault
}

/// Reads the same records into one page of bytes. A page that is not empty ends before a chunk that does not fit, so
/// that no chunk is read twice.
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
    let sink = WrittenPage { write, pages, out: BytesMut::new(), ends: None };
    let page = page(connection, &parts, key, from, bound, sink);
    let WrittenPage { out, ends, .. } = page.map_err(|fault| damage_to_end(fault, hot, key, from))?;
    Ok(ends.map(|(first, last)| RecordPage { bytes: pages.page(out), first, last }))
}

/// Receives the records of a page.
trait RecordSink {
    /// Whether a page may end before its bound where the next chunk does not fit.
    const ENDS_WITH_CHUNKS: bool;

    /// So many bytes are still to come.
    fn reserve(&mut self, bytes: usize, records: usize);

    fn take(&mut self, position: u64, sequence: u64, bytes: &[u8]);
}

impl RecordSink for Vec<Record> {
    const ENDS_WITH_CHUNKS: bool = false;

    fn reserve(&mut self, _bytes: usize, _records: usize) {}

    fn take(&mut self, position: u64, sequence: u64, bytes: &[u8]) {
        self.push(Record { position, sequence, bytes: Bytes::copy_from_slice(bytes) });
    }
}

/// Computes the chain over the records without storing them.
impl RecordSink for ChainValue {
    const ENDS_WITH_CHUNKS: bool = false;

    fn reserve(&mut self, _bytes: usize, _records: usize) {}

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

impl RecordSink for WrittenPage<'_> {
    const ENDS_WITH_CHUNKS: bool = true;

    fn reserve(&mut self, bytes: usize, records: usize) {
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

/// The estimated bytes that a page writer adds per record.
const WRITTEN_EXTRA_BYTES: usize = 24;

/// Fills a page from a snapshot that is newer than `parts`.
fn page<F: RecordSink>(
    connection: &Connection,
    parts: &[Part],
    key: &StreamKey,
    from: u64,
    bound: ReadBound,
    sink: F,
) -> Result<F, Fault> {
    let snapshot = snapshot(connection)?;
    let stored = tail_of(&snapshot, key)?;
    let Some(stored) = stored else { return Ok(sink) };
    let mut page = PageReader::new(key, from.max(stored.first_sequence), bound, sink);
    match page.sealed(&snapshot, &stored).and_then(|()| page.hot(&snapshot, &stored, parts)) {
        // Records before damage are returned; a read that begins at the damage fails.
        Err(fault) if page.taken == 0 => Err(page.with_damage(&snapshot, &stored, parts, fault)),
        _ => Ok(page.sink),
    }
}

/// A page of one stream that is being filled.
struct PageReader<'k, F> {
    key: &'k StreamKey,
    next: u64,
    count: usize,
    bound: ReadBound,
    meter: Meter,
    sink: F,
    taken: usize,
    bytes: usize,
}

impl<'k, F: RecordSink> PageReader<'k, F> {
    fn new(key: &'k StreamKey, next: u64, bound: ReadBound, sink: F) -> Self {
        let (count, meter) = (bound.count.max(1), bound.meter());
        PageReader { key, next, count, bound, meter, sink, taken: 0, bytes: 0 }
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
            self.check_next(chunk.first_sequence.max(self.next))?;
            let bytes = chunk.bytes_from(self.next);
            if F::ENDS_WITH_CHUNKS && self.taken > 0 && self.bytes + bytes > self.bound.bytes {
                full = true;
                return Ok(false);
            }
            let remaining = usize::try_from(chunk.end().saturating_sub(self.next)).unwrap_or(usize::MAX);
            self.sink.reserve(bytes.min(self.bound.bytes), remaining.min(self.count));
            while let Some((position, bytes)) = chunk.record(self.next) {
                if !self.take(position, bytes) {
                    full = true;
                    return Ok(false);
                }
            }
            full = self.is_well_filled();
            Ok(!full)
        })?;
        if full || self.is_full() { Ok(()) } else { self.check_next(stored.next_sequence) }
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
            self.check_next(part.first_sequence.max(self.next))?;
            if self.is_well_filled() {
                break;
            }
            let full = layout::group_at(connection, part.group, |group| {
                group.check()?;
                let ours = |slot: &&Slot| {
                    slot.stream == stored.id && slot.sequence >= self.next && slot.sequence < end
                };
                let bytes: usize = group.slots.iter().filter(ours).map(|slot| slot.range.len()).sum();
                let remaining = usize::try_from(end - self.next).unwrap_or(usize::MAX);
                let free = self.bound.bytes.saturating_sub(self.bytes);
                self.sink.reserve(bytes.min(free), remaining.min(self.count - self.taken));
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
            self.check_next(end)?;
        }
        Ok(())
    }

    /// Adds the range to a fault of damage: up to the next chunk, or to the end of one append.
    fn with_damage(
        &self,
        connection: &Connection,
        stored: &StreamTail,
        parts: &[Part],
        fault: Fault,
    ) -> Fault {
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
        with_damage(fault, || Damage { stream: Some(self.key.clone()), sequences, positions: None })
    }

    fn take(&mut self, position: u64, bytes: &[u8]) -> bool {
        if !self.meter.admits(bytes.len()) {
            return false;
        }
        self.sink.take(position, self.next, bytes);
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
    fn check_next(&self, found: u64) -> Result<(), Fault> {
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

    /// A writer without its thread.
    struct TestWriter {
        connection: Connection,
        tails: Tails,
        hot: Hot,
    }

    impl TestWriter {
        fn new() -> Self {
            let connection = Connection::open_in_memory().unwrap();
            schema::migrate(&connection, "a database in memory").unwrap();
            TestWriter { connection, tails: Tails::new(8), hot: Hot::default() }
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
            group.add(append).unwrap().unwrap();
            group.finish().unwrap();
            written.publish(&self.hot, &pending_rows, &mut journal);
        }

        /// Seals the records of so many oldest groups. The groups stay.
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
            self.hot.add_sealed(seal::write_chunks(&self.connection, &pieces).unwrap());
            units
        }

        fn remove_groups(&mut self, units: &[Unit]) {
            seal::remove_groups(&self.connection, units).unwrap();
            for unit in units {
                self.hot.remove_groups(unit.last_position, &unit.streams);
            }
        }
    }

    /// Between reading the index and taking the snapshot the writer may seal, remove and append. Nothing is read twice,
    /// no indexed record is missed, and no removed record appears.
    #[test]
    fn indexed_records_are_found_hot_or_sealed() {
        let key: StreamKey = "a".into();
        let mut writer = TestWriter::new();
        for n in 0..6 {
            writer.append(&both(records("a", n, &[&[n as u8]]), records("b", n, &[b"other"])));
        }
        let parts = writer.hot.parts(&key, 0, limits::APPENDS_WAITING_MAX);
        assert_eq!(parts.len(), 6);
        let check = |writer: &TestWriter, expected: std::ops::Range<u64>, what: &str| {
            for from in 0..6 {
                let read = page(&writer.connection, &parts, &key, from, ALL, Vec::<Record>::new()).unwrap();
                let sequences: Vec<u64> = read.iter().map(|record| record.sequence).collect();
                let expected = expected.clone().filter(|sequence| *sequence >= from);
                assert_eq!(sequences, expected.collect::<Vec<_>>(), "{what}, from {from}");
            }
        };
        check(&writer, 0..6, "at once");
        for sealed in 1..4 {
            let units = writer.seal(1);
            check(&writer, 0..6, &format!("{sealed} groups were sealed, the last still exists"));
            writer.remove_groups(&units);
            check(&writer, 0..6, &format!("{sealed} groups were sealed"));
        }
        // Of which the groups stay for now.
        writer.seal(1);
        writer.append(&records("a", 6, &[b"later"]));
        check(&writer, 0..6, "later records are not in the index");
        writer.append(&cut("a", 2));
        check(&writer, 2..6, "sealed records were removed");
        writer.append(&cut("a", 5));
        check(&writer, 5..6, "hot records were removed");
        let units = writer.seal(4);
        check(&writer, 5..7, "all was sealed, and the snapshot is complete");
        writer.remove_groups(&units);
        check(&writer, 5..7, "all was sealed and the groups were removed");
        assert_eq!(writer.hot.totals(), (Totals::default(), layout::totals(&writer.connection).unwrap()));
        assert_eq!(stream(&writer.connection, &writer.hot, &key, 0, ALL).unwrap().len(), 2);
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
        let (mut writer, pages) = (TestWriter::new(), Arc::new(Pages::default()));
        for n in 0..3 {
            writer.append(&records("a", n * 3, &[b"xxxx", b"yyyy", b"zzzz"]));
        }
        let check = |writer: &TestWriter, what: &str| {
            for (bytes, ends) in [(4, &[0, 1, 2, 3, 4, 5, 6, 7, 8][..]), (23, &[2, 5, 8]), (40, &[5, 8])] {
                let bound = ReadBound { count: 100, bytes };
                let (mut next, mut found, mut text) = (0, Vec::new(), Vec::new());
                while let Some(page) =
                    record_page(&writer.connection, &writer.hot, &key, next, bound, &numbered(), &pages)
                        .unwrap()
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
        check(&writer, "hot");
        writer.seal(1);
        check(&writer, "one group is sealed");
        writer.seal(2);
        check(&writer, "all is sealed");
    }
}
