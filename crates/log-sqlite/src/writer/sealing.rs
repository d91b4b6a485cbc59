//! Decides when the writer seals, and how much, and runs the transactions that seal.
//!
//! It must not know how records are packed. Start at [`Sealing`].

use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use recount_log::Fault;
use recount_world::moment;
use tokio::time::Instant;

use super::Writer;
use crate::fault::FaultContext as _;
use crate::group::CommitProof;
use crate::layout::{self, Totals};
use crate::limits;
use crate::options::SqliteOptions;
use crate::seal;
use crate::seal_plan::{NextStep, SealPlan, WaitMode};
use crate::sealer::SealRequest;

/// When and how much is sealed.
pub(super) struct Sealing {
    age: Duration,
    /// The bound of the hot part.
    most: Totals,
    pub(super) plan: SealPlan,
    /// Records up to this position are old enough to be sealed.
    pub(super) due: u64,
    /// The appended amount while much is hot, increased, minus the amount sealed since.
    come_in: Totals,
    /// The time of the next attempt after a failure.
    not_before: Option<Instant>,
}

/// The outcome of a step of sealing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SealStep {
    Done,
    NotReady,
    Nothing,
}

impl Sealing {
    pub(super) fn new(options: &SqliteOptions, requests: SyncSender<SealRequest>) -> Self {
        let (age, records_max) = (options.seal_age, options.hot_records_max);
        // With a small hot part, windows and portions are small too.
        let level = (records_max / limits::HOT_LEVEL_DIVISOR).max(1);
        let portion = Totals {
            records: limits::SEAL_BATCH_RECORDS.min(level.div_ceil(limits::SEAL_MORE_DIVISOR)),
            bytes: limits::SEAL_BATCH_BYTES,
        };
        let window = Totals {
            records: limits::SEAL_WINDOW_RECORDS_MAX.min(level),
            bytes: limits::SEAL_WINDOW_BYTES_MAX,
        };
        Sealing {
            age,
            most: Totals { records: records_max, bytes: options.hot_bytes_max },
            plan: SealPlan::new(requests, portion, window),
            due: 0,
            come_in: Totals::default(),
            not_before: None,
        }
    }

    /// Records an append of this size while this much was hot.
    pub(super) fn came_in(&mut self, new: Totals, hot: Totals) {
        if self.is_much(hot) {
            self.come_in.more(new);
            self.come_in.more(Totals {
                records: new.records / limits::SEAL_MORE_DIVISOR,
                bytes: new.bytes / limits::SEAL_MORE_DIVISOR,
            });
        } else {
            self.come_in = Totals::default();
        }
    }

    /// Whether enough was appended to seal a portion.
    fn lags(&self) -> bool {
        let portion = self.plan.portion();
        self.come_in.bytes >= portion.bytes || self.come_in.records >= portion.records
    }

    fn is_too_much(&self, hot: Totals) -> bool {
        hot.records > self.most.records || hot.bytes > self.most.bytes
    }

    fn is_much(&self, hot: Totals) -> bool {
        hot.records > self.most.records / limits::HOT_LEVEL_DIVISOR
            || hot.bytes > self.most.bytes / limits::HOT_LEVEL_DIVISOR
    }
}

impl Writer {
    /// How long until records are old enough to be sealed; `None` when nothing is hot.
    pub(super) fn until_due(&mut self) -> Option<Duration> {
        let backlog = self.shared.hot.backlog();
        let oldest = backlog.oldest?;
        let now = moment();
        if let Some(wait) = self.sealing.not_before.map(|then| then.saturating_duration_since(now))
            && !wait.is_zero()
        {
            return Some(wait);
        }
        if backlog.first_position <= self.sealing.due {
            return Some(Duration::ZERO);
        }
        let wait = (oldest + self.sealing.age).saturating_duration_since(now);
        if wait.is_zero() {
            // Everything hot is sealed with the oldest, so that pieces of one run become larger.
            self.sealing.due = backlog.last_position;
        }
        Some(wait)
    }

    /// Seals until the next group fits.
    pub(super) fn seal_for_space(&mut self) -> Result<(), Fault> {
        while self.sealing.is_too_much(self.shared.hot.backlog().totals) {
            if self.seal_some(u64::MAX, WaitMode::ForSpace)? == SealStep::Nothing {
                break;
            }
        }
        Ok(())
    }

    /// Seals as much as was appended, when much is hot.
    pub(super) fn keep_level(&mut self) {
        let waits = self.sealing.not_before.is_some_and(|then| moment() < then);
        if self.sealing.lags() && !waits {
            self.seal_or_wait(u64::MAX);
        }
    }

    /// Runs a step of sealing, if it is ready.
    pub(super) fn seal_or_wait(&mut self, last_position: u64) -> SealStep {
        if self.shared.reserve.is_spent() {
            self.sealing.not_before = Some(moment() + limits::SEAL_RETRY);
            return SealStep::Nothing;
        }
        self.seal_some(last_position, WaitMode::None).unwrap_or_else(|fault| {
            tracing::warn!(%fault, "sealing failed; retrying later");
            self.sealing.not_before = Some(moment() + limits::SEAL_RETRY);
            SealStep::Nothing
        })
    }

    pub(super) fn seal_all(&mut self) -> Result<(), Fault> {
        let last = self.shared.hot.backlog().last_position;
        while self.seal_some(last, WaitMode::All)? != SealStep::Nothing {}
        Ok(())
    }

    /// One sealing transaction.
    fn seal_some(&mut self, last_position: u64, mode: WaitMode) -> Result<SealStep, Fault> {
        if self.known.is_none() {
            // The hot part must be loaded first.
            self.transact(|_, _| Ok(((), CommitProof::Nothing)))?;
        }
        let backlog = self.shared.hot.backlog();
        let work = match self.sealing.plan.next(&backlog, last_position, mode)? {
            NextStep::SealWork(work) => work,
            NextStep::NotReady => return Ok(SealStep::NotReady),
            NextStep::Nothing => return Ok(SealStep::Nothing),
        };
        let known = self.known;
        let sealed = self.transact(|writer, connection| {
            if writer.known != known {
                // Another program changed the database, so prepared chunks may not fit.
                return Ok((None, CommitProof::Nothing));
            }
            // Groups first, so that their freed pages are reused at once.
            seal::remove_groups(connection, &work.units)?;
            let new = seal::write_chunks(connection, &work.pieces)?;
            let count = layout::raise_fence(connection).context("updating the fence")?;
            Ok((Some(new), CommitProof::Fence(count)))
        });
        let Some(new) = sealed.inspect_err(|_| self.sealing.plan.reset())? else {
            self.sealing.plan.reset();
            return Ok(SealStep::Done);
        };
        self.sealing.not_before = None;
        self.sealing.come_in.less(new);
        self.shared.hot.add_sealed(new);
        for unit in &work.units {
            self.shared.hot.remove_groups(unit.last_position, &unit.streams);
        }
        self.checkpoints.after_commit(self.wal_pages.load(Ordering::Relaxed));
        Ok(SealStep::Done)
    }
}
