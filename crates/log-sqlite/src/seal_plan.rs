//! The plan of sealing: which transaction the writer runs next.
//!
//! ```text
//!   window 1:  write chunks, portion by portion
//!   window 2:  write chunks, and in the same transactions remove the groups of window 1: their pages are
//!              written once, with the new chunks, and not first with zeros
//!   …
//!   no window: remove the remaining groups
//! ```
//!
//! Written chunks are valid at once, and the next read of groups skips them, so no plan has to survive a restart. It
//! must not know SQL.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use recount_log::Fault;

use crate::fault::{corrupt, stopped};
use crate::gather::{SealedPiece, Unit, WindowBounds};
use crate::hot::Backlog;
use crate::layout::Totals;
use crate::limits;
use crate::sealer::{SealRequest, SealerReply, SealerResult};

pub(crate) struct SealPlan {
    requests: SyncSender<SealRequest>,
    /// The window that is being sealed.
    window: Option<PendingWindow>,
    /// Groups that can be removed, because their records are all in chunks.
    removable: VecDeque<Unit>,
    /// The most that one transaction writes.
    portion: Totals,
    /// The most that one window reads.
    most: Totals,
}

/// A window that the sealer is preparing.
struct PendingWindow {
    results: Receiver<SealerResult>,
    cancelled: Arc<AtomicBool>,
}

impl Drop for PendingWindow {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// The work of one transaction.
pub(crate) struct SealWork {
    pub(crate) pieces: Vec<SealedPiece>,
    pub(crate) units: Vec<Unit>,
}

/// How long the writer waits for the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// Does not wait for the sealer.
    None,
    /// Waits for the sealer.
    All,
    /// Waits, and removes groups before anything else.
    ForSpace,
}

pub(crate) enum NextStep {
    SealWork(SealWork),
    /// The sealer wakes the writer when a result is ready.
    NotReady,
    /// Everything up to the position is sealed.
    Nothing,
}

impl SealPlan {
    pub(crate) fn new(requests: SyncSender<SealRequest>, portion: Totals, most: Totals) -> Self {
        SealPlan { requests, window: None, removable: VecDeque::new(), portion, most }
    }

    pub(crate) fn portion(&self) -> Totals {
        self.portion
    }

    /// The next step to seal all groups that begin up to a position.
    pub(crate) fn next(
        &mut self,
        backlog: &Backlog,
        last_position: u64,
        mode: WaitMode,
    ) -> Result<NextStep, Fault> {
        loop {
            if mode == WaitMode::ForSpace && !self.removable.is_empty() {
                return Ok(self.remove_groups());
            }
            let Some(window) = &self.window else {
                let last_position = last_position.min(backlog.last_position);
                let from =
                    self.removable.back().map_or(backlog.first_position, |unit| unit.last_position + 1);
                if from <= last_position {
                    self.request_window(from, last_position)?;
                } else if self.removable.is_empty() {
                    return Ok(NextStep::Nothing);
                } else {
                    return Ok(self.remove_groups());
                }
                continue;
            };
            let ready = match mode {
                WaitMode::None => match window.results.try_recv() {
                    Err(TryRecvError::Empty) => return Ok(NextStep::NotReady),
                    Err(TryRecvError::Disconnected) => Err(stopped()),
                    Ok(result) => result,
                },
                WaitMode::All | WaitMode::ForSpace => {
                    window.results.recv().unwrap_or_else(|_| Err(stopped()))
                }
            };
            match ready {
                Ok(SealerReply::Portion(pieces)) => {
                    let new: u64 = pieces.iter().map(|piece| piece.new.bytes).sum();
                    // A little more, so that no group remains when the window ends.
                    let units = self.units(new + new / limits::SEAL_MORE_DIVISOR);
                    return Ok(NextStep::SealWork(SealWork { pieces, units }));
                }
                Ok(SealerReply::Groups(units)) => {
                    self.window = None;
                    if units.is_empty() {
                        return Err(corrupt("the newest records are missing"));
                    }
                    self.removable.extend(units);
                }
                Err(fault) => {
                    self.reset();
                    return Err(fault);
                }
            }
        }
    }

    /// Drops the plan; the next window starts at the oldest group.
    pub(crate) fn reset(&mut self) {
        self.window = None;
        self.removable.clear();
    }

    fn request_window(&mut self, from: u64, last_position: u64) -> Result<(), Fault> {
        let (sender, results) = sync_channel(limits::SEAL_PORTIONS_WAITING_MAX);
        let cancelled = Arc::new(AtomicBool::new(false));
        let bounds = WindowBounds { from, last_position, least_bytes: self.portion.bytes, most: self.most };
        let (portion, writer) = (self.portion, std::thread::current());
        self.requests
            .send(SealRequest { bounds, portion, results: sender, cancelled: cancelled.clone(), writer })
            .map_err(|_| stopped())?;
        self.window = Some(PendingWindow { results, cancelled });
        Ok(())
    }

    fn remove_groups(&mut self) -> NextStep {
        let units = self.units(self.portion.bytes);
        NextStep::SealWork(SealWork { pieces: Vec::new(), units })
    }

    /// The oldest removable groups, of about so many bytes.
    fn units(&mut self, bytes: u64) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut taken = 0;
        while taken < bytes.max(1)
            && let Some(unit) = self.removable.pop_front()
        {
            taken += unit.bytes;
            units.push(unit);
        }
        units
    }
}
