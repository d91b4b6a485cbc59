//! Checks of an append before any store takes it: the same for all stores.
//!
//! Sizes beyond a limit are faults, because they come with the data. An append that contradicts
//! itself (a stream named twice, an empty list of records) is a bug of the caller and panics.

use std::collections::HashSet;
use std::hash::Hash;

use crate::limits::{
    APPEND_BYTES_MAX, APPEND_ENTRIES_MAX, BLOB_BYTES_MAX, KEY_BYTES_MAX, RECORD_BYTES_MAX, ROW_BYTES_MAX,
};
use crate::{Append, Fault, FaultKind, Guard, Retry};

impl Append {
    /// Checks the append against the limits and answers its size in bytes, keys included.
    ///
    /// # Panics
    ///
    /// When a stream or a row is named twice, a stream comes with an empty list of records, or a stream is
    /// to be erased and something else is to happen to it too.
    pub fn admit(&self) -> Result<usize, Fault> {
        let records = self.streams.iter().map(|stream| stream.records.len());
        let entries = records.sum::<usize>() + self.rows.len() + self.cuts.len() + self.erased.len();
        within("the append's records, rows and cuts", entries, APPEND_ENTRIES_MAX, "split it")?;

        let mut bytes = 0_usize;
        let mut streams = Names::default();
        for stream in &self.streams {
            let name = &stream.stream;
            assert!(streams.insert(name), "the append names stream {name} twice");
            assert!(!stream.records.is_empty(), "the append to stream {name} has no records");
            key("a stream's name", name)?;
            bytes += name.len();
            for record in &stream.records {
                if record.len() > RECORD_BYTES_MAX {
                    let thing = format!("a record for stream {name}");
                    within(&thing, record.len(), RECORD_BYTES_MAX, "store it as a blob")?;
                }
                bytes += record.len();
            }
        }
        let mut cut = Names::default();
        for name in self.cuts.iter().map(|cut| &cut.stream) {
            assert!(cut.insert(name), "the append cuts stream {name} twice");
            key("a stream's name", name)?;
            bytes += name.len();
        }
        let mut erased = Names::default();
        for name in &self.erased {
            assert!(erased.insert(name), "the append erases stream {name} twice");
            let alone = !streams.contains(&name) && !cut.contains(&name);
            assert!(alone, "the append erases stream {name} and also changes it in another way");
            key("a stream's name", name)?;
            bytes += name.len();
        }
        let mut rows = Names::default();
        for row in &self.rows {
            let (space, name) = (&row.space, &row.key);
            assert!(rows.insert((space, name)), "the append names row {space}/{name} twice");
            key("the name of a space", space)?;
            key("a row's key", name)?;
            let value = row.value.as_ref().map_or(0, |value| value.len());
            if value > ROW_BYTES_MAX {
                let thing = format!("the value of row {space}/{name}");
                within(&thing, value, ROW_BYTES_MAX, "store it as a blob")?;
            }
            bytes += space.len() + name.len() + value;
        }
        within("the append's bytes", bytes, APPEND_BYTES_MAX, "split it")?;
        Ok(bytes)
    }
}

/// Names that were seen. Nearly every append has one, for which nothing is hashed.
enum Names<T> {
    Few(Option<T>),
    Many(HashSet<T>),
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Names::Few(None)
    }
}

impl<T: Copy + Eq + Hash> Names<T> {
    /// `false`: it was seen before.
    fn insert(&mut self, name: T) -> bool {
        match self {
            Names::Few(seen @ None) => {
                *seen = Some(name);
                true
            }
            Names::Few(Some(first)) => {
                let first = *first;
                *self = Names::Many(HashSet::from([first, name]));
                first != name
            }
            Names::Many(seen) => seen.insert(name),
        }
    }

    fn contains(&self, name: &T) -> bool {
        match self {
            Names::Few(seen) => seen.as_ref() == Some(name),
            Names::Many(seen) => seen.contains(name),
        }
    }
}

impl Guard {
    /// Whether a row in this version (`None`: it does not exist) is as the guard demands.
    pub fn admits(self, actual: Option<u64>) -> bool {
        match self {
            Guard::Any => true,
            Guard::Absent => actual.is_none(),
            Guard::Version(version) => actual == Some(version),
        }
    }
}

/// Checks the size of one blob.
pub fn admit_blob(bytes: usize) -> Result<(), Fault> {
    within("the blob's bytes", bytes, BLOB_BYTES_MAX, "store it in parts")
}

fn key(thing: &str, name: &str) -> Result<(), Fault> {
    within(thing, name.len(), KEY_BYTES_MAX, "choose a shorter one")
}

fn within(thing: &str, value: usize, max: usize, advice: &str) -> Result<(), Fault> {
    if value <= max {
        return Ok(());
    }
    let message = format!("{thing}: {value} exceeds the limit of {max}; {advice}");
    Err(Fault::new(FaultKind::TooLarge, Retry::Never, message))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{Cut, RowPut, StreamAppend};

    fn stream(name: &str, records: Vec<Bytes>) -> StreamAppend {
        StreamAppend { stream: name.into(), expected_tail: 0, records }
    }

    fn row(key: &str, value: Option<Bytes>) -> RowPut {
        RowPut { space: "s".into(), key: key.into(), guard: Guard::Any, value }
    }

    #[test]
    fn the_size_counts_keys_records_and_values() {
        let append = Append {
            streams: vec![stream("ab", vec![Bytes::from_static(b"123"), Bytes::new()])],
            rows: vec![row("k", Some(Bytes::from_static(b"1234"))), row("l", None)],
            cuts: vec![Cut { stream: "ab".into(), keep_from: 0 }],
            erased: vec!["c".into()],
            ..Append::default()
        };
        assert_eq!(append.admit(), Ok(2 + 3 + 2 + 4 + 2 + 2 + 1));
    }

    #[test]
    fn too_many_entries_are_refused_by_count_and_by_sum() {
        let many = Append {
            streams: vec![stream("a", vec![Bytes::new(); APPEND_ENTRIES_MAX])],
            ..Append::default()
        };
        assert!(many.admit().is_ok());
        let more = Append { rows: vec![row("k", None)], ..many };
        assert_eq!(more.admit().map_err(|fault| fault.kind), Err(FaultKind::TooLarge));

        let record = Bytes::from(vec![0; RECORD_BYTES_MAX]);
        let heavy = Append { streams: vec![stream("a", vec![record; 9])], ..Append::default() };
        let fault = heavy.admit().expect_err("nine of the largest pass the sum");
        assert!(fault.message.contains("67108864"), "{fault}");
    }

    #[test]
    #[should_panic(expected = "names stream a twice")]
    fn a_stream_named_twice_is_a_bug() {
        let one = || stream("a", vec![Bytes::new()]);
        let _refused = Append { streams: vec![one(), one()], ..Append::default() }.admit();
    }

    #[test]
    #[should_panic(expected = "names row s/k twice")]
    fn a_row_named_twice_is_a_bug() {
        let _refused = Append { rows: vec![row("k", None), row("k", None)], ..Append::default() }.admit();
    }

    #[test]
    #[should_panic(expected = "has no records")]
    fn an_empty_list_of_records_is_a_bug() {
        let _refused = Append { streams: vec![stream("a", vec![])], ..Append::default() }.admit();
    }

    #[test]
    #[should_panic(expected = "erases stream a and also changes it")]
    fn erasing_what_also_gets_records_is_a_bug() {
        let append = Append {
            streams: vec![stream("a", vec![Bytes::new()])],
            erased: vec!["a".into()],
            ..Append::default()
        };
        let _refused = append.admit();
    }
}
