//! The schema step that adds checksums to rows.
//!
//! Small rows get theirs at once. Chunks are not touched, however many exist: their chain checks
//! them until they are rewritten. This file must not know readers.

use recount_log::Fault;
use rusqlite::{Connection, Row, params};

use crate::fault::FaultContext as _;
use crate::layout::{self, bytes, number};
use crate::limits::SUMS_BATCH_ROWS;
use crate::rows;

const TABLES: [&str; 4] = ["streams", "rows", "feed", "chunks"];

const CONTEXT: &str = "adding checksums to rows";

/// Adds the missing checksum columns.
pub(crate) fn add_columns(connection: &Connection) -> Result<(), Fault> {
    for table in TABLES {
        let sql = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = 'sum'";
        let exists: i64 = connection.query_row(sql, [table], |row| row.get(0)).context(CONTEXT)?;
        if exists == 0 {
            connection
                .execute_batch(&format!(r#"ALTER TABLE "{table}" ADD COLUMN sum INTEGER"#))
                .context(CONTEXT)?;
        }
    }
    Ok(())
}

/// Adds the columns and fills them, except those of chunks.
pub(crate) fn fill(connection: &Connection) -> Result<(), Fault> {
    add_columns(connection)?;
    streams(connection).and_then(|()| feed(connection)).and_then(|()| rows(connection)).context(CONTEXT)
}

fn streams(connection: &Connection) -> rusqlite::Result<()> {
    let mut last = 0_i64;
    loop {
        let found = batch(connection, layout::STREAMS_BY_ID, params![last + 1, SUMS_BATCH_ROWS], |row| {
            layout::claimed_tail(row).map(|(key, tail)| (tail.id, tail.sum(&key)))
        })?;
        let Some((newest, _)) = found.last() else { return Ok(()) };
        last = *newest;
        let mut put = connection.prepare_cached("UPDATE streams SET sum = ?2 WHERE id = ?1")?;
        found.iter().try_for_each(|(id, sum)| put.execute([id, sum]).map(drop))?;
    }
}

fn feed(connection: &Connection) -> rusqlite::Result<()> {
    let mut last = 0_i64;
    loop {
        let found = batch(connection, layout::FEED_BY_POSITION, params![last + 1, SUMS_BATCH_ROWS], |row| {
            let sum = layout::feed_sum(number(row, 0)?, number(row, 1)?, &bytes(row, 2)?);
            Ok((row.get::<_, i64>(0)?, sum))
        })?;
        let Some((newest, _)) = found.last() else { return Ok(()) };
        last = *newest;
        let mut put = connection.prepare_cached("UPDATE feed SET sum = ?2 WHERE first_position = ?1")?;
        found.iter().try_for_each(|(first, sum)| put.execute([first, sum]).map(drop))?;
    }
}

fn rows(connection: &Connection) -> rusqlite::Result<()> {
    let sql = r#"SELECT space, key, version, value FROM "rows"
        WHERE (space, key) > (?1, ?2) ORDER BY space, key LIMIT ?3"#;
    let mut last = (String::new(), String::new());
    loop {
        let found = batch(connection, sql, params![last.0, last.1, SUMS_BATCH_ROWS], |row| {
            let (space, key): (String, String) = (row.get(0)?, row.get(1)?);
            let sum = rows::sum(&space, &key, number(row, 2)?, &bytes(row, 3)?);
            Ok((space, key, sum))
        })?;
        let Some((space, key, _)) = found.last() else { return Ok(()) };
        last = (space.clone(), key.clone());
        let mut put =
            connection.prepare_cached(r#"UPDATE "rows" SET sum = ?3 WHERE space = ?1 AND key = ?2"#)?;
        found.iter().try_for_each(|(space, key, sum)| put.execute(params![space, key, sum]).map(drop))?;
    }
}

fn batch<T>(
    connection: &Connection,
    sql: &str,
    from: &[&dyn rusqlite::ToSql],
    each: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(from, each)?.collect()
}
