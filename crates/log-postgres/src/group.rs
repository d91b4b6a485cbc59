//! One commit group: judges each append against what the store contains with the earlier ones, and gathers what is written.
//!
//! It must not talk to the database. What it has to know is loaded before, see [`Known`].

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use recount_log::chain::ChainValue;
use recount_log::{Append, AppendError, Committed, FeedRecord, Landed, Record, StreamAppend, StreamKey, Sum};

use crate::limits;
use crate::rules::Counters;
use crate::streams::StreamState;

/// Space and key of a row.
pub(crate) type RowName = (Arc<str>, Arc<str>);

/// What the writer knows of streams and rows. It is the only one that changes them.
#[derive(Default)]
pub(crate) struct Known {
    streams: HashMap<StreamKey, StreamState>,
    /// The versions of rows; `None` if a row does not exist.
    versions: HashMap<RowName, Option<u64>>,
}

impl Known {
    pub(crate) fn knows_stream(&self, stream: &StreamKey) -> bool {
        self.streams.contains_key(stream)
    }

    pub(crate) fn knows_row(&self, row: &RowName) -> bool {
        self.versions.contains_key(row)
    }

    pub(crate) fn put_stream(&mut self, stream: StreamKey, state: StreamState) {
        self.streams.insert(stream, state);
    }

    pub(crate) fn put_version(&mut self, row: RowName, version: Option<u64>) {
        self.versions.insert(row, version);
    }

    pub(crate) fn stream(&self, stream: &StreamKey) -> StreamState {
        self.streams.get(stream).cloned().unwrap_or_default()
    }

    /// Forgets everything after a group that was not committed.
    pub(crate) fn clear(&mut self) {
        *self = Known::default();
    }

    /// Keeps its size within bounds. Called between groups.
    pub(crate) fn limit(&mut self) {
        if self.streams.len() > limits::REMEMBERED_MAX {
            self.streams.clear();
        }
        if self.versions.len() > limits::REMEMBERED_MAX {
            self.versions.clear();
        }
    }

    fn check(&self, append: &Append) -> Result<(), AppendError> {
        for part in &append.streams {
            let state = self.stream(&part.stream);
            let (expected, actual) = (part.expected_tail, state.next_sequence);
            if state.erased {
                return Err(AppendError::Erased { stream: part.stream.to_string() });
            }
            if expected != actual {
                return Err(AppendError::TailMoved { stream: part.stream.to_string(), expected, actual });
            }
        }
        for cut in &append.cuts {
            let (expected, actual) = (cut.keep_from, self.stream(&cut.stream).next_sequence);
            if expected > actual {
                return Err(AppendError::TailMoved { stream: cut.stream.to_string(), expected, actual });
            }
        }
        for put in &append.rows {
            let actual = self.versions.get(&(put.space.clone(), put.key.clone())).copied().flatten();
            if !put.guard.admits(actual) {
                let (space, key) = (put.space.to_string(), put.key.to_string());
                return Err(AppendError::GuardFailed { space, key, actual });
            }
        }
        Ok(())
    }
}

impl Counters {
    /// Reads the first columns of a row.
    pub(crate) fn of_row(row: &tokio_postgres::Row) -> Self {
        Counters {
            epoch: row.get(0),
            group_number: row.get(1),
            last_position: row.get::<_, i64>(2).cast_unsigned(),
            last_stream: row.get(3),
        }
    }
}

/// What a removal takes from one stream, found out before it is committed.
pub(crate) struct Removal {
    pub(crate) stream: StreamKey,
    pub(crate) keep_from: u64,
    pub(crate) erased: bool,
    /// The chain value before `keep_from`.
    pub(crate) start: ChainValue,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// Everything that one statement writes.
pub(crate) struct Group {
    pub(crate) counters: Counters,
    pub(crate) new_streams: Vec<(StreamKey, StreamState)>,
    pub(crate) records: Vec<FeedRecord>,
    /// The number of the stream of each record.
    pub(crate) owners: Vec<i64>,
    /// The last version and value of each row that is changed.
    pub(crate) rows: HashMap<RowName, Option<(u64, Bytes)>>,
    pub(crate) bounds: Vec<(StreamKey, StreamState)>,
    /// Changes of the counts of records and bytes.
    pub(crate) added_records: i64,
    pub(crate) added_bytes: i64,
}

impl Group {
    /// An empty group after the last one.
    pub(crate) fn after(counters: Counters) -> Self {
        Group {
            counters: Counters { group_number: counters.group_number + 1, ..counters },
            new_streams: Vec::new(),
            records: Vec::new(),
            owners: Vec::new(),
            rows: HashMap::new(),
            bounds: Vec::new(),
            added_records: 0,
            added_bytes: 0,
        }
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.rows.is_empty() && self.bounds.is_empty()
    }

