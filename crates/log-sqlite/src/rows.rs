//! The table of rows: small values in named spaces, in SQL.
//!
//! It must not know transactions, guards or records.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use recount_log::limits::DAMAGED_ROWS_MAX;
use recount_log::{DamagedRow, Row, RowRange, Sum, WholeRows};
use rusqlite::{Connection, OptionalExtension as _, Result, params};

use crate::fault::altered;
use crate::layout::{bytes, int, number};
use crate::limits::{NAME_BYTES_CHANGED, REMOVED_AT_A_TIME};

/// The columns of a row, in the order [`stored_row`] takes them.
macro_rules! columns {
    ($rest:literal) => {
        concat!(r#"SELECT space, key, version, value, sum FROM "rows" "#, $rest)
    };
}

// ---- calls of the writer ----

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
pub fn sum(space: &str, key: &str, version: u64, value: &[u8]) -> i64 {
    Sum::of("rows").bytes(space.as_bytes()).bytes(key.as_bytes()).number(version).bytes(value).column()
}

// ---- calls of readers ----

pub(crate) fn row(connection: &Connection, space: &str, key: &str) -> Result<Option<Row>> {
    let row = found(connection, space, key)?;
    if row.is_none() {
        // A missing row may exist under a name that damage changed. Then a neighbour in the order is damaged.
        for before in [true, false] {
            check_beside(connection, (space, key), before, Some((space, key)))?;
        }
    }
    Ok(row)
}

fn found(connection: &Connection, space: &str, key: &str) -> Result<Option<Row>> {
    let sql = columns!("WHERE space = ?1 AND key = ?2");
    let row = connection.prepare_cached(sql)?.query_row([space, key], stored_row).optional()?;
    Ok(row.map(|(_, row)| row))
}

/// Reads a range up to the first row outside it, and also checks the neighbours of both ends: a row whose name was
/// changed by damage is among these or in between. So SQL bounds only the start; any further condition would skip such
/// a row.
pub(crate) fn rows(connection: &Connection, range: &RowRange, most: usize) -> Result<Vec<Row>> {
    let space = &*range.space;
    let (beyond_prefix, beyond_space) = (beyond(&range.prefix), format!("{space}\0"));
    // A start outside the prefix adds nothing to the prefix.
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
    check_beside(connection, before, !range.backwards, None)?;
    let mut statement = connection.prepare_cached(walk)?;
    let mut walked = statement.query([space, from])?;
    let mut rows: Vec<Row> = Vec::new();
    while rows.len() < most {
        let Some(row) = walked.next()? else {
            let last = rows.last().map_or(before, |row| (space, &*row.key));
            check_beside(connection, last, range.backwards, None)?;
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

/// Checks the row next to a place in the order. Damaged rows that certainly belong to another space, or are not the
/// `missing` one, are skipped.
fn check_beside(
    connection: &Connection,
    (space, key): (&str, &str),
    before: bool,
    missing: Option<(&str, &str)>,
) -> Result<()> {
    let sql = match (before, missing.is_some()) {
        (true, false) => columns!("WHERE (space, key) < (?1, ?2) ORDER BY space DESC, key DESC"),
        (true, true) => columns!("WHERE (space, key) <= (?1, ?2) ORDER BY space DESC, key DESC"),
        (false, false) => columns!("WHERE (space, key) > (?1, ?2) ORDER BY space, key"),
        (false, true) => columns!("WHERE (space, key) >= (?1, ?2) ORDER BY space, key"),
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([space, key])?;
    let mut damaged = None;
    for passed in 0.. {
        let Some(row) = rows.next()? else { break };
        let error = match stored_row(row) {
            // A damaged row out of order was in between and hid this one.
            Ok((next, row)) if missing == Some((&next, &row.key)) => {
                return Err(
                    damaged.unwrap_or_else(|| altered(&format!("what is beside row {next}/{}", row.key)))
                );
            }
            Ok(_) => break,
            Err(error) => error,
        };
        let name = (&*stored_bytes(row, 0)?, &*stored_bytes(row, 1)?);
        let is_other = is_of_row(&error)
            && passed < DAMAGED_ROWS_MAX
            && (missing.is_some_and(|missing| is_other_name(name, missing))
                || is_of_other_space(connection, name.0, space)?);
        if !is_other {
            return Err(error);
        }
        damaged = Some(error);
    }
    Ok(())
}

/// Whether a damaged row has the name of another space with whole rows. Names of spaces differ in several bytes, so
/// damage hardly turns one into another.
fn is_of_other_space(connection: &Connection, owner: &[u8], space: &str) -> Result<bool> {
    let Some(owner) = str::from_utf8(owner).ok().filter(|owner| *owner != space) else { return Ok(false) };
    let mut statement = connection.prepare_cached(columns!("WHERE space = ?1 ORDER BY key"))?;
    let mut rows = statement.query([owner])?;
    for _ in 0..DAMAGED_ROWS_MAX {
        match rows.next()?.map(stored_row) {
            // Next to rows out of order, SQLite may return rows of other spaces.
            Some(Ok((found, _))) if found == owner => return Ok(true),
            Some(Err(error)) if !is_of_row(&error) => return Err(error),
            Some(_) => {}
            None => break,
        }
    }
    Ok(false)
}

/// Whether damage cannot have turned the missing name into this one: it has only valid characters, so it was not
/// overwritten, and it differs in more than a few bytes.
fn is_other_name(name: (&[u8], &[u8]), missing: (&str, &str)) -> bool {
    let is_written = |byte: &u8| byte.is_ascii_alphanumeric() || b"._/-".contains(byte);
    let (name, missing) = ([name.0, name.1].concat(), [missing.0, missing.1].concat());
    name.iter().all(is_written) && differing(&name, missing.as_bytes()) >= NAME_BYTES_CHANGED
}

/// The number of differing bytes of two names.
fn differing(one: &[u8], other: &[u8]) -> usize {
    let same = |(one, other): &(&u8, &u8)| one == other;
    if one.len() == other.len() {
        return one.iter().zip(other).filter(|pair| !same(pair)).count();
    }
    let beginning = one.iter().zip(other).take_while(same).count();
    let (one, other) = (&one[beginning..], &other[beginning..]);
    let end = one.iter().rev().zip(other.iter().rev()).take_while(same).count();
    one.len().max(other.len()) - end
}

/// Passes the result of reading each row to a closure, up to the end of the table or to where SQLite cannot continue.
pub(crate) fn all(connection: &Connection, each: &mut dyn FnMut(Result<()>)) -> Result<()> {
    let mut statement = connection.prepare(columns!("ORDER BY space, key"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(stored_row(row).map(drop));
    }
    Ok(())
}

// ---- damage ----

/// The whole rows of a range and the damaged ones that may be part of it. It reads the whole table, because damage may
/// have moved a row out of order.
pub(crate) fn whole_rows(connection: &Connection, range: &RowRange, most: usize) -> Result<WholeRows> {
    let (space, prefix) = (&*range.space, &*range.prefix);
    let is_after = |key: &str| match range.after.as_deref() {
        Some(after) if range.backwards => key < after,
        Some(after) => key > after,
        None => true,
    };
    let mut kept: VecDeque<Row> = VecDeque::new();
    let mut found = WholeRows::default();
    let mut judge = |gap: &Gap<'_>| {
        found.damaged.extend(gap.damaged.iter().filter(|row| gap.may_hold(space, prefix, row)).cloned());
    };
    scan(connection, &mut judge, &mut |owner, row| {
        if owner != space || !row.key.starts_with(prefix) || !is_after(&row.key) {
            return;
        }
        if kept.len() < most {
            kept.push_back(row);
        } else if range.backwards && most > 0 {
            kept.pop_front();
            kept.push_back(row);
        }
    })?;
    found.rows = kept.into();
    if range.backwards {
        found.rows.reverse();
    }
    found.damaged.truncate(DAMAGED_ROWS_MAX);
    Ok(found)
}

/// Every damaged row of the table.
pub(crate) fn damaged(connection: &Connection) -> Result<Vec<DamagedRow>> {
    let mut found = Vec::new();
    scan(connection, &mut |gap| found.extend_from_slice(&gap.damaged), &mut |_, _| ())?;
    found.truncate(DAMAGED_ROWS_MAX);
    Ok(found)
}

/// Adjacent damaged rows, and the whole rows next to them.
#[derive(Default)]
struct Gap<'g> {
    before: Option<(&'g str, &'g str)>,
    after: Option<(&'g str, &'g str)>,
    damaged: Vec<DamagedRow>,
}

impl Gap<'_> {
    /// Whether one of them may have been part of a range under its undamaged name.
    fn may_hold(&self, space: &str, prefix: &str, row: &DamagedRow) -> bool {
        let (key, owner) = (str::from_utf8(&row.key), str::from_utf8(&row.space));
        if owner == Ok(space) && key.is_ok_and(|key| key.starts_with(prefix)) {
            return true;
        }
        // A name in the space of its neighbour was not changed from a name of this space.
        let beside = [self.before, self.after].into_iter().flatten();
        if owner.is_ok_and(|owner| owner != space && beside.clone().any(|(other, _)| other == owner)) {
            return false;
        }
        let is_of_range = |(other, key): (&str, &str)| other == space && key.starts_with(prefix);
        let begins_before = self.before.is_none_or(|row| row < (space, prefix) || is_of_range(row));
        begins_before && self.after.is_none_or(|row| row >= (space, prefix))
    }
}

/// Passes every whole row to a closure, and adjacent damaged ones once their neighbours are known.
fn scan(
    connection: &Connection,
    damaged: &mut dyn FnMut(&Gap<'_>),
    whole: &mut dyn FnMut(&str, Row),
) -> Result<()> {
    let mut statement = connection.prepare(columns!("ORDER BY space, key"))?;
    let mut rows = statement.query([])?;
    let mut before: Option<(String, Arc<str>)> = None;
    let mut open: Vec<DamagedRow> = Vec::new();
    let named = |name: &Option<(String, Arc<str>)>| name.as_ref().map(|(space, _)| Arc::from(space.as_str()));
    loop {
        let next = match rows.next()? {
            Some(row) => match stored_row(row) {
                Ok((space, row)) => Some((space, row)),
                Err(error) if is_of_row(&error) => {
                    if open.len() < DAMAGED_ROWS_MAX {
                        let (space, key) = (stored_bytes(row, 0)?, stored_bytes(row, 1)?);
                        open.push(DamagedRow { space, key, before: named(&before), after: None });
                    }
                    continue;
                }
                Err(error) => return Err(error),
            },
            None => None,
        };
        if !open.is_empty() {
            let after = next.as_ref().map(|(space, row)| (space.as_str(), &*row.key));
            for row in &mut open {
                row.after = after.map(|(space, _)| space.into());
            }
            let before = before.as_ref().map(|(space, key)| (space.as_str(), &**key));
            damaged(&Gap { before, after, damaged: std::mem::take(&mut open) });
        }
        let Some((space, row)) = next else { return Ok(()) };
        let key = row.key.clone();
        whole(&space, row);
        before = Some((space, key));
    }
}

/// The bytes of a column, text or not.
fn stored_bytes(row: &rusqlite::Row<'_>, column: usize) -> Result<Bytes> {
    Ok(Bytes::copy_from_slice(row.get_ref(column)?.as_bytes().unwrap_or_default()))
}

/// Whether an error concerns the content of one row, so that the next can be read.
pub(crate) fn is_of_row(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    matches!(
        error,
        Error::ToSqlConversionFailure(..)
            | Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    )
}

/// Removes rows by the stored bytes of their names. Each is searched in the whole table, because a changed name is out
/// of order.
pub(crate) fn remove_damaged(connection: &Connection, damaged: &[DamagedRow]) -> Result<()> {
    for part in damaged.chunks(REMOVED_AT_A_TIME) {
        let one = "(CAST(space AS BLOB) = ? AND CAST(key AS BLOB) = ?)";
        let sql = format!(r#"DELETE FROM "rows" WHERE {}"#, vec![one; part.len()].join(" OR "));
        let names = part.iter().flat_map(|row| [&row.space[..], &row.key[..]]);
        connection.prepare(&sql)?.execute(rusqlite::params_from_iter(names))?;
    }
    Ok(())
}

/// Writes a row over any existing one of its name. The new version makes SQLite write the page, although its cache may
/// still have the undamaged page.
pub(crate) fn rewrite(connection: &Connection, space: &str, key: &str, value: &[u8]) -> Result<()> {
    let version = match row_version(connection, space, key) {
        Ok(version) => version.unwrap_or(0),
        Err(error) if is_of_row(&error) => 0,
        Err(error) => return Err(error),
    };
    put_row(connection, space, key, version + 1, value)
}

/// Whether the table has a row of this name, damaged or not.
pub(crate) fn exists(connection: &Connection, space: &str, key: &str) -> Result<bool> {
    let sql = r#"SELECT 1 FROM "rows" WHERE space = ?1 AND key = ?2"#;
    connection.prepare_cached(sql)?.exists([space, key])
}

/// The least string greater than all with this prefix; `None` if there is none.
fn beyond(prefix: &str) -> Option<String> {
    let mut left = prefix.to_owned();
    while let Some(last) = left.pop() {
        // UTF-8 bytes sort like characters, so the next character gives the next string.
        if let Some(next) = (last..=char::MAX).nth(1) {
            left.push(next);
            return Some(left);
        }
    }
    None
}

/// The space of a row, and the row, if its checksum fits.
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
