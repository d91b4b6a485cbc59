//! Decides when the writer seals, and how much.
//!
//! It must not know how records are sealed. Start at [`Sealing`].

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tokio::time::Instant;

use crate::layout::Totals;
use crate::limits;
use crate::options::SqliteOptions;
use crate::seal_plan::SealPlan;
use crate::sealer::SealRequest;

/// When and how much is sealed.
pub(super) struct Sealing {
    pub(super) age: Duration,
    /// The bound of the hot part.
    pub(super) most: Totals,
    pub(super) plan: SealPlan,
    /// Records up to this position are old enough to be sealed.
    pub(super) due: u64,
    /// The appended amount while much is hot, increased, minus the amount sealed since.
    pub(super) come_in: Totals,
    /// The time of the next attempt after a failure.
    pub(super) not_before: Option<Instant>,
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
    pub(super) fn lags(&self) -> bool {
        let portion = self.plan.portion();
        self.come_in.bytes >= portion.bytes || self.come_in.records >= portion.records
    }

    pub(super) fn is_too_much(&self, hot: Totals) -> bool {
        hot.records > self.most.records || hot.bytes > self.most.bytes
    }

    pub(super) fn is_much(&self, hot: Totals) -> bool {
        hot.records > self.most.records / limits::HOT_LEVEL_DIVISOR
            || hot.bytes > self.most.bytes / limits::HOT_LEVEL_DIVISOR
    }
}
