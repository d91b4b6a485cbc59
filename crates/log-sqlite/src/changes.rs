//! The journal of changed rows: the changes of one commit as one value next to its records, and writing many
//! such values to the table at once.
//!
//! ```text
//!   commit:  changes[slot] = the new state of the rows          (one row, however many were changed)
//!   every so many commits: the newest state of each row ─▶ "rows", in the transaction of the next commit
//! ```
//!
//! There are [`limits::CHANGES_KEPT_MAX`] slots, reused in turn; each names the first number of the journal that is
//! still needed, so nothing has to be deleted. When content is removed, when the queue is empty and at shutdown,
//! all slots are emptied. It must not know which reads use rows or when a transaction begins.

use std::sync::Arc;

use bytes::Bytes;
use recount_log::Fault;
use rusqlite::{Connection, params};

use crate::fault::{FaultContext as _, corrupt};
use crate::layout::{int, limit, number};
use crate::limits;
use crate::packing::{self, Change};
use crate::pending_rows::{PendingRows, RowState, RowStates};
use crate::rows;

/// The position of the journal.
#[derive(Debug, Clone)]
pub(crate) struct ChangeJournal {
    /// The number of the newest entry; 0 without entries.
    last: u64,
    /// All earlier entries are in the table.
    first_needed: u64,
    /// The bytes of each slot.
    slots: Vec<u64>,
}

impl Default for ChangeJournal {
    fn default() -> Self {
        ChangeJournal { last: 0, first_needed: 1, slots: vec![0; SLOTS] }
    }
}

const SLOTS: usize = limits::CHANGES_KEPT_MAX as usize;

impl ChangeJournal {
    /// Whether the next change would overwrite one that is needed.
    pub(crate) fn is_full(&self) -> bool {
        self.last + 1 - self.first_needed >= limits::CHANGES_KEPT_MAX
    }

    /// Whether the slots hold so much that they should be emptied when they are not needed.
    pub(crate) fn holds_much(&self) -> bool {
        self.slots.iter().sum::<u64>() > limits::CHANGES_KEPT_BYTES_MAX
    }

    /// Writes all pending rows to the table. The slots are not needed from now on, but stay.
    pub(crate) fn fold(&mut self, connection: &Connection, pending_rows: &PendingRows) -> Result<(), Fault> {
        self.fold_with(connection, pending_rows, &RowStates::default())
    }

    /// Writes all pending rows and the changes of a commit to the table, so that no old state remains.
    pub(crate) fn fold_with(
        &mut self,
        connection: &Connection,
        pending_rows: &PendingRows,
        new: &RowStates,
    ) -> Result<(), Fault> {
        for (space, key, new) in new.iter() {
            if pending_rows.get(space, key).is_some() {
                continue;
            }
            let row = if new.in_table { rows::row(connection, space, key) } else { Ok(None) };
            let row = row.context(&format!("reading row {space}/{key}"))?;
            let row = row.map(|row| (row.version, row.value));
            pending_rows.pin(space, key, RowState { row, in_table: new.in_table });
        }
        for (space, key, before) in pending_rows.begin_round() {
            let state = new.get(&space, &key).unwrap_or(&before);
            let written = match &state.row {
                Some((version, value)) => rows::put_row(connection, &space, &key, *version, value),
                None if before.in_table => rows::delete_row(connection, &space, &key),
                None => Ok(()),
            };
            written.context(&format!("writing row {space}/{key}"))?;
        }
        self.first_needed = self.last + 1;
        Ok(())
    }

    /// Empties the slots. Only after [`ChangeJournal::fold`].
    pub(crate) fn empty(&mut self, connection: &Connection) -> Result<(), Fault> {
        let emptied = connection.prepare_cached("DELETE FROM changes").and_then(|mut all| all.execute([]));
        emptied.context("removing row changes that are in their table")?;
        *self = ChangeJournal::default();
        Ok(())
    }

    /// Writes the row changes of one commit into its slot.
    pub(crate) fn record(&mut self, connection: &Connection, states: &RowStates) -> Result<(), Fault> {
        self.last += 1;
        let changes = states.iter().map(|(space, key, state)| Change {
            space,
            key,
            row: state.row.as_ref().map(|(version, value)| (*version, &value[..])),
        });
        let packed = packing::changes(self.last, self.first_needed, changes);
        let slot = slot_of(self.last);
        self.slots[slot] = packed.len() as u64;
        let sql = "REPLACE INTO changes (slot, number, first_needed, changes) VALUES (?1, ?2, ?3, ?4)";
        let values = params![limit(slot), int(self.last), int(self.first_needed), packed];
        let written = connection.prepare_cached(sql).and_then(|mut put| put.execute(values));
        written.context("writing the list of rows that a commit changes").map(drop)
    }
}

fn slot_of(number: u64) -> usize {
    (number % limits::CHANGES_KEPT_MAX) as usize
}

/// Reads the journal: its position, and the rows in it.
pub(crate) fn load(connection: &Connection) -> Result<(ChangeJournal, RowStates), Fault> {
    let context = "reading the list of rows that the last commits changed";
    let mut journal = ChangeJournal::default();
    let mut states = RowStates::default();
    let sql = "SELECT number, length(changes) FROM changes ORDER BY number";
    let mut statement = connection.prepare(sql).context(context)?;
    let mut found = statement.query([]).context(context)?;
    while let Some(row) = found.next().context(context)? {
        journal.last = number(row, 0).context(context)?;
        journal.slots[slot_of(journal.last)] = number(row, 1).context(context)?;
    }
    if journal.last == 0 {
        return Ok((journal, states));
    }
    let sql = "SELECT first_needed, changes FROM changes WHERE number = ?1";
    let mut statement = connection.prepare(sql).context(context)?;
    let newest = |row: &rusqlite::Row<'_>| number(row, 0);
    journal.first_needed = statement.query_row([int(journal.last)], newest).context(context)?;
    // The newest entry is always needed: it was written after the rows that it moved to the table.
    for commit in journal.first_needed.min(journal.last)..=journal.last {
        let mut found = statement.query([int(commit)]).context(context)?;
        let row = found.next().context(context)?;
        let changes = row.and_then(|row| {
            let first_needed = number(row, 0).ok().filter(|first| (1..=commit).contains(first))?;
            packing::changes_of(commit, first_needed, row.get_ref(1).ok()?.as_blob().ok()?)
        });
        let changes = changes.ok_or_else(|| {
            corrupt(format!(
                "the list of rows that commit {commit} changed is damaged; check the store with `recount \
                 verify --data`"
            ))
        })?;
        for Change { space, key, row } in changes {
            let row = row.map(|(version, value)| (version, Bytes::copy_from_slice(value)));
            let in_table = match states.get(space, key) {
                Some(state) => state.in_table,
                // This state overwrites a damaged row.
                None => rows::exists(connection, space, key).context(context)?,
            };
            states.put(&Arc::from(space), &Arc::from(key), RowState { row, in_table });
        }
    }
    Ok((journal, states))
}
