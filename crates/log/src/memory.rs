//! The store in memory: the contract in its simplest form, for tests and for comparison with other stores.
//!
//! It keeps nothing when the process ends. Every answer is ready at once and needs no runtime. See [`MemoryStore`].

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::ops::Bound::{Excluded, Unbounded};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use bytes::Bytes;

use crate::admit::admit_blob;
use crate::chain::ChainValue;
use crate::store::{Answer, Observer, Store};
use crate::values::{
    Append, Committed, FeedRecord, Histogram, Integrity, Landed, ReadBound, Record, Row, RowRange, Stats,
    StreamKey, Tail,
};
use crate::{AppendError, Fault, FaultKind, Retry};

/// Keeps everything in memory, with one lock.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    observer: OnceLock<Arc<dyn Observer>>,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// Every position there ever was; the index is the position less one. `None`: cut or erased.
    feed: Vec<Option<FeedRecord>>,
    streams: BTreeMap<StreamKey, Stream>,
    spaces: BTreeMap<Arc<str>, BTreeMap<Arc<str>, StoredRow>>,
    blobs: HashMap<String, Bytes>,
    /// Micros and sizes of commits.
    appends: (Histogram, Histogram),
}

struct Stream {
    /// The index is the sequence.
    positions: Vec<u64>,
    head: ChainValue,
    first_sequence: u64,
    start: ChainValue,
    erased: bool,
}

struct StoredRow {
    version: u64,
    value: Bytes,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// The state, unless the store was closed or stopped.
    fn open(&self) -> Result<MutexGuard<'_, State>, Fault> {
        let closed = |why: &str| Fault::new(FaultKind::Closed, Retry::Never, format!("the store {why}"));
        // Only an observer can panic under the lock, and its panic stops the store.
        let state = self.state.lock().map_err(|_| closed("stopped: its observer panicked in a commit"))?;
        if state.closed { Err(closed("was closed")) } else { Ok(state) }
    }

    fn answer<T: Send + 'static>(&self, look: impl FnOnce(&mut State) -> Result<T, Fault>) -> Answer<T> {
        Box::pin(ready(self.open().and_then(|mut state| look(&mut state))))
    }

    fn commit(&self, append: &Append) -> Result<Committed, AppendError> {
        append.admit()?;
        let mut state = self.open()?;
        // Nothing waits and nothing is synced: every append is a commit and takes no measurable time.
        state.appends.0.note(0);
        state.appends.1.note(1);
        state.check(append)?;
        let first_new = state.feed.len();
        for cut in &append.cuts {
            state.cut(&cut.stream, cut.keep_from);
        }
        for key in &append.erased {
            state.cut(key, u64::MAX);
            if let Some(stream) = state.streams.get_mut(key) {
                stream.erased = true;
            }
        }
        let streams = append.streams.iter().map(|part| state.land(&part.stream, &part.records)).collect();
        for put in &append.rows {
            state.put(&put.space, &put.key, put.value.clone());
        }
        let fresh: Vec<FeedRecord> = state.feed[first_new..].iter().flatten().cloned().collect();
        if let Some(observer) = self.observer.get()
            && !fresh.is_empty()
        {
            observer.committed(&fresh);
        }
        Ok(Committed { streams })
    }
}

impl State {
    fn next_sequence(&self, stream: &str) -> u64 {
        self.streams.get(stream).map_or(0, |stream| stream.positions.len() as u64)
    }

    fn row(&self, space: &str, key: &str) -> Option<&StoredRow> {
        self.spaces.get(space)?.get(key)
    }

    fn check(&self, append: &Append) -> Result<(), AppendError> {
        for part in &append.streams {
            let (expected, actual) = (part.expected_tail, self.next_sequence(&part.stream));
            if self.streams.get(&part.stream).is_some_and(|stream| stream.erased) {
                return Err(AppendError::Erased { stream: part.stream.to_string() });
            }
            if expected != actual {
                return Err(AppendError::TailMoved { stream: part.stream.to_string(), expected, actual });
            }
        }
        for cut in &append.cuts {
            let (expected, actual) = (cut.keep_from, self.next_sequence(&cut.stream));
            if expected > actual {
                return Err(AppendError::TailMoved { stream: cut.stream.to_string(), expected, actual });
            }
        }
        for put in &append.rows {
            let actual = self.row(&put.space, &put.key).map(|row| row.version);
            if !put.guard.admits(actual) {
                let (space, key) = (put.space.to_string(), put.key.to_string());
                return Err(AppendError::GuardFailed { space, key, actual });
            }
        }
        Ok(())
    }

