//! Reads the commits and streams named by single page images, without the tree that they belong to.
//!
//! A leaf of a table holds its rows whole, or their beginnings. The rows of `groups` and `streams` are recognised by
//! their columns alone. Damaged rows and rows that continue on another page are skipped. This module must not know
//! where a page comes from.

use std::collections::{BTreeMap, HashMap};

use crate::limits;
use crate::packing;
use crate::record_format::{Column, columns, local_bytes, varint};

/// The mark of a page that is a leaf of a table.
const TABLE_LEAF: u8 = 13;
/// The first page of a database begins with a header.
const DATABASE_HEADER: usize = 100;

/// The commits and streams named by the pages so far.
#[derive(Debug, Default)]
pub(crate) struct PageNames {
    /// By first position.
    groups: BTreeMap<u64, SeenGroup>,
    names: HashMap<i64, String>,
}

#[derive(Debug)]
struct SeenGroup {
    records: u64,
    /// Streams with records in it, as far as the page shows.
    streams: Vec<i64>,
}

impl PageNames {
    pub(crate) fn take(&mut self, page: &[u8]) {
        let header = if page.starts_with(b"SQLite format 3\0") { DATABASE_HEADER } else { 0 };
        if page.get(header) != Some(&TABLE_LEAF) {
            return;
        }
        let cells = short(page, header + 3).unwrap_or(0);
        for cell in 0..cells {
            let row = short(page, header + 8 + 2 * cell).and_then(|place| Row::at(page, place));
            if let Some(row) = row {
                self.take_row(&row);
            }
        }
    }

    fn take_row(&mut self, row: &Row<'_>) {
        match row.columns[..] {
            // groups: first_position, records, index, events. A row of `feed` ends with a number and is else the same.
            [
                Column::Null,
                Column::Number(records),
                Column::Bytes(index),
                Column::Bytes(_) | Column::Text(_),
            ] if self.groups.len() < limits::LOST_GROUPS_MAX => {
                let streams = packing::group_streams(index);
                let records = u64::try_from(records).unwrap_or(0);
                if let Ok(first) = u64::try_from(row.id) {
                    self.groups.insert(first, SeenGroup { records, streams });
                }
            }
            // streams: id, key, next_sequence, last_position, head.
            [Column::Null, Column::Text(key), Column::Number(_), Column::Number(_), Column::Bytes(_), ..]
                if self.names.len() < limits::LOST_GROUPS_MAX =>
            {
                self.names.insert(row.id, String::from_utf8_lossy(key).into_owned());
            }
            _ => {}
        }
    }

    /// The last position that a group has.
    pub(crate) fn last_position(&self) -> u64 {
        self.groups.iter().map(|(first, group)| (first + group.records).saturating_sub(1)).max().unwrap_or(0)
    }

    /// Streams with records after a position, by number, and their names where a page has them.
    pub(crate) fn streams_after(&self, position: u64) -> BTreeMap<i64, Option<&str>> {
        let after = self.groups.iter().filter(|(first, group)| **first + group.records > position + 1);
        let streams = after.flat_map(|(_, group)| &group.streams);
        streams.map(|id| (*id, self.names.get(id).map(String::as_str))).collect()
    }
}

/// A row of a table, as far as it is on its page.
struct Row<'p> {
    id: i64,
    columns: Vec<Column<'p>>,
}

impl<'p> Row<'p> {
    fn at(page: &'p [u8], place: usize) -> Option<Self> {
        let mut rest = page.get(place..)?;
        let payload = usize::try_from(varint(&mut rest)?).ok()?;
        let id = varint(&mut rest)?;
        let local = rest.get(..local_bytes(payload, page.len(), true))?;
        Some(Row { id, columns: columns(local, false)? })
    }
}

fn short(page: &[u8], place: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes([*page.get(place)?, *page.get(place + 1)?])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all leaves of a database created by SQLite.
    fn seen_in(sql: &str) -> PageNames {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let mut seen = PageNames::default();
        std::fs::read(&path).unwrap().chunks(4096).for_each(|page| seen.take(page));
        seen
    }

    #[test]
    fn groups_and_streams_are_known_by_their_columns() {
        // A sum of 16 bytes, then stream 7 from sequence 0 with one record of 3 bytes; the rest is arbitrary.
        let index = format!("x'{}07000103'", "00".repeat(16));
        let seen = seen_in(&format!(
            r#"CREATE TABLE groups (first_position INTEGER PRIMARY KEY, records INTEGER, "index" BLOB, events ANY);
            INSERT INTO groups VALUES (300, 1, {index}, 'short'), (301, 5, {index}, zeroblob(100000));
            CREATE TABLE streams (id INTEGER PRIMARY KEY, key TEXT, next INTEGER, last INTEGER, head BLOB);
            INSERT INTO streams VALUES (7, 'run_seven', 0, 0, x'00'), (8, 'run_eight', -70000, 1, x'00');
            CREATE TABLE changes (slot INTEGER PRIMARY KEY, number INTEGER, first INTEGER, changes BLOB);
            INSERT INTO changes VALUES (900, 70000, 1, x'00');
            CREATE TABLE feed (first INTEGER PRIMARY KEY, last INTEGER, spans BLOB, sum INTEGER);
            INSERT INTO feed VALUES (900, 905, {index}, 8070450532247928832), (906, 910, {index}, NULL);"#
        ));
        assert_eq!(seen.last_position(), 305);
        assert_eq!(seen.streams_after(300), BTreeMap::from([(7, Some("run_seven"))]));
        assert_eq!(seen.streams_after(305), BTreeMap::new());
        assert_eq!(seen.names.len(), 2);
    }

    #[test]
    fn a_page_of_nonsense_is_passed_over() {
        let mut number = 1_u64;
        for _ in 0..2000 {
            let mut page: Vec<u8> = (0..512)
                .map(|_| {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (number >> 56) as u8
                })
                .collect();
            page[0] = TABLE_LEAF;
            PageNames::default().take(&page);
        }
    }
}
