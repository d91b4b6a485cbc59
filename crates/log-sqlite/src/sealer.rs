//! The sealer thread: reads the oldest groups and packs their records into chunks, so that
//! the writer only has to write them. It changes nothing itself, and its result is dropped
//! when the writer no longer needs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{JoinHandle, Thread};

use recount_log::Fault;
use rusqlite::Connection;

use crate::gather::{SealedPiece, Unit, Window, WindowBounds};
use crate::layout::Totals;
use crate::limits;

/// A requested window.
pub(crate) struct SealRequest {
    pub(crate) bounds: WindowBounds,
    /// The size of one portion.
    pub(crate) portion: Totals,
    pub(crate) results: SyncSender<SealerResult>,
    /// The window is no longer needed.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// The thread to wake after each result.
    pub(crate) writer: Thread,
}

/// One result of a window: a portion of chunks, and at the end all of its groups; or a fault as the last result.
pub(crate) type SealerResult = Result<SealerReply, Fault>;

pub(crate) enum SealerReply {
    Portion(Vec<SealedPiece>),
    /// The last result: groups that can be removed when all portions are written.
    Groups(Vec<Unit>),
}

/// Starts the thread; it ends when the sender is dropped, and keeps `held` until it has.
pub(crate) fn start(
    connection: Connection,
    held: impl Send + 'static,
) -> (SyncSender<SealRequest>, JoinHandle<()>) {
    let (requests, inbox) = sync_channel::<SealRequest>(limits::SEAL_WINDOWS_WAITING_MAX);
    let thread = recount_world::thread("recount-sealer", move || {
        work(&connection, &inbox);
        drop(connection);
        drop(held);
    });
    (requests, thread)
}

fn work(connection: &Connection, inbox: &Receiver<SealRequest>) {
    while let Ok(request) = inbox.recv() {
        if let Err(fault) = serve(connection, &request) {
            request.reply(Err(fault));
        }
    }
}

fn serve(connection: &Connection, request: &SealRequest) -> Result<(), Fault> {
    let mut window = Window::new(connection);
    window.gather(&request.bounds, &|| request.is_cancelled())?;
    let mut portion = Vec::new();
    let (mut bytes, mut records) = (0, 0);
    window.pieces(&mut |piece| {
        bytes += piece.chunks.iter().map(|chunk| chunk.bytes()).sum::<u64>();
        records += piece.new.records;
        portion.push(piece);
        if bytes < request.portion.bytes && records < request.portion.records {
            return Ok(!request.is_cancelled());
        }
        (bytes, records) = (0, 0);
        Ok(request.reply(Ok(SealerReply::Portion(std::mem::take(&mut portion)))))
    })?;
    if !portion.is_empty() {
        request.reply(Ok(SealerReply::Portion(portion)));
    }
    let units = window.units()?;
    request.reply(Ok(SealerReply::Groups(units)));
    Ok(())
}

impl SealRequest {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Sends a result; returns `false` if it is no longer needed.
    fn reply(&self, result: SealerResult) -> bool {
        let was_sent = self.results.send(result).is_ok() && !self.is_cancelled();
        self.writer.unpark();
        was_sent
    }
}