    /// Checks an append and adds all of it, or nothing.
    pub(crate) fn add(
        &mut self,
        known: &mut Known,
        append: &Append,
        removals: Vec<Removal>,
    ) -> Result<Committed, AppendError> {
        known.check(append)?;
        removals.into_iter().for_each(|removal| self.remove(known, removal));
        let streams = append.streams.iter().map(|part| self.add_records(known, part)).collect();
        for put in &append.rows {
            let name = (put.space.clone(), put.key.clone());
            let before = known.versions.get(&name).copied().flatten();
            let state = put.value.as_ref().map(|value| (before.unwrap_or(0) + 1, value.clone()));
            known.put_version(name.clone(), state.as_ref().map(|(version, _)| *version));
            self.rows.insert(name, state);
        }
        Ok(Committed { streams })
    }

    fn add_records(&mut self, known: &mut Known, part: &StreamAppend) -> Landed {
        let key = &part.stream;
        let state = known.streams.entry(key.clone()).or_default();
        let first_position = self.counters.last_position + 1;
        if state.id == 0 {
            self.counters.last_stream += 1;
            *state = StreamState { id: self.counters.last_stream, first_position, ..StreamState::default() };
            self.new_streams.push((key.clone(), state.clone()));
        }
        let first_sequence = state.next_sequence;
        for bytes in &part.records {
            self.counters.last_position += 1;
            let (position, sequence) = (self.counters.last_position, state.next_sequence);
            state.next_sequence += 1;
            state.last_position = position;
            self.added_records += 1;
            self.added_bytes += bytes.len() as i64;
            let record = Record { position, sequence, bytes: bytes.clone() };
            self.records.push(FeedRecord { stream: key.clone(), record });
            self.owners.push(state.id);
        }
        Landed { first_sequence, last_sequence: state.next_sequence - 1, first_position }
    }

    fn remove(&mut self, known: &mut Known, removal: Removal) {
        let Some(state) = known.streams.get_mut(&removal.stream).filter(|state| state.id != 0) else {
            return;
        };
        state.first_sequence = removal.keep_from;
        state.start = Some(removal.start);
        state.erased |= removal.erased;
        self.added_records -= removal.records.cast_signed();
        self.added_bytes -= removal.bytes.cast_signed();
        self.bounds.push((removal.stream, state.clone()));
    }
}

/// The checksum of a row.
pub(crate) fn row_sum(space: &[u8], key: &[u8], version: u64, value: &[u8]) -> i64 {
    Sum::of("rows").bytes(space).bytes(key).number(version).bytes(value).column()
}

#[cfg(test)]
mod tests {
    use recount_log::{Guard, RowPut};

    use super::*;

    fn records(stream: &str, expected_tail: u64, count: usize) -> Append {
        let records = vec![Bytes::from_static(b"x"); count];
        Append {
            streams: vec![StreamAppend { stream: stream.into(), expected_tail, records }],
            ..Append::default()
        }
    }

    fn row(guard: Guard, value: Option<&'static [u8]>) -> Append {
        let value = value.map(Bytes::from_static);
        Append {
            rows: vec![RowPut { space: "s".into(), key: "k".into(), guard, value }],
            ..Append::default()
        }
    }

    #[test]
    fn each_append_sees_the_earlier_ones_of_its_group_and_a_refused_one_changes_nothing() {
        let counters = Counters { epoch: 3, group_number: 7, last_position: 40, last_stream: 2 };
        let (mut known, mut group) = (Known::default(), Group::after(counters));
        let landed = group.add(&mut known, &records("a", 0, 2), vec![]).unwrap();
        assert_eq!(landed.streams, [Landed { first_sequence: 0, last_sequence: 1, first_position: 41 }]);
        let moved = AppendError::TailMoved { stream: "a".to_owned(), expected: 0, actual: 2 };
        assert_eq!(group.add(&mut known, &records("a", 0, 1), vec![]), Err(moved));
        let landed = group.add(&mut known, &records("a", 2, 1), vec![]).unwrap();
        assert_eq!(landed.streams, [Landed { first_sequence: 2, last_sequence: 2, first_position: 43 }]);

        let mut put = |guard, value| group.add(&mut known, &row(guard, value), vec![]).is_ok();
        assert!(put(Guard::Absent, Some(b"1")));
        assert!(!put(Guard::Absent, Some(b"2")));
        assert!(put(Guard::Version(1), Some(b"3")));
        assert!(put(Guard::Any, None));
        assert!(put(Guard::Absent, Some(b"4")));
        let name = ("s".into(), "k".into());
        assert_eq!(group.rows[&name], Some((1, Bytes::from_static(b"4"))), "only the last state is written");
        assert_eq!((group.new_streams.len(), group.records.len(), &group.owners[..]), (1, 3, &[3, 3, 3][..]));
        let expected = Counters { epoch: 3, group_number: 8, last_position: 43, last_stream: 3 };
        assert_eq!((group.counters, group.added_records, group.added_bytes), (expected, 3, 3));
    }
}
