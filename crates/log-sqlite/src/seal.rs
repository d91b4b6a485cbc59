//! Sealing inside an open transaction: writes prepared chunks, and removes groups whose records are
//! all in chunks.
//!
//! The two need not go together. A stream's row has the end of its valid chunks, and every read of the
//! stream uses it; the border between `feed` and `groups` does the same for reads of the feed. So a record
//! may be in a chunk and in its group for a while, and no read returns it twice. This file must not know when sealing
//! starts.

use recount_log::{Fault, FaultKind, Retry};
use rusqlite::Connection;

use crate::fault::{FaultContext as _, corrupt};
use crate::gather::{SealedPiece, Unit, Window};
use crate::layout::{self, StreamTail, Totals};
use crate::limits::MIGRATION_BATCH_BYTES;
use crate::sums;

/// Removes groups whose records are all sealed, oldest first.
pub(crate) fn remove_groups(connection: &Connection, units: &[Unit]) -> Result<(), Fault> {
    let Some(last) = units.last() else { return Ok(()) };
    layout::delete_groups(connection, last.last_position).context("removing sealed groups")?;
    for row in units.iter().flat_map(|unit| &unit.feed) {
        layout::insert_feed(connection, row).context("writing the positions of records")?;
    }
    Ok(())
}

/// Writes chunks. Returns how many records are newly sealed.
pub(crate) fn write_chunks(connection: &Connection, pieces: &[SealedPiece]) -> Result<Totals, Fault> {
    let mut new = Totals::default();
    for piece in pieces {
        write_piece(connection, piece)?;
        new.more(piece.new);
    }
    if new.records > 0 {
        let context = "counting sealed records";
        let mut sealed = layout::totals(connection).context(context)?;
        sealed.more(new);
        layout::set_totals(connection, sealed).context(context)?;
    }
    Ok(new)
}

pub(crate) fn write_piece(connection: &Connection, piece: &SealedPiece) -> Result<(), Fault> {
    let key = &piece.key;
    let context = format!("sealing records of stream {key}");
    let moved = || {
        let message = format!("stream {key} changed while it was sealed; retrying");
        Fault::new(FaultKind::Io, Retry::Maybe, message)
    };
    let stored = layout::stream_of(connection, piece.before.id).context(&context)?;
    if stored.is_none_or(|(_, tail)| tail != piece.before) {
        return Err(moved());
    }
    for chunk in &piece.replaced {
        if !layout::delete_chunk(connection, *chunk).context(&context)? {
            return Err(moved());
        }
    }
    for chunk in &piece.chunks {
        layout::insert_packed(connection, chunk).context(&context)?;
    }
    layout::update_stream(connection, key, &piece.after).context(&context)
}

/// Migrates a store with one row per record, inside an open transaction: seals everything.
pub(crate) fn seal_single_rows(connection: &Connection) -> Result<(), Fault> {
    let context = "sealing rows of one record each";
    // Rows are written with their checksums from the start.
    sums::add_columns(connection)?;
    let mut streams = Vec::new();
    {
        let sql =
            "SELECT id, next_sequence, last_position, head, first_sequence, start, erased, key FROM streams";
        let mut statement = connection.prepare(sql).context(context)?;
        let tails = statement.query_map([], layout::claimed_tail).context(context)?;
        for tail in tails {
            streams.push(tail.context(context)?);
        }
    }
    for (key, tail) in &streams {
        layout::update_stream(connection, key, &StreamTail::empty(tail.id, key)).context(context)?;
    }
    let mut all = Totals::default();
    let mut write_chunks = |mut window: Window<'_>| -> Result<(), Fault> {
        window.pieces(&mut |piece| {
            write_piece(connection, &piece)?;
            all.more(piece.new);
            Ok(true)
        })?;
        for row in window.feed()? {
            layout::insert_feed(connection, &row).context(context)?;
        }
        Ok(())
    };
    let mut statement = connection
        .prepare("SELECT position, stream, sequence, bytes FROM single ORDER BY position")
        .context(context)?;
    let mut rows = statement.query([]).context(context)?;
    let mut window = Window::new(connection);
    while let Some(row) = rows.next().context(context)? {
        let (position, sequence) =
            (layout::number(row, 0).context(context)?, layout::number(row, 2).context(context)?);
        let bytes = layout::bytes(row, 3).context(context)?;
        window.push(position, row.get(1).context(context)?, sequence, &bytes)?;
        if window.bytes() >= MIGRATION_BATCH_BYTES {
            write_chunks(std::mem::replace(&mut window, Window::new(connection)))?;
        }
    }
    write_chunks(window)?;
    layout::set_totals(connection, all).context(context)?;
    for (key, tail) in streams {
        if layout::stream_tail(connection, &key).context(context)? != Some(tail) {
            return Err(corrupt(format!(
                "the records of stream {key} do not match its tail of {} and its head {}; they stay unchanged",
                tail.next_sequence, tail.head
            )));
        }
    }
    Ok(())
}
