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

/// One window that is wanted.
pub(crate) struct SealRequest {
    pub(crate) bounds: WindowBounds,
    /// What goes into one portion.
    pub(crate) portion: Totals,
    pub(crate) answers: SyncSender<Answer>,
    /// The window is no longer needed.
    pub(crate) unwanted: Arc<AtomicBool>,
    /// The thread that is woken after each answer.
    pub(crate) asker: Thread,
}

/// The results of a window: portions of chunks, and at the end all of its groups; or a fault, and nothing more.
pub(crate) type Answer = Result<SealerReply, Fault>;

pub(crate) enum SealerReply {
    Portion(Vec<SealedPiece>),
    /// The last: what can be removed when all portions are written.
    Groups(Vec<Unit>),
}

/// Starts the thread; it ends when the sender is dropped, and keeps `held` until it has.
pub(crate) fn start(
    connection: Connection,
    held: impl Send + 'static,
) -> (SyncSender<SealRequest>, JoinHandle<()>) {
    let (asks, inbox) = sync_channel::<SealRequest>(limits::SEAL_WINDOWS_WAITING_MAX);
    let thread = recount_world::thread("recount-sealer", move || {
        work(&connection, &inbox);
        drop(connection);
        drop(held);
    });
    (asks, thread)
}

fn work(connection: &Connection, inbox: &Receiver<SealRequest>) {
    while let Ok(ask) = inbox.recv() {
        if let Err(fault) = serve(connection, &ask) {
            ask.reply(Err(fault));
        }
    }
}

fn serve(connection: &Connection, ask: &SealRequest) -> Result<(), Fault> {
    let mut window = Window::new(connection);
    window.gather(&ask.bounds, &|| ask.is_unwanted())?;
    let mut portion = Vec::new();
    let (mut bytes, mut records) = (0, 0);
    window.pieces(&mut |piece| {
        bytes += piece.chunks.iter().map(|chunk| chunk.bytes()).sum::<u64>();
        records += piece.new.records;
        portion.push(piece);
        if bytes < ask.portion.bytes && records < ask.portion.records {
            return Ok(!ask.is_unwanted());
        }
        (bytes, records) = (0, 0);
        Ok(ask.reply(Ok(SealerReply::Portion(std::mem::take(&mut portion)))))
    })?;
    if !portion.is_empty() {
        ask.reply(Ok(SealerReply::Portion(portion)));
    }
    let units = window.units()?;
    ask.reply(Ok(SealerReply::Groups(units)));
    Ok(())
}

impl SealRequest {
    fn is_unwanted(&self) -> bool {
        self.unwanted.load(Ordering::Relaxed)
    }

    /// `false`: the receiver is gone.
    fn reply(&self, answer: Answer) -> bool {
        let told = self.answers.send(answer).is_ok() && !self.is_unwanted();
        self.asker.unpark();
        told
    }
}
