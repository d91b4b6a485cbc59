//! Classifies a row by its shape: which table it is from, and its content.
//!
//! A table that is missing from the schema is recognised like any other, as long as its pages exist. Columns that a
//! later schema adds at the end are ignored. This file must not know pages or how streams fit together. Entry point:
//! [`classify`].

use recount_log::Tail;
use recount_log::chain::ChainValue;
use recount_log_sqlite::stored::{self, Change, Column, FeedSpan, Slot};

use super::cells::{CellPlace, StoredRow};

/// A row of one of the store's tables.
pub(super) enum ClassifiedRow {
    Stream(StreamRow),
    /// The index of stream names.
    Name {
        id: i64,
        key: String,
    },
    Chunk(ChunkRow),
    Group(GroupRow),
    Feed {
        first: u64,
        spans: Vec<FeedSpan>,
    },
    Changes {
        first_needed: u64,
        rows: Vec<NewRow>,
    },
    Row(NewRow),
    /// The root page of a table.
    Root(u32),
    /// A row of this store with invalid content.
    Damaged,
    /// A row of another kind.
    Foreign,
}

pub(super) struct StreamRow {
    pub(super) id: i64,
    pub(super) key: String,
    pub(super) next_sequence: u64,
    pub(super) last_position: u64,
    pub(super) head: ChainValue,
    pub(super) first_sequence: u64,
    pub(super) start: Option<ChainValue>,
    pub(super) erased: bool,
}

impl StreamRow {
    /// The remains of an erased stream.
    pub(super) fn tombstone(&self) -> Tail {
        let StreamRow { next_sequence, last_position, head, .. } = *self;
        let start = self.start.unwrap_or(head);
        Tail { next_sequence, last_position, head, first_sequence: next_sequence, start, erased: true }
    }
}

pub(super) struct ChunkRow {
    pub(super) place: CellPlace,
    pub(super) stream: i64,
    pub(super) first_sequence: u64,
    pub(super) start: ChainValue,
    /// Position and bytes of each record.
    pub(super) records: Vec<(u64, Vec<u8>)>,
}

pub(super) struct GroupRow {
    pub(super) place: CellPlace,
    pub(super) first_position: u64,
    pub(super) slots: Vec<Slot>,
    pub(super) joined: Vec<u8>,
    /// Whether the index and the bytes fit their sums.
    pub(super) sound: bool,
    /// Whether the index fits its sum: then the streams of damaged records are known.
    pub(super) index_sound: bool,
}

/// The state of a row of a space from one commit on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewRow {
    /// The commit, where it is in the journal of changes and not in its table.
    pub(super) commit: u64,
    pub(super) space: String,
    pub(super) key: String,
    /// Version and value; `None` when it was deleted.
    pub(super) value: Option<(u64, Vec<u8>)>,
}

pub(super) fn classify(row: &StoredRow) -> ClassifiedRow {
    use Column::{Bytes, Null, Number, Text};
    let Some(columns) = row.columns() else { return ClassifiedRow::Damaged };
    let place = row.place;
    match (row.number, &columns[..]) {
        (Some(id), [Null, Text(key), Number(next), Number(last), Bytes(head), rest @ ..]) => {
            or_damaged(stream(id, key, [*next, *last], head, rest).map(ClassifiedRow::Stream))
        }
        (
            Some(_),
            [
                Null,
                Number(stream),
                Number(first),
                Number(records),
                Number(_),
                Bytes(start),
                Number(position),
                Bytes(index),
                Bytes(positions),
                events @ (Text(_) | Bytes(_)),
                ..,
            ],
        ) => {
            let numbers = [*first, *records, *position];
            or_damaged(
                chunk(place, *stream, numbers, start, [index, positions], events).map(ClassifiedRow::Chunk),
            )
        }
        (Some(first), [Null, Number(records), Bytes(index), events @ (Text(_) | Bytes(_)), ..]) => {
            or_damaged(group(place, first, *records, index, events).map(ClassifiedRow::Group))
        }
        (Some(first), [Null, Number(last), Bytes(spans), ..]) => or_damaged(feed(first, *last, spans)),
        (Some(_), [Null, Number(commit), Number(first_needed), Bytes(packed), ..]) => {
            or_damaged(changes(*commit, *first_needed, packed))
        }
        (None, [Text(space), Text(key), Number(version), Bytes(value), rest @ ..]) => {
            or_damaged(row_of(space, key, *version, value, rest).map(ClassifiedRow::Row))
        }
        (None, [Text(key), Number(id)]) => {
            or_damaged(text(key).map(|key| ClassifiedRow::Name { id: *id, key }))
        }
        (Some(_), [Text(kind), Text(_), Text(_), Number(root), Text(_)]) if kind == b"table" => {
            or_damaged(u32::try_from(*root).ok().map(ClassifiedRow::Root))
        }
        _ => ClassifiedRow::Foreign,
    }
}

fn or_damaged(found: Option<ClassifiedRow>) -> ClassifiedRow {
    found.unwrap_or(ClassifiedRow::Damaged)
}

