//! What was acknowledged to the clients of a tenant, and counts. It must not know how that comes about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::clock;

/// What was acknowledged, and counts.
#[derive(Default)]
pub(super) struct Ledger {
    /// Texts of each external run, in order.
    pub(super) runs: BTreeMap<String, Vec<String>>,
    pub(super) own_runs: Vec<String>,
    /// Keys of requests that create runs; each creates one, with the key as title.
    pub(super) titles: BTreeSet<String>,
    /// Approvals whose resolution was acknowledged.
    pub(super) approved: BTreeSet<String>,
    pub(super) acknowledged: u64,
    /// When the most recently acknowledged append was sent.
    pub(super) last_sent_ns: u64,
    last_acknowledged_ns: u64,
    /// The longest time without an acknowledgement since the measure started.
    pub(super) gap_max_ns: u64,
    pub(super) repeated: u64,
    pub(super) approvals: u64,
    pub(super) finished: u64,
    pub(super) resumed: u64,
    pub(super) interrupted: u64,
    /// Own runs that did not finish, by the code of their ending.
    pub(super) not_finished: BTreeMap<String, u64>,
    pub(super) events: u64,
    pub(super) ended_by_themselves: u64,
    /// Requests that were refused with `store_full`.
    pub(super) full: u64,
    /// What the store responded after a loss.
    pub(super) corrupt: Option<String>,
}

impl Ledger {
    /// Measures the longest time without an acknowledgement from now on.
    pub(super) fn measure_from(&mut self, now: u64) {
        (self.last_acknowledged_ns, self.gap_max_ns) = (now, 0);
    }

    pub(super) fn acknowledge(&mut self, sent_ns: u64) {
        let now = clock::now_ns();
        self.gap_max_ns = self.gap_max_ns.max(now.saturating_sub(self.last_acknowledged_ns));
        self.last_acknowledged_ns = now;
        self.last_sent_ns = self.last_sent_ns.max(sent_ns);
    }

    pub(super) fn add(&mut self, other: &Ledger) {
        self.acknowledged += other.acknowledged;
        self.repeated += other.repeated;
        self.approvals += other.approvals;
        self.finished += other.finished;
        self.resumed += other.resumed;
        self.interrupted += other.interrupted;
        for (ending, count) in &other.not_finished {
            *self.not_finished.entry(ending.clone()).or_default() += count;
        }
        self.events += other.events;
        self.ended_by_themselves += other.ended_by_themselves;
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} events acknowledged, {} stored, {} requests repeated, {} approvals, {} own runs ended (failed: {:?}), {} calls \
             interrupted, {} streams resumed, {} servers ended by themselves",
            self.acknowledged,
            self.events,
            self.repeated,
            self.approvals,
            self.finished,
            self.not_finished,
            self.interrupted,
            self.resumed,
            self.ended_by_themselves
        )
    }
}
