//! The table `feed`: maps positions to sealed records.
//!
//! It must not know records or transactions; `packing.rs` packs the spans.

use recount_log::{Fault, Sum};
use rusqlite::{Connection, OptionalExtension as _, Result, params};

use super::columns::{int, number};
use crate::fault::{FaultContext as _, corrupt};
use crate::packing::{self, FeedSpan};

/// The columns of a row of the feed, in the order [`stored_feed`] takes them.
macro_rules! feed_columns {
    ($rest:literal) => {
        concat!("SELECT first_position, last_position, spans, sum FROM feed ", $rest)
    };
}
/// Which record is at each position of a part of the feed.
pub(crate) struct FeedRow {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) spans: Vec<FeedSpan>,
}

pub(crate) const FEED_BY_POSITION: &str =
    feed_columns!("WHERE first_position >= ?1 ORDER BY first_position LIMIT ?2");

pub(crate) fn feed_sum(first: u64, last: u64, spans: &[u8]) -> i64 {
    Sum::of("feed").number(first).number(last).bytes(spans).column()
}

/// A row of the feed to be written, with packed spans.
pub(crate) struct NewFeed {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) spans: Vec<u8>,
}

pub(crate) fn insert_feed(connection: &Connection, row: &NewFeed) -> Result<()> {
    let sql = "INSERT INTO feed (first_position, last_position, spans, sum) VALUES (?1, ?2, ?3, ?4)";
    let values = params![int(row.first), int(row.last), row.spans, feed_sum(row.first, row.last, &row.spans)];
    connection.prepare_cached(sql)?.execute(values).map(drop)
}

/// Passes each row of the feed to a closure, from the one with a position on, until it returns `false`.
pub(crate) fn feed_from(
    connection: &Connection,
    position: u64,
    each: &mut dyn FnMut(FeedRow) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let sql = feed_columns!(
        "WHERE first_position >= coalesce((SELECT max(first_position) FROM feed WHERE first_position <= ?1), 0)
        ORDER BY first_position"
    );
    let context = "reading the positions of records";
    let mut statement = connection.prepare_cached(sql).context(context)?;
    let mut rows = statement.query([int(position)]).context(context)?;
    while let Some(row) = rows.next().context(context)? {
        if !each(stored_feed(row)?)? {
            break;
        }
    }
    Ok(())
}

pub(crate) fn stored_feed(row: &rusqlite::Row<'_>) -> Result<FeedRow, Fault> {
    let context = "reading the positions of records";
    let (first, last) = (number(row, 0).context(context)?, number(row, 1).context(context)?);
    let sum: Option<i64> = row.get(3).context(context)?;
    let spans = row.get_ref(2).context(context)?.as_blob().ok();
    let spans = spans.filter(|spans| sum == Some(feed_sum(first, last, spans)));
    let spans = spans.and_then(packing::spans_of_feed);
    if let Some(spans) = spans
        && let counted = spans.iter().try_fold(first, |sum, span| sum.checked_add(span.count))
        && counted.is_some()
        && counted == last.checked_add(1)
        && spans.iter().all(|span| span.first_sequence.checked_add(span.count).is_some())
    {
        return Ok(FeedRow { first, last, spans });
    }
    Err(corrupt(format!(
        "the row of the feed from position {first} on is invalid; check the store with `recount verify --data`"
    )))
}

/// The first position of the next row of the feed after a position.
pub(crate) fn feed_after(connection: &Connection, position: u64) -> Result<Option<u64>> {
    let sql = "SELECT first_position FROM feed WHERE first_position > ?1 ORDER BY first_position LIMIT 1";
    connection.prepare_cached(sql)?.query_row([int(position)], |row| number(row, 0)).optional()
}

/// The last position that is sealed; 0 when none is.
pub(crate) fn last_sealed(connection: &Connection) -> Result<u64, Fault> {
    let context = "reading the end of the sealed part";
    let mut statement =
        connection.prepare_cached(feed_columns!("ORDER BY first_position DESC LIMIT 1")).context(context)?;
    let mut rows = statement.query([]).context(context)?;
    match rows.next().context(context)? {
        Some(row) => stored_feed(row).map(|row| row.last),
        None => Ok(0),
    }
}
