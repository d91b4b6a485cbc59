//! One group of appends inside one open transaction: each is judged before anything of it is written, so
//! a refused one disturbs no other.
//!
//! It must not know when the transaction begins, how it ends or who is waiting.

use std::collections::HashMap;

use recount_log::chain::ChainValue;
use recount_log::{
    Append, AppendError, Committed, Fault, FeedRecord, Landed, Record, StreamAppend, StreamKey,
};
use rusqlite::Connection;

use crate::fault::Doing as _;
use crate::layout::{self, Ends, StreamTail};
use crate::tails::Tails;

/// What the appends of one transaction have added up to so far.
pub(crate) struct Group<'c> {
    connection: &'c Connection,
    tails: &'c mut Tails,
    ends: Ends,
    touched: HashMap<StreamKey, Touched>,
    records: Vec<FeedRecord>,
    rows_changed: bool,
}

struct Touched {
    tail: StreamTail,
    new: bool,
}

/// What a group leaves to be told, once it is durable.
pub(crate) struct Written {
    pub(crate) records: Vec<FeedRecord>,
    pub(crate) ends: Ends,
    pub(crate) proof: Proof,
    tails: Vec<(StreamKey, StreamTail)>,
}

/// What can be read back to learn whether a group landed.
pub(crate) enum Proof {
    /// This position has a record.
    Position(u64),
    /// The fence was raised to this. (A row's version would prove nothing: it may have been made anew.)
    Fence(i64),
    /// The group changed nothing.
    Nothing,
}

impl<'c> Group<'c> {
    pub(crate) fn begin(connection: &'c Connection, tails: &'c mut Tails, ends: Ends) -> Self {
        Group { connection, tails, ends, touched: HashMap::new(), records: Vec::new(), rows_changed: false }
    }

    /// Judges one append and, if it may happen, writes it. A fault makes the whole group void.
    pub(crate) fn land(&mut self, append: &Append) -> Result<Result<Committed, AppendError>, Fault> {
        let mut tails = Vec::with_capacity(append.streams.len());
        for part in &append.streams {
            let (tail, new) = self.tail(&part.stream)?;
            let (expected, actual) = (part.expected_tail, tail.next_sequence);
            if expected != actual {
                let stream = part.stream.to_string();
                return Ok(Err(AppendError::TailMoved { stream, expected, actual }));
            }
            tails.push((tail, new));
        }
        let mut versions = Vec::with_capacity(append.rows.len());
        for put in &append.rows {
            let actual = layout::row_version(self.connection, &put.space, &put.key)
                .doing(&format!("reading row {}/{}", put.space, put.key))?;
            if !put.guard.admits(actual) {
                let (space, key) = (put.space.to_string(), put.key.to_string());
                return Ok(Err(AppendError::GuardFailed { space, key, actual }));
            }
            versions.push(actual);
        }

        let mut streams = Vec::with_capacity(append.streams.len());
        for (part, (tail, new)) in append.streams.iter().zip(tails) {
            streams.push(self.write_records(part, tail, new)?);
        }
        for (put, actual) in append.rows.iter().zip(versions) {
            let (space, key) = (&*put.space, &*put.key);
            let written = match &put.value {
                Some(value) => layout::put_row(self.connection, space, key, actual.unwrap_or(0) + 1, value),
                None => layout::delete_row(self.connection, space, key),
            };
            written.doing(&format!("writing row {space}/{key}"))?;
            self.rows_changed = true;
        }
        Ok(Ok(Committed { streams }))
    }

    /// Writes the tails, once a stream however many appends it had. Nothing is left but to commit.
    pub(crate) fn finish(self) -> Result<Written, Fault> {
        for (key, touched) in &self.touched {
            let written = if touched.new {
                layout::insert_stream(self.connection, key, &touched.tail)
            } else {
                layout::update_stream(self.connection, &touched.tail)
            };
            written.doing(&format!("writing the tail of stream {key}"))?;
        }
        let proof = match self.records.last() {
            Some(last) => Proof::Position(last.record.position),
            None if self.rows_changed => {
                Proof::Fence(layout::raise_fence(self.connection).doing("raising the fence")?)
            }
            None => Proof::Nothing,
        };
        let tails = self.touched.into_iter().map(|(key, touched)| (key, touched.tail)).collect();
        Ok(Written { records: self.records, ends: self.ends, proof, tails })
    }

    /// Where a stream ends by now, and whether this group made it.
    fn tail(&mut self, key: &StreamKey) -> Result<(StreamTail, bool), Fault> {
        if let Some(touched) = self.touched.get(key) {
            return Ok((touched.tail, touched.new));
        }
        if let Some(tail) = self.tails.get(key) {
            return Ok((tail, false));
        }
        let stored =
            layout::stream_tail(self.connection, key).doing(&format!("reading the tail of stream {key}"))?;
        // The number of a new stream is given when something is written to it.
        let fresh = StreamTail { id: 0, next_sequence: 0, last_position: 0, head: ChainValue::start(key) };
        Ok(stored.map_or((fresh, true), |tail| (tail, false)))
    }

    fn write_records(
        &mut self,
        part: &StreamAppend,
        mut tail: StreamTail,
        new: bool,
    ) -> Result<Landed, Fault> {
        if tail.id == 0 {
            self.ends.last_stream += 1;
            tail.id = self.ends.last_stream;
        }
        let first_sequence = tail.next_sequence;
        let first_position = self.ends.last_position + 1;
        for bytes in &part.records {
            self.ends.last_position += 1;
            let position = self.ends.last_position;
            let record = Record { position, sequence: tail.next_sequence, bytes: bytes.clone() };
            layout::insert_record(self.connection, tail.id, &record)
                .doing(&format!("writing sequence {} of stream {}", record.sequence, part.stream))?;
            tail.next_sequence += 1;
            tail.last_position = position;
            tail.head = tail.head.then(bytes);
            self.records.push(FeedRecord { stream: part.stream.clone(), record });
        }
        self.touched.insert(part.stream.clone(), Touched { tail, new });
        Ok(Landed { first_sequence, last_sequence: tail.next_sequence - 1, first_position })
    }
}

impl Written {
    /// Lets the writer remember where the streams end now.
    pub(crate) fn remember(&mut self, tails: &mut Tails) {
        for (key, tail) in self.tails.drain(..) {
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
