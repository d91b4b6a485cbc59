//! Builds a new store from given content: streams with their positions, rows with their versions, and nothing else.
//!
//! Records are staged in a file of their own and written in the order of their positions, as in a schema upgrade;
//! positions without a record are marked as removed. At the end each stream must lead to the head of its records. This
//! file must not know where the content is from. Entry point: [`restore`].

use std::path::Path;

use recount_log::{Fault, FaultKind, Retry, StreamKey, Tail};
use rusqlite::{Connection, params};

use crate::connection::{DatabaseFile, Role};
use crate::fault::{FaultContext as _, corrupt};
use crate::folder::{Folder, create_database_at, sync_folder};
use crate::gather::Window;
use crate::layout::{self, NewFeed, StreamTail, Totals, int};
use crate::limits::{MIGRATION_BATCH_BYTES, RESTORE_BATCH_RECORDS};
use crate::options::SqliteOptions;
use crate::packing::{self, FeedSpan, NO_STREAM};
use crate::rows::put_row;
use crate::{schema, seal};

/// The staging database for records.
const STAGE: &str = "salvage-stage.db";

/// One row of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredRow<'r> {
    pub space: &'r str,
    pub key: &'r str,
    pub version: u64,
    pub value: &'r [u8],
}

/// Receives the number of a stream in its list, and the sequence, position and bytes of a record.
pub type RecordWriter<'w> = &'w mut dyn FnMut(usize, u64, u64, &[u8]) -> Result<(), Fault>;

