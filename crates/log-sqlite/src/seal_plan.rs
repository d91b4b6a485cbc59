//! The plan of sealing: which transaction the writer runs next.
//!
//! ```text
//!   window 1:  write chunks, portion by portion
//!   window 2:  write chunks, and in the same transactions remove the groups of window 1: their pages are
//!              written once, with the new chunks, and not first with zeros
//!   …
//!   no window: remove what is left
//! ```
//!
//! What is written counts at once, and a half-done window is found again when groups are read from the
//! start: no plan has to survive a restart. It must not know SQL.

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
use crate::sealer::{Answer, SealRequest, SealerReply};

pub(crate) struct SealPlan {
    asks: SyncSender<SealRequest>,
    /// The window that is being sealed.
    window: Option<Coming>,
    /// Groups whose records are all in chunks.
    left: VecDeque<Unit>,
    /// What one transaction takes.
    portion: Totals,
    /// What one window takes.
    most: Totals,
}

/// What the sealer is preparing of one window.
struct Coming {
    answers: Receiver<Answer>,
    unwanted: Arc<AtomicBool>,
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

/// One transaction.
pub(crate) struct SealWork {
    pub(crate) pieces: Vec<SealedPiece>,
    pub(crate) units: Vec<Unit>,
}

/// How long the writer waits for the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// It has better things to do than to wait for the sealer.
    None,
    /// It waits.
    All,
    /// It waits, and wants groups to go before anything else.
    ForRoom,
}

pub(crate) enum Next {
    SealWork(SealWork),
    /// The sealer wakes the writer when it is.
    NotReady,
    /// All up to the position is sealed.
    Nothing,
}

impl SealPlan {
    pub(crate) fn new(asks: SyncSender<SealRequest>, portion: Totals, most: Totals) -> Self {
        SealPlan { asks, window: None, left: VecDeque::new(), portion, most }
    }

    pub(crate) fn portion(&self) -> Totals {
        self.portion
    }

    /// What to do next to seal all groups that begin up to a position.
    pub(crate) fn next(
        &mut self,
        backlog: &Backlog,
        last_position: u64,
        patience: WaitMode,
    ) -> Result<Next, Fault> {
        loop {
            if patience == WaitMode::ForRoom && !self.left.is_empty() {
                return Ok(self.take_away());
            }
            let Some(window) = &self.window else {
                let last_position = last_position.min(backlog.last_position);
                let from = self.left.back().map_or(backlog.first_position, |unit| unit.last_position + 1);
                if from <= last_position {
                    self.ask(from, last_position)?;
                } else if self.left.is_empty() {
                    return Ok(Next::Nothing);
                } else {
                    return Ok(self.take_away());
                }
                continue;
            };
            let ready = match patience {
                WaitMode::None => match window.answers.try_recv() {
                    Err(TryRecvError::Empty) => return Ok(Next::NotReady),
                    Err(TryRecvError::Disconnected) => Err(stopped()),
                    Ok(answer) => answer,
                },
                WaitMode::All | WaitMode::ForRoom => window.answers.recv().unwrap_or_else(|_| Err(stopped())),
            };
            match ready {
                Ok(SealerReply::Portion(pieces)) => {
                    let new: u64 = pieces.iter().map(|piece| piece.new.bytes).sum();
                    // A little more, so that nothing is left when the window ends.
                    let units = self.units(new + new / limits::SEAL_MORE_DIVISOR);
                    return Ok(Next::SealWork(SealWork { pieces, units }));
                }
                Ok(SealerReply::Groups(units)) => {
                    self.window = None;
                    if units.is_empty() {
                        return Err(corrupt("the newest records are missing"));
                    }
                    self.left.extend(units);
                }
                Err(fault) => {
                    self.forget();
                    return Err(fault);
                }
            }
        }
    }

    /// The next begins from the oldest group.
    pub(crate) fn forget(&mut self) {
        self.window = None;
        self.left.clear();
    }

    fn ask(&mut self, from: u64, last_position: u64) -> Result<(), Fault> {
        let (answers, coming) = sync_channel(limits::SEAL_PORTIONS_WAITING_MAX);
        let unwanted = Arc::new(AtomicBool::new(false));
        let bounds = WindowBounds { from, last_position, least_bytes: self.portion.bytes, most: self.most };
        let (portion, asker) = (self.portion, std::thread::current());
        self.asks
            .send(SealRequest { bounds, portion, answers, unwanted: unwanted.clone(), asker })
            .map_err(|_| stopped())?;
        self.window = Some(Coming { answers: coming, unwanted });
        Ok(())
    }

    fn take_away(&mut self) -> Next {
        let units = self.units(self.portion.bytes);
        Next::SealWork(SealWork { pieces: Vec::new(), units })
    }

    /// The oldest of what is left, of about so many bytes.
    fn units(&mut self, bytes: u64) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut taken = 0;
        while taken < bytes.max(1)
            && let Some(unit) = self.left.pop_front()
        {
            taken += unit.bytes;
            units.push(unit);
        }
        units
    }
}
