//! Reads of rows, each checked against its checksum.
//!
//! It must not change anything; [`crate::group`] has what the writer writes.

use std::sync::Arc;

use bytes::Bytes;
use recount_log::limits::DAMAGED_ROWS_MAX;
use recount_log::{DamagedRow, Fault, Row, RowRange, WholeRows};

use crate::connect::Readers;
use crate::fault::corrupt;
use crate::group::row_sum;
use crate::limits;
use crate::sql::Sql;
use crate::streams::bounded;

pub(crate) async fn row(readers: &Readers, sql: &Sql, space: &str, key: &str) -> Result<Option<Row>, Fault> {
    let context = format!("reading row {space}/{key}");
    let rows = readers.query(&context, &sql.row, &[&space.as_bytes(), &key.as_bytes()]).await?;
    let Some(found) = rows.first() else { return Ok(None) };
    let (version, value): (i64, &[u8]) = (found.get(0), found.get(1));
    let version = version.cast_unsigned();
    if row_sum(space.as_bytes(), key.as_bytes(), version, value) != found.get::<_, i64>(2) {
        return Err(corrupt(format!("row {space}/{key} does not match its checksum")));
    }
    Ok(Some(Row { key: key.into(), version, value: Bytes::copy_from_slice(value) }))
}

/// The whole rows of a range, and the damaged ones.
pub(crate) async fn range(readers: &Readers, sql: &Sql, range: &RowRange) -> Result<WholeRows, Fault> {
    let (mut lower, mut upper) = bounds(range);
    let space = range.space.as_bytes();
    let mut found = WholeRows::default();
    // Damaged rows do not count, so there may be more to read.
    while found.rows.len() < range.limit {
        let limit = range.limit - found.rows.len();
        let sql = if range.backwards { &sql.rows_backwards } else { &sql.rows };
        let context = format!("reading rows of space {}", range.space);
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&space, &lower, &upper, &bounded(limit)];
        let rows = readers.query(&context, sql, &parameters).await?;
        for row in &rows {
            let (key, version, value): (&[u8], i64, &[u8]) = (row.get(0), row.get(1), row.get(2));
            let version = version.cast_unsigned();
            let is_whole = row_sum(space, key, version, value) == row.get::<_, i64>(3);
            match str::from_utf8(key) {
                Ok(key) if is_whole => {
                    found.rows.push(Row { key: key.into(), version, value: Bytes::copy_from_slice(value) });
                }
                _ if found.damaged.len() < DAMAGED_ROWS_MAX => found.damaged.push(damaged(space, key)),
                _ => {}
            }
        }
        let Some(last) = rows.last().filter(|_| rows.len() == limit) else { break };
        let last: &[u8] = last.get(0);
        if range.backwards { upper = last.to_vec() } else { lower = next_key(last) }
    }
    Ok(found)
}

/// The damaged rows of all spaces.
pub(crate) async fn damaged_rows(readers: &Readers, sql: &Sql) -> Result<Vec<DamagedRow>, Fault> {
    let (mut space, mut key): (Vec<u8>, Vec<u8>) = Default::default();
    let mut found = Vec::new();
    loop {
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&space, &key, &bounded(limits::SCAN_PAGE)];
        let rows = readers.query("looking for damaged rows", &sql.all_rows, &parameters).await?;
        for row in &rows {
            let (space, key, version, value): (&[u8], &[u8], i64, &[u8]) =
                (row.get(0), row.get(1), row.get(2), row.get(3));
            let is_text = str::from_utf8(space).is_ok() && str::from_utf8(key).is_ok();
            if !is_text || row_sum(space, key, version.cast_unsigned(), value) != row.get::<_, i64>(4) {
                found.push(damaged(space, key));
            }
        }
        let Some(last) = rows.last().filter(|_| found.len() < DAMAGED_ROWS_MAX) else { break };
        (space, key) = (last.get(0), last.get(1));
    }
    found.truncate(DAMAGED_ROWS_MAX);
    Ok(found)
}

/// Space and key may be what is damaged, so it may have belonged anywhere.
fn damaged(space: &[u8], key: &[u8]) -> DamagedRow {
    let (space, key) = (Bytes::copy_from_slice(space), Bytes::copy_from_slice(key));
    DamagedRow { space, key, before: None::<Arc<str>>, after: None }
}

/// The first key of a range, and the first one after it.
fn bounds(range: &RowRange) -> (Vec<u8>, Vec<u8>) {
    let prefix = range.prefix.as_bytes();
    let mut lower = prefix.to_vec();
    // No text contains this byte, so nothing is after it.
    let mut upper = vec![0xff];
    if let Some((last, rest)) = prefix.split_last() {
        upper = [rest, &[last + 1]].concat();
    }
    match range.after.as_deref().map(str::as_bytes) {
        Some(after) if range.backwards => upper = upper.min(after.to_vec()),
        Some(after) => lower = lower.max(next_key(after)),
        None => {}
    }
    (lower, upper)
}

/// The smallest key after this one.
fn next_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_range() {
        let of = |prefix: &str, after: Option<&str>, backwards| {
            let (prefix, after) = (prefix.into(), after.map(Into::into));
            bounds(&RowRange { space: "s".into(), prefix, after, backwards, limit: 1 })
        };
        assert_eq!(of("", None, false), (b"".to_vec(), vec![0xff]));
        assert_eq!(of("ab", None, false), (b"ab".to_vec(), b"ac".to_vec()));
        assert_eq!(of("ab", Some("a"), false), (b"ab".to_vec(), b"ac".to_vec()));
        assert_eq!(of("ab", Some("abc"), false), (b"abc\0".to_vec(), b"ac".to_vec()));
        assert_eq!(of("ab", Some("abc"), true), (b"ab".to_vec(), b"abc".to_vec()));
        assert_eq!(of("ab", Some("b"), true), (b"ab".to_vec(), b"ac".to_vec()));
        let last = "\u{10ffff}";
        let (_, upper) = of(last, None, false);
        assert!(upper > format!("{last}more").into_bytes());
    }
}
