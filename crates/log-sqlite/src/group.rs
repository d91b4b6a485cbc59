//! One group of appends inside one open transaction: each is judged before anything of it is written, so
//! a refused one disturbs no other.
//!
//! It must not know when the transaction begins, how it ends or who is waiting.

use std::collections::{HashMap, HashSet};

use recount_log::{
    Append, AppendError, Committed, Fault, FeedRecord, Landed, Record, StreamAppend, StreamKey,
};
use rusqlite::Connection;

use crate::cut::{self, Taken};
use crate::fault::Doing as _;
use crate::hot::{self, Hot};
use crate::layout::{self, Ends, StreamTail, Totals};
use crate::packing;
use crate::rows;
use crate::tails::Tails;

/// What the appends of one transaction have added up to so far.
pub(crate) struct Group<'c> {
    connection: &'c Connection,
    tails: &'c mut Tails,
    hot: &'c Hot,
    ends: Ends,
    touched: HashMap<StreamKey, StreamTail>,
    records: Vec<FeedRecord>,
    /// Beside each record the number of its stream.
    owners: Vec<i64>,
    /// Stream by stream in order of position: first sequence and count.
    spans: Vec<(StreamKey, u64, u64)>,
    taken: Vec<Taken>,
    others_changed: bool,
}

/// What a group leaves to be told, once it is durable.
pub(crate) struct Written {
    pub(crate) records: Vec<FeedRecord>,
    ends: Ends,
    spans: Vec<(StreamKey, u64, u64)>,
    taken: Vec<Taken>,
    tails: HashMap<StreamKey, StreamTail>,
}

/// What can be read back to learn whether a commit landed.
pub(crate) enum Proof {
    /// There is a group that ends at this position.
    Position(u64),
    /// The fence was raised to this. (A row's version would prove nothing: it may have been made anew.)
    Fence(i64),
    /// Nothing was changed.
    Nothing,
}

impl<'c> Group<'c> {
    pub(crate) fn begin(connection: &'c Connection, tails: &'c mut Tails, hot: &'c Hot) -> Self {
        Group {
            connection,
            tails,
            hot,
            ends: hot.ends(),
            touched: HashMap::new(),
            records: Vec::new(),
            owners: Vec::new(),
            spans: Vec::new(),
            taken: Vec::new(),
            others_changed: false,
        }
    }

    /// Judges one append and, if it may happen, writes it. A fault makes the whole group void. An append
    /// that takes records away has to be the only one of its group.
    pub(crate) fn land(&mut self, append: &Append) -> Result<Result<Committed, AppendError>, Fault> {
        let mut tails = Vec::with_capacity(append.streams.len());
        for part in &append.streams {
            let tail = self.tail(&part.stream)?;
            let (expected, actual) = (part.expected_tail, tail.next_sequence);
            if tail.erased {
                return Ok(Err(AppendError::Erased { stream: part.stream.to_string() }));
            }
            if expected != actual {
                let stream = part.stream.to_string();
                return Ok(Err(AppendError::TailMoved { stream, expected, actual }));
            }
            tails.push(tail);
        }
        for cut in &append.cuts {
            let (expected, actual) = (cut.keep_from, self.tail(&cut.stream)?.next_sequence);
            if expected > actual {
                let stream = cut.stream.to_string();
                return Ok(Err(AppendError::TailMoved { stream, expected, actual }));
            }
        }
        let mut versions = Vec::with_capacity(append.rows.len());
        for put in &append.rows {
            let actual = rows::row_version(self.connection, &put.space, &put.key)
                .doing(&format!("reading row {}/{}", put.space, put.key))?;
            if !put.guard.admits(actual) {
                let (space, key) = (put.space.to_string(), put.key.to_string());
                return Ok(Err(AppendError::GuardFailed { space, key, actual }));
            }
            versions.push(actual);
        }

        for cut in &append.cuts {
            let tail = self.tail(&cut.stream)?;
            if cut.keep_from > tail.first_sequence {
                self.take_away(&cut.stream, tail, cut.keep_from, false)?;
            }
        }
        for key in &append.erased {
            let tail = self.tail(key)?;
            // A stream that never was has no number.
            if tail.id != 0 && !tail.erased {
                self.take_away(key, tail, tail.next_sequence, true)?;
            }
        }
        let mut streams = Vec::with_capacity(append.streams.len());
        for part in &append.streams {
            streams.push(self.take_records(part)?);
        }
        for (put, actual) in append.rows.iter().zip(versions) {
            let (space, key) = (&*put.space, &*put.key);
            let written = match &put.value {
                Some(value) => rows::put_row(self.connection, space, key, actual.unwrap_or(0) + 1, value),
                None => rows::delete_row(self.connection, space, key),
            };
            written.doing(&format!("writing row {space}/{key}"))?;
            self.others_changed = true;
        }
        Ok(Ok(Committed { streams }))
    }

