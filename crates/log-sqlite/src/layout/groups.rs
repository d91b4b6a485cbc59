//! The table `groups`: the hot part, one row per commit.
//!
//! It must not know where a stream ends. Start at [`StoredGroup`].

use recount_log::Fault;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result, params};

use super::columns::{int, number};
use crate::fault::{FaultContext as _, corrupt};
use crate::packing::{self, PackedRecords, Slot};

/// One stored group, unpacked.
pub(crate) struct StoredGroup<'r> {
    pub(crate) first_position: u64,
    pub(crate) slots: Vec<Slot>,
    index: &'r [u8],
    joined: &'r [u8],
}

impl StoredGroup<'_> {
    pub(crate) fn record(&self, slot: &Slot) -> &[u8] {
        &self.joined[slot.range.clone()]
    }

    /// The joined bytes of all records.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.joined
    }

    pub(crate) fn last_position(&self) -> u64 {
        self.first_position + self.slots.len() as u64 - 1
    }

    /// Every record that was not removed, with its position.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u64, &Slot, &[u8])> {
        let slots = (self.first_position..).zip(&self.slots).filter(|(_, slot)| !slot.is_removed());
        slots.map(|(position, slot)| (position, slot, self.record(slot)))
    }

    /// Whether the bytes are those that were written.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if packing::group_is_sound(self.index, self.joined) {
            return Ok(());
        }
        let (first, last) = (self.first_position, self.last_position());
        Err(corrupt(format!("the records at positions {first} to {last} were changed on disk")))
    }
}

pub(crate) fn insert_group(
    connection: &Connection,
    first_position: u64,
    records: usize,
    index: &[u8],
    events: &PackedRecords,
) -> Result<()> {
    let sql = r#"INSERT INTO groups (first_position, records, "index", events) VALUES (?1, ?2, ?3, ?4)"#;
    let values = params![int(first_position), int(records as u64), index, events];
    connection.prepare_cached(sql)?.execute(values).map(drop)
}

/// Replaces the content of an existing group.
pub(crate) fn update_group(
    connection: &Connection,
    first_position: u64,
    index: &[u8],
    events: &PackedRecords,
) -> Result<()> {
    let sql = r#"UPDATE groups SET "index" = ?2, events = ?3 WHERE first_position = ?1"#;
    connection.prepare_cached(sql)?.execute(params![int(first_position), index, events]).map(drop)
}

pub(crate) fn delete_groups(connection: &Connection, last_position: u64) -> Result<()> {
    let sql = "DELETE FROM groups WHERE first_position <= ?1";
    connection.prepare_cached(sql)?.execute([int(last_position)]).map(drop)
}

/// Passes each group to a closure, from the one with a position on, until it returns `false`.
pub(crate) fn groups_from(
    connection: &Connection,
    position: u64,
    each: &mut dyn FnMut(StoredGroup<'_>) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let sql = r#"SELECT first_position, records, "index", events FROM groups
        WHERE first_position >= coalesce((SELECT max(first_position) FROM groups WHERE first_position <= ?1), 0)
        ORDER BY first_position"#;
    let context = "reading the newest records";
    let mut statement = connection.prepare_cached(sql).context(context)?;
    let mut rows = statement.query([int(position)]).context(context)?;
    while let Some(row) = rows.next().context(context)? {
        if !each(stored_group(row)?)? {
            break;
        }
    }
    Ok(())
}

/// Reads one group; a fault if it is missing.
pub(crate) fn group_at<T>(
    connection: &Connection,
    first_position: u64,
    look: impl FnOnce(StoredGroup<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let sql = r#"SELECT first_position, records, "index", events FROM groups WHERE first_position = ?1"#;
    let context = "reading the newest records";
    let mut statement = connection.prepare_cached(sql).context(context)?;
    let mut rows = statement.query([int(first_position)]).context(context)?;
    match rows.next().context(context)? {
        Some(row) => look(stored_group(row)?),
        None => Err(corrupt(format!(
            "the records from position {first_position} on are missing; check the store with `recount verify \
             --data`"
        ))),
    }
}

pub(crate) fn stored_group<'r>(row: &'r rusqlite::Row<'_>) -> Result<StoredGroup<'r>, Fault> {
    let context = "reading the newest records";
    let first_position = number(row, 0).context(context)?;
    let records = number(row, 1).context(context)?;
    let index = row.get_ref(2).context(context)?.as_bytes();
    let events = row.get_ref(3).context(context)?;
    let text = matches!(events, ValueRef::Text(_));
    if let (Ok(index), Ok(joined)) = (index, events.as_bytes())
        && packing::index_is_sound(first_position, text, index, joined)
        && let Some(slots) = packing::group_slots(index, text, joined, records)
        && records > 0
        && first_position > 0
    {
        return Ok(StoredGroup { first_position, slots, index, joined });
    }
    Err(corrupt(format!(
        "the records from position {first_position} on do not match their index; check the store with \
         `recount verify --data`"
    )))
}

/// The first position that is not sealed yet; `None` when nothing is hot.
pub(crate) fn first_hot(connection: &Connection) -> Result<Option<u64>> {
    let sql = "SELECT min(first_position) FROM groups";
    let first: Option<i64> = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(first.map(i64::unsigned_abs))
}
