//! Reads of records: a stream, the feed of all streams, and the chain over a stream.
//!
//! It must not change anything. Each record is checked against its checksum; damaged or missing ones end a page.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use recount_log::chain::ChainValue;
use recount_log::{Damage, Fault, FeedRecord, ReadBound, Record, StreamKey, Tail};
use tokio_postgres::Row;

use crate::connect::{Parameters, Readers};
use crate::limits;
use crate::sql::Sql;
use crate::streams::{self, StreamState, bounded, number, record_sum, text};

/// What reads remember: none of it can change, so it needs no invalidation.
#[derive(Default)]
pub(crate) struct Remembered(Mutex<Facts>);

#[derive(Default)]
struct Facts {
    /// The numbers and first positions of streams.
    ids: HashMap<StreamKey, (i64, u64)>,
    /// By stream: a sequence, and the chain value before it.
    heads: HashMap<i64, (u64, ChainValue)>,
}

impl Remembered {
    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, stream: &str) -> Option<(i64, u64)> {
        self.lock().ids.get(stream).copied()
    }

    fn put_id(&self, stream: &StreamKey, id: (i64, u64)) {
        let mut facts = self.lock();
        if facts.ids.len() >= limits::REMEMBERED_MAX {
            facts.ids.clear();
        }
        facts.ids.insert(stream.clone(), id);
    }

    fn head(&self, id: i64) -> Option<(u64, ChainValue)> {
        self.lock().heads.get(&id).copied()
    }

    fn put_head(&self, id: i64, sequence: u64, head: ChainValue) {
        let mut facts = self.lock();
        if facts.heads.len() >= limits::REMEMBERED_MAX {
            facts.heads.clear();
        }
        facts.heads.insert(id, (sequence, head));
    }
}

/// What reads need of a store.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) readers: &'a Readers,
    pub(crate) sql: &'a Sql,
    pub(crate) remembered: &'a Remembered,
}

/// A record as it is stored, and whether it fits its checksum.
pub(crate) struct StoredRecord {
    pub(crate) record: Record,
    pub(crate) is_whole: bool,
}

impl StoredRecord {
    pub(crate) fn of(row: &Row) -> Self {
        let (position, stream): (i64, i64) = (row.get(0), row.get(1));
        let (position, sequence) = (position.cast_unsigned(), row.get::<_, i64>(2).cast_unsigned());
        let bytes = Bytes::copy_from_slice(row.get(3));
        let is_whole = record_sum(position, stream, sequence, &bytes) == row.get::<_, i64>(4);
        StoredRecord { record: Record { position, sequence, bytes }, is_whole }
    }
}