fn stream(
    id: i64,
    key: &[u8],
    [next, last]: [i64; 2],
    head: &[u8],
    rest: &[Column<'_>],
) -> Option<StreamRow> {
    // Schema 1 had no more columns.
    let (first, start, erased) = match rest {
        [] => (0, None, false),
        [Column::Number(first), Column::Null, Column::Number(erased), ..] => (*first, None, *erased != 0),
        [Column::Number(first), Column::Bytes(start), Column::Number(erased), ..] => {
            (*first, Some(chain(start)?), *erased != 0)
        }
        _ => return None,
    };
    let (next_sequence, first_sequence) = (unsigned(next)?, unsigned(first)?);
    (first_sequence <= next_sequence && id > 0).then_some(())?;
    let (key, last_position, head) = (text(key)?, unsigned(last)?, chain(head)?);
    Some(StreamRow { id, key, next_sequence, last_position, head, first_sequence, start, erased })
}

fn chunk(
    place: CellPlace,
    stream: i64,
    [first, records, position]: [i64; 3],
    start: &[u8],
    [index, positions]: [&[u8]; 2],
    events: &Column<'_>,
) -> Option<ChunkRow> {
    let (joined, is_text) = joined(events)?;
    let ranges = stored::chunk_ranges(index, is_text, joined)?;
    let first_position = unsigned(position)?;
    (ranges.len() as u64 == unsigned(records)? && !ranges.is_empty() && stream > 0).then_some(())?;
    let record = |(place, range)| {
        Some((
            stored::position(first_position, positions, place)?,
            joined.get::<std::ops::Range<usize>>(range)?.to_vec(),
        ))
    };
    let records = ranges.into_iter().enumerate().map(record).collect::<Option<Vec<_>>>()?;
    records.is_sorted_by(|one, other| one.0 < other.0).then_some(())?;
    Some(ChunkRow { place, stream, first_sequence: unsigned(first)?, start: chain(start)?, records })
}

fn group(place: CellPlace, first: i64, records: i64, index: &[u8], events: &Column<'_>) -> Option<GroupRow> {
    let (joined, is_text) = joined(events)?;
    let slots = stored::group_slots(index, is_text, joined, unsigned(records)?)?;
    (!slots.is_empty() && first > 0).then_some(())?;
    let first_position = unsigned(first)?;
    let index_sound = stored::index_is_sound(first_position, is_text, index, joined);
    let sound = index_sound && stored::group_is_sound(index, joined);
    Some(GroupRow { place, first_position, slots, joined: joined.to_vec(), sound, index_sound })
}

fn feed(first: i64, last: i64, spans: &[u8]) -> Option<ClassifiedRow> {
    let (first, last) = (unsigned(first)?, unsigned(last)?);
    let spans = stored::spans_of_feed(spans)?;
    let end = spans.iter().try_fold(first, |end, span| end.checked_add(span.count))?;
    (last.checked_add(1) == Some(end)).then_some(ClassifiedRow::Feed { first, spans })
}

fn changes(commit: i64, first_needed: i64, packed: &[u8]) -> Option<ClassifiedRow> {
    let (commit, first_needed) = (unsigned(commit)?, unsigned(first_needed)?);
    let changes = stored::changes_of(commit, first_needed, packed)?;
    let row = |Change { space, key, row }: Change<'_>| NewRow {
        commit,
        space: space.to_owned(),
        key: key.to_owned(),
        value: row.map(|(version, value)| (version, value.to_vec())),
    };
    Some(ClassifiedRow::Changes { first_needed, rows: changes.into_iter().map(row).collect() })
}

/// Before schema 5 rows had no checksum; then a changed row cannot be recognised.
fn row_of(space: &[u8], key: &[u8], version: i64, value: &[u8], rest: &[Column<'_>]) -> Option<NewRow> {
    let version = unsigned(version).filter(|version| *version > 0)?;
    let (space, key) = (text(space)?, text(key)?);
    let is_sound = match rest {
        [] => true,
        [Column::Number(sum), ..] => *sum == stored::row_sum(&space, &key, version, value),
        _ => false,
    };
    is_sound.then(|| NewRow { commit: 0, space, key, value: Some((version, value.to_vec())) })
}

fn joined<'r>(events: &Column<'r>) -> Option<(&'r [u8], bool)> {
    match events {
        Column::Text(bytes) => Some((bytes, true)),
        Column::Bytes(bytes) => Some((bytes, false)),
        _ => None,
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn chain(bytes: &[u8]) -> Option<ChainValue> {
    Some(ChainValue(bytes.try_into().ok()?))
}

fn unsigned(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_row(version: i64, value: &[u8], rest: &[Column<'_>]) -> bool {
        row_of(b"records", b"token/1", version, value, rest).is_some()
    }

    #[test]
    fn a_row_that_does_not_fit_its_checksum_is_damaged() {
        let sum = Column::Number(stored::row_sum("records", "token/1", 3, b"{\"scopes\":[\"read\"]}"));
        let fits = std::slice::from_ref(&sum);
        assert!(is_row(3, b"{\"scopes\":[\"read\"]}", fits));
        assert!(!is_row(3, b"{\"scopes\":[\"admin\"]}", fits), "it is still JSON");
        assert!(!is_row(2, b"{\"scopes\":[\"read\"]}", fits), "the version is covered");
        assert!(!is_row(3, b"{\"scopes\":[\"read\"]}", &[Column::Null]), "the sum is missing");
        assert!(is_row(3, b"anything", &[]), "rows of before schema 5 have none");
    }
}
