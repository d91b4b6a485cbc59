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
        check_beside(connection, (space, key), true)?;
        check_beside(connection, (space, key), false)?;
    }
    Ok(row)
}

fn found(connection: &Connection, space: &str, key: &str) -> Result<Option<Row>> {
    let sql = columns!("WHERE space = ?1 AND key = ?2");
    let row = connection.prepare_cached(sql)?.query_row([space, key], stored_row).optional()?;
    Ok(row.map(|(_, row)| row))
}

/// The range is walked to the first row that is no part of it, and the rows beside both of its ends are checked as well:
/// a row whose name was changed on the disk is one of these, or in between. So SQL bounds a walk only where it begins;
/// any further condition would pass over such a row in silence.
pub(crate) fn rows(connection: &Connection, range: &RowRange, most: usize) -> Result<Vec<Row>> {
    let space = &*range.space;
    let (beyond_prefix, beyond_space) = (beyond(&range.prefix), format!("{space}\0"));
    // A place outside the prefix says nothing more than the prefix does.
    let after = range.after.as_deref();
    let (walk, from, before) = if range.backwards {
        let from = match (after, beyond_prefix.as_deref()) {
            (Some(after), Some(end)) => Some(after.min(end)),
            (one, other) => one.or(other),
        };
        let before = from.map_or((&*beyond_space, ""), |from| (space, from));
        match from {
            Some(from) => (columns!("WHERE space = ?1 AND key < ?2 ORDER BY key DESC"), from, before),
            None => (columns!("WHERE space = ?1 AND ?2 = '' ORDER BY key DESC"), "", before),
        }
    } else if let Some(after) = after.filter(|after| *after >= &*range.prefix) {
        (columns!("WHERE space = ?1 AND key > ?2 ORDER BY key"), after, (space, after))
    } else {
        let from = &*range.prefix;
        (columns!("WHERE space = ?1 AND key >= ?2 ORDER BY key"), from, (space, from))
    };
    check_beside(connection, before, !range.backwards)?;
    let mut statement = connection.prepare_cached(walk)?;
    let mut walked = statement.query([space, from])?;
    let mut rows: Vec<Row> = Vec::new();
    while rows.len() < most {
        let Some(row) = walked.next()? else {
            let last = rows.last().map_or(before, |row| (space, &*row.key));
            check_beside(connection, last, range.backwards)?;
            break;
        };
        let row = stored_row(row)?.1;
        if !row.key.starts_with(&*range.prefix) {
            break;
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Checks the row next to a place.
fn check_beside(connection: &Connection, (space, key): (&str, &str), before: bool) -> Result<()> {
    let sql = if before {
        columns!("WHERE (space, key) < (?1, ?2) ORDER BY space DESC, key DESC LIMIT 1")
    } else {
        columns!("WHERE (space, key) > (?1, ?2) ORDER BY space, key LIMIT 1")
    };
    connection.prepare_cached(sql)?.query_row([space, key], stored_row).optional().map(drop)
}

/// Shows each row, or that it is damaged, to the end of the table or to where SQLite cannot read on.
pub(crate) fn all(connection: &Connection, each: &mut dyn FnMut(Result<()>)) -> Result<()> {
    let mut statement = connection.prepare(columns!("ORDER BY space, key"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(stored_row(row).map(drop));
    }
    Ok(())
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