impl Reading<'_> {
    async fn id(&self, stream: &StreamKey) -> Result<Option<(i64, u64)>, Fault> {
        if let Some(id) = self.remembered.id(stream) {
            return Ok(Some(id));
        }
        let found = streams::find(self.readers, self.sql, stream).await?;
        Ok(found.map(|state| {
            let id = (state.id, state.first_position);
            self.remembered.put_id(stream, id);
            id
        }))
    }

    /// One page of a stream as it is stored.
    pub(crate) async fn page(
        &self,
        (id, first_position): (i64, u64),
        from: u64,
        bound: ReadBound,
    ) -> Result<Vec<StoredRecord>, Fault> {
        let context = "reading records of a stream";
        let (count, bytes) = (bounded(bound.count.max(1)), bounded(bound.bytes));
        let (from, first) = (number(from), number(first_position));
        let parameters: Parameters<'_> = &[&count, &bytes, &id, &from, &first];
        let rows = self.readers.query(context, &self.sql.records, parameters).await?;
        let mut meter = bound.meter();
        let stored = rows.iter().map(StoredRecord::of);
        Ok(stored.take_while(|stored| meter.admits(stored.record.bytes.len())).collect())
    }

    pub(crate) async fn stream(
        &self,
        stream: &StreamKey,
        from: u64,
        bound: ReadBound,
    ) -> Result<Vec<Record>, Fault> {
        let Some(id) = self.id(stream).await? else { return Ok(Vec::new()) };
        let stored = self.page(id, from, bound).await?;
        let mut first = from;
        if stored.first().is_some_and(|stored| stored.record.sequence != from) {
            // Either the stream was cut, or records are missing.
            let state = streams::find(self.readers, self.sql, stream).await?.unwrap_or_default();
            first = first.max(state.first_sequence);
        }
        let (mut records, mut expected, mut damaged_to) = (Vec::with_capacity(stored.len()), first, None);
        for stored in stored.into_iter().skip_while(|stored| stored.record.sequence < first) {
            let sequence = stored.record.sequence;
            let is_sound = stored.is_whole && sequence == expected;
            match damaged_to {
                None if is_sound => records.push(stored.record),
                // The next read begins at the damage.
                None if !records.is_empty() => break,
                Some(_) if is_sound => break,
                // Whole records after missing ones.
                _ if stored.is_whole => {
                    damaged_to = Some(sequence.max(expected + 1) - 1);
                    break;
                }
                _ => damaged_to = Some(sequence.max(expected)),
            }
            expected = sequence + 1;
        }
        let Some(last) = damaged_to else { return Ok(records) };
        let stream = Some(stream.clone());
        Err(Fault::damaged(Damage { stream, sequences: Some(first..=last), positions: None }))
    }

    pub(crate) async fn feed(&self, from: u64, bound: ReadBound) -> Result<Vec<FeedRecord>, Fault> {
        let (count, bytes) = (bounded(bound.count.max(1)), bounded(bound.bytes));
        let rows =
            self.readers.query("reading the feed", &self.sql.feed, &[&count, &bytes, &number(from)]).await?;
        let mut meter = bound.meter();
        let mut feed: Vec<FeedRecord> = Vec::with_capacity(rows.len());
        let mut damage: Option<Damage> = None;
        for row in &rows {
            let stored = StoredRecord::of(row);
            if !meter.admits(stored.record.bytes.len()) {
                break;
            }
            let name = row.get::<_, Option<&[u8]>>(6).and_then(|name| text(name, "").ok());
            match (name, &mut damage) {
                (Some(stream), None) if stored.is_whole => {
                    feed.push(FeedRecord { stream, record: stored.record });
                }
                (Some(_), Some(_)) if stored.is_whole => break,
                _ if !feed.is_empty() => break,
                (stream, None) => {
                    let (position, sequence) = (stored.record.position, stored.record.sequence);
                    damage = Some(Damage {
                        stream,
                        sequences: Some(sequence..=sequence),
                        positions: Some(from.min(position)..=position),
                    });
                }
                (stream, Some(damage)) => {
                    // One range of positions; the streams and sequences only where they are one range, too.
                    let position = stored.record.position;
                    let first = damage.positions.as_ref().map_or(position, |range| *range.start());
                    damage.positions = Some(first..=position);
                    let next = damage.sequences.as_ref().map(|range| range.end() + 1);
                    if stream == damage.stream && next == Some(stored.record.sequence) {
                        let first = damage.sequences.as_ref().map_or(0, |range| *range.start());
                        damage.sequences = Some(first..=stored.record.sequence);
                    } else {
                        (damage.stream, damage.sequences) = (None, None);
                    }
                }
            }
        }
        damage.map_or(Ok(feed), |damage| Err(Fault::damaged(damage)))
    }

    /// The end of a stream with its chain, computed from the last place that is remembered.
    pub(crate) async fn tail(&self, stream: &StreamKey) -> Result<Option<Tail>, Fault> {
        let Some(state) = streams::find(self.readers, self.sql, stream).await? else { return Ok(None) };
        let start = state.start_of(stream);
        let head = self.head(stream, &state, start).await?;
        Ok(Some(Tail {
            next_sequence: state.next_sequence,
            last_position: state.last_position,
            head,
            first_sequence: state.first_sequence,
            start,
            erased: state.erased,
        }))
    }

    async fn head(
        &self,
        stream: &StreamKey,
        state: &StreamState,
        start: ChainValue,
    ) -> Result<ChainValue, Fault> {
        let known = self.remembered.head(state.id);
        let usable = |known: &(u64, _)| (state.first_sequence..=state.next_sequence).contains(&known.0);
        let (mut next, mut head) = known.filter(usable).unwrap_or((state.first_sequence, start));
        while next < state.next_sequence {
            let bound = ReadBound { count: limits::SCAN_PAGE, bytes: limits::SCAN_PAGE_BYTES };
            let records = self.stream(stream, next, bound).await?;
            for record in records.iter().filter(|record| record.sequence < state.next_sequence) {
                if record.sequence != next {
                    return Err(moved(stream));
                }
                head = head.then(&record.bytes);
                next += 1;
            }
            if records.is_empty() {
                return Err(moved(stream));
            }
        }
        self.remembered.put_head(state.id, next, head);
        Ok(head)
    }
}

/// Records were removed while the stream was read.
fn moved(stream: &str) -> Fault {
    let message = format!("stream {stream} was cut while it was read; try again");
    Fault::new(recount_log::FaultKind::Busy, recount_log::Retry::Maybe, message)
}