/// Creates a store in a folder without one: streams with their tails, the records that `records` passes on in any
/// order, and rows.
pub fn restore(
    to: &Path,
    streams: &[(StreamKey, Tail)],
    records: &mut dyn FnMut(RecordWriter<'_>) -> Result<(), Fault>,
    rows: &mut dyn Iterator<Item = RestoredRow<'_>>,
) -> Result<(), Fault> {
    let folder = Folder::take(to)?;
    if folder.database().exists() {
        let message = format!("{} already contains a store; choose a new folder", to.display());
        return Err(Fault::new(FaultKind::Io, Retry::Never, message));
    }
    folder.create_database()?;
    let options = SqliteOptions::new(to);
    let place =
        DatabaseFile { database: folder.database(), durability: options.durability, vfs: options.vfs };
    let connection = place.open(Role::Writer)?;
    schema::migrate(&connection, &place.name()).map_err(|refusal| match refusal {
        schema::Refusal::NotOurs(fault)
        | schema::Refusal::Damaged(fault)
        | schema::Refusal::Failed(fault) => fault,
    })?;
    let stage = to.join(STAGE);
    create_database_at(&stage)?;
    stage_records(&connection, &stage, streams, records)?;
    let written = write(&connection, streams, rows);
    connection.execute_batch("DETACH stage").context("closing the staged records")?;
    std::fs::remove_file(&stage).context(&format!("removing {}", stage.display()))?;
    written?;
    Folder::sync(&folder)?;
    sync_folder(to.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Writes all records to a staging file, each at its position, under the numbers that their streams will have.
fn stage_records(
    connection: &Connection,
    stage: &Path,
    streams: &[(StreamKey, Tail)],
    records: &mut dyn FnMut(RecordWriter<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let context = "staging records";
    connection.execute("ATTACH ?1 AS stage", [stage.to_string_lossy()]).context(context)?;
    // The staging file is deleted in any case.
    connection
        .execute_batch(
            "PRAGMA stage.journal_mode = OFF; PRAGMA stage.synchronous = OFF;
            CREATE TABLE stage.records (position INTEGER PRIMARY KEY, stream INTEGER NOT NULL,
                sequence INTEGER NOT NULL, bytes BLOB NOT NULL);
            BEGIN",
        )
        .context(context)?;
    {
        let mut insert =
            connection.prepare("INSERT INTO stage.records VALUES (?1, ?2, ?3, ?4)").context(context)?;
        records(&mut |stream, sequence, position, bytes| {
            let values = params![int(position), int(stream as u64 + 1), int(sequence), bytes];
            insert
                .execute(values)
                .context(&format!("staging record {sequence} of stream {}", streams[stream].0))
                .map(drop)
        })?;
    }
    connection.execute_batch("COMMIT").context(context)
}

fn write(
    connection: &Connection,
    streams: &[(StreamKey, Tail)],
    rows: &mut dyn Iterator<Item = RestoredRow<'_>>,
) -> Result<(), Fault> {
    let context = "writing the salvaged records";
    connection.execute_batch("BEGIN IMMEDIATE").context(context)?;
    for (number, (key, tail)) in (1_i64..).zip(streams) {
        layout::insert_stream(connection, key, number).context(context)?;
        layout::update_stream(connection, key, &first_tail(number, key, tail)).context(context)?;
    }
    write_records(connection)?;
    for RestoredRow { space, key, version, value } in rows {
        put_row(connection, space, key, version, value).context(&format!("writing row {space}/{key}"))?;
    }
    for (key, tail) in streams.iter().filter(|(_, tail)| !tail.erased) {
        let written = layout::stream_tail(connection, key).context(context)?;
        if written
            .is_none_or(|written| (written.next_sequence, written.head) != (tail.next_sequence, tail.head))
        {
            return Err(corrupt(format!("stream {key} was written differently from what was read")));
        }
    }
    connection.execute_batch("COMMIT").context(context)
}

/// The tail of a stream before its records are written.
fn first_tail(id: i64, key: &str, tail: &Tail) -> StreamTail {
    let Tail { next_sequence, last_position, head, first_sequence, start, erased } = *tail;
    match erased {
        true => StreamTail { id, next_sequence, last_position, head, first_sequence, start, erased },
        false => StreamTail {
            next_sequence: first_sequence,
            first_sequence,
            head: start,
            start,
            ..StreamTail::empty(id, key)
        },
    }
}

/// Writes all staged records in the order of their positions.
fn write_records(connection: &Connection) -> Result<(), Fault> {
    let context = "writing the salvaged records";
    let mut all = Totals::default();
    let mut write_window = |mut window: Window<'_>| -> Result<(), Fault> {
        window.pieces(&mut |piece| {
            seal::write_piece(connection, &piece)?;
            all.more(piece.new);
            Ok(true)
        })?;
        window.feed()?.iter().try_for_each(|row| layout::insert_feed(connection, row).context(context))
    };
    let mut statement = connection
        .prepare("SELECT position, stream, sequence, bytes FROM stage.records ORDER BY position")
        .context(context)?;
    let mut found = statement.query([]).context(context)?;
    let (mut window, mut records, mut next) = (Window::new(connection), 0, 1);
    while let Some(row) = found.next().context(context)? {
        let position = layout::number(row, 0).context(context)?;
        if position > next || window.bytes() >= MIGRATION_BATCH_BYTES || records >= RESTORE_BATCH_RECORDS {
            if records > 0 {
                write_window(std::mem::replace(&mut window, Window::new(connection)))?;
            }
            records = 0;
        }
        if position > next {
            layout::insert_feed(connection, &removed_positions_row(next, position - 1)).context(context)?;
        }
        let bytes = layout::bytes(row, 3).context(context)?;
        let sequence = layout::number(row, 2).context(context)?;
        window.push(position, row.get(1).context(context)?, sequence, &bytes)?;
        (records, next) = (records + 1, position + 1);
    }
    if records > 0 {
        write_window(window)?;
    }
    layout::set_totals(connection, all).context(context)
}

/// Positions of removed records.
fn removed_positions_row(first: u64, last: u64) -> NewFeed {
    let span = FeedSpan { stream: NO_STREAM, first_sequence: 0, count: last - first + 1 };
    NewFeed { first, last, spans: packing::feed_spans(&[span]) }
}
