//! Where streams begin and end, as the tables have it.
//!
//! It must not know records, except for the place of the last one.

use bytes::Bytes;
use recount_log::chain::ChainValue;
use recount_log::{Damage, End, Fault, StreamKey, Sum};
use tokio_postgres::Row;

use crate::connect::{Parameters, Readers};
use crate::fault::corrupt;
use crate::sql::Sql;

/// A stream without its records. The default is one that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StreamState {
    /// 0: it does not exist yet.
    pub(crate) id: i64,
    pub(crate) first_position: u64,
    pub(crate) first_sequence: u64,
    /// The chain value before the first record that remains, if the stream was ever cut.
    pub(crate) start: Option<ChainValue>,
    pub(crate) next_sequence: u64,
    pub(crate) last_position: u64,
    pub(crate) erased: bool,
}

impl StreamState {
    pub(crate) fn end(&self) -> End {
        End {
            next_sequence: self.next_sequence,
            last_position: self.last_position,
            first_sequence: self.first_sequence,
            erased: self.erased,
        }
    }

    /// The chain value before the first record that remains.
    pub(crate) fn start_of(&self, name: &str) -> ChainValue {
        self.start.unwrap_or_else(|| ChainValue::start(name))
    }

    /// The checksum of the row. It covers the end of the stream only as of its last removal.
    pub(crate) fn sum(&self, name: &str) -> i64 {
        let removed = self.removal_end();
        let start = self.start.as_ref().map_or(&[][..], |start| &start.0[..]);
        let sum = Sum::of("streams").bytes(&self.id.to_le_bytes()).bytes(name.as_bytes());
        let sum = sum.number(self.first_position).number(self.first_sequence).bytes(start);
        sum.number(removed.0).number(removed.1).number(u64::from(self.erased)).column()
    }

    /// Next sequence and last position as the row has them: 0 unless something was removed.
    pub(crate) fn removal_end(&self) -> (u64, u64) {
        match self.start {
            Some(_) => (self.next_sequence, self.last_position),
            None => (0, 0),
        }
    }

    /// Reads a row of [`Sql::streams_by_name`].
    fn of_row(row: &Row, name: &str) -> Result<Self, Fault> {
        let number = |column: usize| row.get::<_, i64>(column).cast_unsigned();
        let start: Option<&[u8]> = row.get(4);
        let damaged = || {
            let stream = Some(StreamKey::from(name));
            Fault::damaged(Damage { stream, ..Damage::default() })
        };
        let start = match start {
            None => None,
            Some(bytes) => Some(ChainValue(bytes.try_into().map_err(|_| damaged())?)),
        };
        let mut state = StreamState {
            id: row.get(1),
            first_position: number(2),
            first_sequence: number(3),
            start,
            next_sequence: number(5),
            last_position: number(6),
            erased: row.get(7),
        };
        if state.sum(name) != row.get::<_, i64>(8) {
            return Err(damaged());
        }
        if let (Some(sequence), Some(position)) =
            (row.get::<_, Option<i64>>(9), row.get::<_, Option<i64>>(10))
        {
            let after = sequence.cast_unsigned().saturating_add(1);
            state.next_sequence = state.next_sequence.max(after);
            state.last_position = state.last_position.max(position.cast_unsigned());
        }
        Ok(state)
    }

    /// Reads the rows of [`Sql::streams_by_name`] for these names, in their order. Missing streams have the default.
    pub(crate) fn of_rows(rows: &[Row], names: &[&str]) -> Result<Vec<Self>, Fault> {
        let mut states = vec![StreamState::default(); names.len()];
        for row in rows {
            let place = usize::try_from(row.get::<_, i64>(0)).unwrap_or_default();
            let Some(index) = place.checked_sub(1).filter(|index| *index < names.len()) else { continue };
            states[index] = StreamState::of_row(row, names[index])?;
        }
        Ok(states)
    }
}

/// The state of one stream; `None` if it does not exist.
pub(crate) async fn find(readers: &Readers, sql: &Sql, name: &str) -> Result<Option<StreamState>, Fault> {
    let names = [name.as_bytes()];
    let parameters: Parameters<'_> = &[&&names[..]];
    let context = format!("reading the end of stream {name}");
    let rows = readers.query(&context, &sql.streams_by_name, parameters).await?;
    let states = StreamState::of_rows(&rows, &[name])?;
    Ok(states.into_iter().next().filter(|state| state.id != 0))
}

/// Names of streams in key order, strictly after `after`.
pub(crate) async fn list(
    readers: &Readers,
    sql: &Sql,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<StreamKey>, Fault> {
    let (after, limit) = (after.map(str::as_bytes), bounded(limit));
    let rows = readers.query("listing the streams", &sql.stream_names, &[&after, &limit]).await?;
    rows.iter().map(|row| text(row.get(0), "the name of a stream")).collect()
}

pub(crate) fn text(bytes: &[u8], what: &str) -> Result<StreamKey, Fault> {
    str::from_utf8(bytes).map(StreamKey::from).map_err(|_| corrupt(format!("{what} is no text")))
}

/// A count or size as the database takes it.
pub(crate) fn bounded(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// A sequence or position as the database takes it; beyond its range is after everything.
pub(crate) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The checksum of a record.
pub(crate) fn record_sum(position: u64, stream: i64, sequence: u64, bytes: &Bytes) -> i64 {
    let sum = Sum::of("records").number(position).bytes(&stream.to_le_bytes());
    sum.number(sequence).bytes(bytes).column()
}
