//! The table of rows: small values in named spaces, in SQL.
//!
//! It knows neither transactions nor guards, and nothing of records.

use recount_log::{Row, RowRange};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Result, params};

use crate::layout::{bytes, int, limit, number};

// ---- what the writer asks and says ----

pub(crate) fn row_version(connection: &Connection, space: &str, key: &str) -> Result<Option<u64>> {
    let sql = r#"SELECT version FROM "rows" WHERE space = ?1 AND key = ?2"#;
    connection.prepare_cached(sql)?.query_row([space, key], |row| number(row, 0)).optional()
}

pub(crate) fn put_row(
    connection: &Connection,
    space: &str,
    key: &str,
    version: u64,
    value: &[u8],
) -> Result<()> {
    let sql = r#"INSERT INTO "rows" (space, key, version, value) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (space, key) DO UPDATE SET version = excluded.version, value = excluded.value"#;
    connection.prepare_cached(sql)?.execute(params![space, key, int(version), value]).map(drop)
}

pub(crate) fn delete_row(connection: &Connection, space: &str, key: &str) -> Result<()> {
    let sql = r#"DELETE FROM "rows" WHERE space = ?1 AND key = ?2"#;
    connection.prepare_cached(sql)?.execute([space, key]).map(drop)
}

// ---- what readers ask ----

pub(crate) fn row(connection: &Connection, space: &str, key: &str) -> Result<Option<Row>> {
    let sql = r#"SELECT key, version, value FROM "rows" WHERE space = ?1 AND key = ?2"#;
    connection.prepare_cached(sql)?.query_row([space, key], stored_row).optional()
}

pub(crate) fn rows(connection: &Connection, range: &RowRange, most: usize) -> Result<Vec<Row>> {
    let first = &*range.prefix;
    let end = beyond(&range.prefix);
    let after = range.after.as_deref();
    // The bounds in SQL are one closed, one open; the caller's place moves whichever it lies beyond.
    let mut statement = if range.backwards {
        let end = match (after, end.as_deref()) {
            (Some(after), Some(end)) => Some(after.min(end)),
            (one, other) => one.or(other),
        };
        backwards(connection, &range.space, first, end, most)?
    } else {
        forwards(connection, &range.space, first, after, end.as_deref(), most)?
    };
    statement.raw_query().mapped(stored_row).collect()
}

fn backwards<'c>(
    connection: &'c Connection,
    space: &str,
    first: &str,
    end: Option<&str>,
    max: usize,
) -> Result<CachedStatement<'c>> {
    let mut statement = connection.prepare_cached(match end {
        Some(_) => {
            r#"SELECT key, version, value FROM "rows"
            WHERE space = ?1 AND key >= ?2 AND key < ?3 ORDER BY key DESC LIMIT ?4"#
        }
        None => {
            r#"SELECT key, version, value FROM "rows"
            WHERE space = ?1 AND key >= ?2 AND ?3 IS NULL ORDER BY key DESC LIMIT ?4"#
        }
    })?;
    statement.raw_bind_parameter(1, space)?;
    statement.raw_bind_parameter(2, first)?;
    statement.raw_bind_parameter(3, end)?;
    statement.raw_bind_parameter(4, limit(max))?;
    Ok(statement)
}

fn forwards<'c>(
    connection: &'c Connection,
    space: &str,
    first: &str,
    after: Option<&str>,
    end: Option<&str>,
    max: usize,
) -> Result<CachedStatement<'c>> {
    // A place before the prefix says nothing more than the prefix does.
    let after = after.filter(|after| *after >= first);
    let (from, comparison) = after.map_or((first, ">="), |after| (after, ">"));
    let below = if end.is_some() { "key < ?3" } else { "?3 IS NULL" };
    let mut statement = connection.prepare_cached(&format!(
        r#"SELECT key, version, value FROM "rows"
        WHERE space = ?1 AND key {comparison} ?2 AND {below} ORDER BY key LIMIT ?4"#
    ))?;
    statement.raw_bind_parameter(1, space)?;
    statement.raw_bind_parameter(2, from)?;
    statement.raw_bind_parameter(3, end)?;
    statement.raw_bind_parameter(4, limit(max))?;
    Ok(statement)
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

fn stored_row(row: &rusqlite::Row<'_>) -> Result<Row> {
    Ok(Row { key: row.get(0)?, version: number(row, 1)?, value: bytes(row, 2)? })
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