    fn land(&mut self, key: &StreamKey, records: &[Bytes]) -> Landed {
        let first_sequence = self.next_sequence(key);
        let first_position = self.feed.len() as u64 + 1;
        let stream = self.streams.entry(key.clone()).or_insert_with(|| Stream::new(key));
        for bytes in records {
            let position = self.feed.len() as u64 + 1;
            let record = Record { position, sequence: stream.positions.len() as u64, bytes: bytes.clone() };
            self.feed.push(Some(FeedRecord { stream: key.clone(), record }));
            stream.positions.push(position);
            stream.head = stream.head.then(bytes);
        }
        Landed { first_sequence, last_sequence: stream.positions.len() as u64 - 1, first_position }
    }

    fn cut(&mut self, key: &StreamKey, keep_from: u64) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let keep_from = keep_from.min(stream.positions.len() as u64);
        for sequence in stream.first_sequence..keep_from {
            let taken = self.feed[index(stream.positions[count(sequence)])].take();
            let taken = taken.expect("records that were not cut exist");
            stream.start = stream.start.then(&taken.record.bytes);
            stream.first_sequence = sequence + 1;
        }
    }

    fn stats(&self) -> Stats {
        let records = || self.feed.iter().flatten();
        Stats {
            last_position: self.feed.len() as u64,
            streams: self.streams.len() as u64,
            hot_records: records().count() as u64,
            hot_bytes: records().map(|feed| feed.record.bytes.len() as u64).sum(),
            append_micros: self.appends.0.clone(),
            group_appends: self.appends.1.clone(),
            ..Stats::default()
        }
    }

    fn put(&mut self, space: &Arc<str>, key: &Arc<str>, value: Option<Bytes>) {
        let rows = self.spaces.entry(space.clone()).or_default();
        match value {
            Some(value) => {
                let version = rows.get(key).map_or(0, |row| row.version) + 1;
                rows.insert(key.clone(), StoredRow { version, value });
            }
            None => {
                rows.remove(key);
            }
        }
    }

    fn rows(&self, range: &RowRange) -> Vec<Row> {
        let after = |key: &str| match range.after.as_deref() {
            Some(after) if range.backwards => key < after,
            Some(after) => key > after,
            None => true,
        };
        let rows = self.spaces.get(&range.space).into_iter().flatten();
        let wanted = rows
            .filter(|(key, _)| key.starts_with(&*range.prefix) && after(key))
            .map(|(key, row)| Row { key: key.clone(), version: row.version, value: row.value.clone() });
        if range.backwards {
            wanted.rev().take(range.limit).collect()
        } else {
            wanted.take(range.limit).collect()
        }
    }

    fn integrity(&self) -> Integrity {
        let mut found = Integrity::default();
        for (key, stream) in &self.streams {
            let start = if stream.first_sequence == 0 { ChainValue::start(key) } else { stream.start };
            let head = stream.records(&self.feed, 0).fold(start, |head, record| head.then(&record.bytes));
            if head == stream.head {
                found.readable_streams += 1;
            } else {
                found.problems.push(format!(
                    "stream {key}: its records have the chain value {head}, but its head is {}",
                    stream.head
                ));
            }
        }
        found.readable_records = self.feed.iter().flatten().count() as u64;
        found
    }
}

impl Stream {
    fn new(key: &str) -> Self {
        let start = ChainValue::start(key);
        Stream { positions: Vec::new(), head: start, first_sequence: 0, start, erased: false }
    }

    /// What is left from a sequence on.
    fn records<'f>(&'f self, feed: &'f [Option<FeedRecord>], from: u64) -> impl Iterator<Item = &'f Record> {
        let positions = self.positions.iter().skip(count(from));
        positions.filter_map(|position| feed[index(*position)].as_ref()).map(|feed| &feed.record)
    }
}

