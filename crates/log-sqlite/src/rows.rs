//! The table of rows: small values in named spaces, in SQL.
//!
//! It knows neither transactions nor guards, and nothing of records.

use std::sync::Arc;

use recount_log::{Row, RowRange};
use rusqlite::{Connection, OptionalExtension as _, Result, params};

use crate::fault::altered;
use crate::layout::{bytes, int, number};
use crate::sum::Sum;

/// What is asked for of a row, in the order [`stored_row`] takes it.
macro_rules! columns {
    ($rest:literal) => {
        concat!(r#"SELECT space, key, version, value, sum FROM "rows" "#, $rest)
    };
}

// ---- what the writer asks and says ----

pub(crate) fn row_version(connection: &Connection, space: &str, key: &str) -> Result<Option<u64>> {
    let row = found(connection, space, key)?;
    Ok(row.map(|row| row.version))
}

pub(crate) fn put_row(
    connection: &Connection,
    space: &str,
    key: &str,
    version: u64,
    value: &[u8],
) -> Result<()> {
    let sql = r#"INSERT INTO "rows" (space, key, version, value, sum) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (space, key) DO UPDATE SET version = excluded.version, value = excluded.value, sum = excluded.sum"#;
    let sum = sum(space, key, version, value);
    connection.prepare_cached(sql)?.execute(params![space, key, int(version), value, sum]).map(drop)
}

pub(crate) fn delete_row(connection: &Connection, space: &str, key: &str) -> Result<()> {
    let sql = r#"DELETE FROM "rows" WHERE space = ?1 AND key = ?2"#;
    connection.prepare_cached(sql)?.execute([space, key]).map(drop)
}

/// The checksum of a row.
pub(crate) fn sum(space: &str, key: &str, version: u64, value: &[u8]) -> i64 {
    Sum::of("rows").bytes(space.as_bytes()).bytes(key.as_bytes()).number(version).bytes(value).column()
}

// ---- what readers ask ----

pub(crate) fn row(connection: &Connection, space: &str, key: &str) -> Result<Option<Row>> {
    let row = found(connection, space, key)?;
    if row.is_none() {
        // What was not found may be there under a name that was changed on the disk. It then lies beside the place
        // where it was looked for.
        for sql in [
            columns!("WHERE (space, key) < (?1, ?2) ORDER BY space DESC, key DESC LIMIT 1"),
            columns!("WHERE (space, key) > (?1, ?2) ORDER BY space, key LIMIT 1"),
        ] {
            connection.prepare_cached(sql)?.query_row([space, key], stored_row).optional()?;
        }
    }
    Ok(row)
}

fn found(connection: &Connection, space: &str, key: &str) -> Result<Option<Row>> {
    let sql = columns!("WHERE space = ?1 AND key = ?2");
    let row = connection.prepare_cached(sql)?.query_row([space, key], stored_row).optional()?;
    Ok(row.map(|(_, row)| row))
}

/// The range is walked from where it begins to the first row that is no part of it, which is checked as well, as is
/// the row before its beginning: a row whose name was changed on the disk is one of these, or in between.
pub(crate) fn rows(connection: &Connection, range: &RowRange, most: usize) -> Result<Vec<Row>> {
    let space = &*range.space;
    let (beyond_prefix, beyond_space) = (beyond(&range.prefix), format!("{space}\0"));
    // A place outside the prefix says nothing more than the prefix does.
    let after = range.after.as_deref();
    let (walk, edge, from) = if range.backwards {
        let from = match (after, beyond_prefix.as_deref()) {
            (Some(after), Some(end)) => (space, after.min(end)),
            (Some(end), None) | (None, Some(end)) => (space, end),
            (None, None) => (&*beyond_space, ""),
        };
        (
            columns!("WHERE (space, key) < (?1, ?2) ORDER BY space DESC, key DESC"),
            columns!("WHERE (space, key) >= (?1, ?2) ORDER BY space, key LIMIT 1"),
            from,
        )
    } else if let Some(after) = after.filter(|after| *after >= &*range.prefix) {
        (
            columns!("WHERE (space, key) > (?1, ?2) ORDER BY space, key"),
            columns!("WHERE (space, key) <= (?1, ?2) ORDER BY space DESC, key DESC LIMIT 1"),
            (space, after),
        )
    } else {
        (
            columns!("WHERE (space, key) >= (?1, ?2) ORDER BY space, key"),
            columns!("WHERE (space, key) < (?1, ?2) ORDER BY space DESC, key DESC LIMIT 1"),
            (space, &*range.prefix),
        )
    };
    connection.prepare_cached(edge)?.query_row([from.0, from.1], stored_row).optional()?;
    let mut statement = connection.prepare_cached(walk)?;
    let mut walked = statement.query([from.0, from.1])?;
    let mut rows = Vec::new();
    while rows.len() < most
        && let Some(row) = walked.next()?
    {
        let (of, row) = stored_row(row)?;
        if of != space || !row.key.starts_with(&*range.prefix) {
            break;
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The least string greater than all that begin with `prefix`; `None` when there is none.
fn beyond(prefix: &str) -> Option<String> {
    let mut left = prefix.to_owned();
    while let Some(last) = left.pop() {
        // Order of UTF-8 bytes is order of characters, so the next character is the next place.
        if let Some(next) = (last..=char::MAX).nth(1) {
            left.push(next);
            return Some(left);
        }
    }
    None
}

/// The space of a row, and the row, if it is what was written.
fn stored_row(row: &rusqlite::Row<'_>) -> Result<(String, Row)> {
    let (space, key): (String, Arc<str>) = (row.get(0)?, row.get(1)?);
    let (version, value) = (number(row, 2)?, bytes(row, 3)?);
    if row.get::<_, Option<i64>>(4)? != Some(sum(&space, &key, version, &value)) {
        return Err(altered(&format!("row {space}/{key}")));
    }
    Ok((space, Row { key, version, value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_a_prefix_is_the_next_character() {
        let cases = [
            ("", None),
            ("a", Some("b")),
            ("a/", Some("a0")),
            ("\u{7f}", Some("\u{80}")),
            ("\u{d7ff}", Some("\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}\u{10ffff}", None),
        ];
        for (prefix, expected) in cases {
            assert_eq!(beyond(prefix).as_deref(), expected, "{prefix:?}");
        }
    }
}