    /// Writes all records as one row. Nothing is left but to commit.
    pub(crate) fn finish(self) -> Result<(Written, Proof), Fault> {
        let proof = match (self.records.first(), self.records.last()) {
            (Some(first), Some(last)) => {
                let bytes = self.records.iter().map(|feed| Some(&feed.record.bytes[..]));
                let joined = packing::join(bytes);
                let slots = self.owners.iter().zip(&self.records);
                let slots = slots.map(|(id, feed)| (*id, feed.record.sequence, feed.record.bytes.len()));
                let index = packing::group_index(&joined, slots);
                let position = first.record.position;
                layout::insert_group(self.connection, position, self.records.len(), &index, &joined)
                    .doing(&format!("writing the records from position {position} on"))?;
                Proof::Position(last.record.position)
            }
            _ if self.others_changed => {
                Proof::Fence(layout::raise_fence(self.connection).doing("raising the fence")?)
            }
            _ => Proof::Nothing,
        };
        let (records, ends, spans, taken, tails) =
            (self.records, self.ends, self.spans, self.taken, self.touched);
        Ok((Written { records, ends, spans, taken, tails }, proof))
    }

    /// Where a stream ends by now; without a number if there is none of that name.
    fn tail(&mut self, key: &StreamKey) -> Result<StreamTail, Fault> {
        if let Some(tail) = self.touched.get(key) {
            return Ok(*tail);
        }
        if let Some(tail) = self.tails.get(key) {
            return Ok(tail);
        }
        if let Some(tail) = self.hot.tail(key) {
            return Ok(tail);
        }
        let stored =
            layout::stream_tail(self.connection, key).doing(&format!("reading the tail of stream {key}"))?;
        // The number of a new stream is given when something is written to it.
        Ok(stored.unwrap_or_else(|| StreamTail::fresh(0, key)))
    }

    fn take_away(
        &mut self,
        key: &StreamKey,
        tail: StreamTail,
        keep_from: u64,
        erased: bool,
    ) -> Result<(), Fault> {
        let taken = cut::cut(self.connection, self.hot, key, tail, keep_from, erased)?;
        self.touched.insert(key.clone(), taken.tail);
        self.taken.push(taken);
        self.others_changed = true;
        Ok(())
    }

    fn take_records(&mut self, part: &StreamAppend) -> Result<Landed, Fault> {
        let mut tail = self.tail(&part.stream)?;
        if tail.id == 0 {
            self.ends.last_stream += 1;
            tail.id = self.ends.last_stream;
            layout::insert_stream(self.connection, &part.stream, tail.id)
                .doing(&format!("writing the name of stream {}", part.stream))?;
        }
        let first_sequence = tail.next_sequence;
        let first_position = self.ends.last_position + 1;
        for bytes in &part.records {
            self.ends.last_position += 1;
            let position = self.ends.last_position;
            let record = Record { position, sequence: tail.next_sequence, bytes: bytes.clone() };
            tail.next_sequence += 1;
            tail.last_position = position;
            tail.head = tail.head.then(bytes);
            self.records.push(FeedRecord { stream: part.stream.clone(), record });
            self.owners.push(tail.id);
        }
        self.spans.push((part.stream.clone(), first_sequence, part.records.len() as u64));
        self.touched.insert(part.stream.clone(), tail);
        Ok(Landed { first_sequence, last_sequence: tail.next_sequence - 1, first_position })
    }
}

impl Written {
    /// Whether content was taken away that must not stay in the write-ahead log either.
    pub(crate) fn took(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Lets everybody know where things are now.
    pub(crate) fn remember(&mut self, tails: &mut Tails, hot: &Hot) {
        for taken in self.taken.drain(..) {
            hot.cut(&taken.key, taken.tail, &taken.hot, taken.sealed);
        }
        let spans = std::mem::take(&mut self.spans);
        let mut totals = Totals::default();
        self.records.iter().for_each(|feed| totals.more(Totals::one(&feed.record.bytes)));
        if let (Some(first), Some(last)) = (self.records.first(), self.records.last()) {
            let (first_position, last_position) = (first.record.position, last.record.position);
            let since = recount_world::moment();
            let named: HashSet<&StreamKey> = spans.iter().map(|(key, ..)| key).collect();
            let written: Vec<_> = self.tails.iter().filter(|(key, _)| named.contains(key)).collect();
            let written = written.into_iter().map(|(key, tail)| (key.clone(), *tail)).collect::<Vec<_>>();
            let group = hot::Landed { first_position, last_position, totals, since, spans };
            hot.landed(group, self.ends, written.into_iter());
        }
        for (key, tail) in self.tails.drain() {
            tails.put(key, tail);
        }
    }
}

impl Proof {
    /// Whether the group is there, by what the database itself says.
    pub(crate) fn holds(&self, connection: &Connection) -> rusqlite::Result<bool> {
        match self {
            Proof::Position(last) => Ok(layout::last_position(connection)? >= *last),
            Proof::Fence(count) => Ok(layout::fence(connection)? >= *count),
            Proof::Nothing => Ok(false),
        }
    }
}