impl Store for MemoryStore {
    fn observe(&self, observer: Arc<dyn Observer>) {
        assert!(self.observer.set(observer).is_ok(), "a store has one observer, set once");
    }

    fn append(&self, append: Append) -> Answer<Committed, AppendError> {
        Box::pin(ready(self.commit(&append)))
    }

    fn read(&self, stream: &StreamKey, from: u64, bound: ReadBound) -> Answer<Vec<Record>> {
        self.answer(|state| {
            let Some(stream) = state.streams.get(stream) else { return Ok(Vec::new()) };
            let mut meter = bound.meter();
            let records = stream.records(&state.feed, from);
            Ok(records.take_while(|record| meter.admits(record.bytes.len())).cloned().collect())
        })
    }

    fn read_feed(&self, from: u64, bound: ReadBound) -> Answer<Vec<FeedRecord>> {
        self.answer(|state| {
            let mut meter = bound.meter();
            let wanted = state.feed.iter().skip(count(from.saturating_sub(1))).flatten();
            Ok(wanted.take_while(|feed| meter.admits(feed.record.bytes.len())).cloned().collect())
        })
    }

    fn tail(&self, stream: &StreamKey) -> Answer<Option<Tail>> {
        self.answer(|state| {
            Ok(state.streams.get(stream).and_then(|stream| {
                let last_position = *stream.positions.last()?;
                Some(Tail {
                    next_sequence: stream.positions.len() as u64,
                    last_position,
                    head: stream.head,
                    first_sequence: stream.first_sequence,
                    start: stream.start,
                    erased: stream.erased,
                })
            }))
        })
    }

    fn last_position(&self) -> Answer<u64> {
        self.answer(|state| Ok(state.feed.len() as u64))
    }

    fn streams(&self, after: Option<StreamKey>, limit: usize) -> Answer<Vec<StreamKey>> {
        self.answer(|state| {
            let from = after.map_or(Unbounded, Excluded);
            Ok(state.streams.range((from, Unbounded)).take(limit).map(|(key, _)| key.clone()).collect())
        })
    }

    fn row(&self, space: &str, key: &str) -> Answer<Option<Row>> {
        self.answer(|state| {
            Ok(state.row(space, key).map(|row| Row {
                key: key.into(),
                version: row.version,
                value: row.value.clone(),
            }))
        })
    }

    fn rows(&self, range: RowRange) -> Answer<Vec<Row>> {
        self.answer(|state| Ok(state.rows(&range)))
    }

    fn put_blob(&self, bytes: Bytes) -> Answer<String> {
        self.answer(|state| {
            admit_blob(bytes.len())?;
            let hash = blake3::hash(&bytes).to_hex().to_string();
            state.blobs.entry(hash.clone()).or_insert(bytes);
            Ok(hash)
        })
    }

    fn blob(&self, hash: &str) -> Answer<Option<Bytes>> {
        self.answer(|state| Ok(state.blobs.get(hash).cloned()))
    }

    fn remove_blob(&self, hash: &str) -> Answer<()> {
        self.answer(|state| {
            state.blobs.remove(hash);
            Ok(())
        })
    }

    fn blobs(&self, after: Option<String>, limit: usize) -> Answer<Vec<String>> {
        self.answer(|state| {
            let later = |hash: &&String| after.as_ref().is_none_or(|after| *hash > after);
            let mut names: Vec<String> = state.blobs.keys().filter(later).cloned().collect();
            names.sort_unstable();
            names.truncate(limit);
            Ok(names)
        })
    }

    fn integrity(&self) -> Answer<Integrity> {
        self.answer(|state| Ok(state.integrity()))
    }

    fn backup(&self, to: PathBuf) -> Answer<()> {
        self.answer(|_| {
            let message = format!("cannot copy a store in memory to {}; read its feed instead", to.display());
            Err(Fault::new(FaultKind::Io, Retry::Never, message))
        })
    }

    fn stats(&self) -> Answer<Stats> {
        self.answer(|state| Ok(state.stats()))
    }

    fn close(&self) -> Answer<()> {
        if let Ok(mut state) = self.open() {
            state.closed = true;
        }
        Box::pin(ready(Ok(())))
    }
}

fn index(position: u64) -> usize {
    count(position - 1)
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
