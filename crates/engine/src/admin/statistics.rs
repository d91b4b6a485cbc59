//! What the engine reports of its work, for metrics.

use recount_log::Stats;

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::{Error, ReaderStats, Scrubbed};

/// What the engine says of its work. Counts are since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineStats {
    pub store: Stats,
    pub events_committed: u64,
    /// Appends that were refused because the disk is full.
    pub appends_full: u64,
    pub runs_awake: usize,
    /// Runs of ours with a worker, and those that wait for one.
    pub runs_at_work: usize,
    pub runs_in_line: usize,
    pub readers: ReaderStats,
    pub scrubbed: Scrubbed,
}

impl EngineStats {
    /// Takes in what another engine of the same process says.
    pub fn add(&mut self, other: &EngineStats) {
        self.store.add(&other.store);
        self.events_committed += other.events_committed;
        self.appends_full += other.appends_full;
        self.runs_awake += other.runs_awake;
        self.runs_at_work += other.runs_at_work;
        self.runs_in_line += other.runs_in_line;
        self.scrubbed.rounds += other.scrubbed.rounds;
        self.scrubbed.events += other.scrubbed.events;
        self.scrubbed.findings.extend(other.scrubbed.findings.iter().cloned());
        self.scrubbed.more += other.scrubbed.more;
        let (sum, more) = (&mut self.readers, &other.readers);
        sum.open += more.open;
        sum.from_store += more.from_store;
        sum.lag_max = sum.lag_max.max(more.lag_max);
        sum.events_live += more.events_live;
        sum.events_stored += more.events_stored;
    }
}

impl AdminHandle {
    /// What there is and what was counted, for metrics.
    #[boxed]
    pub async fn stats(&self) -> Result<EngineStats, Error> {
        let store = self.ground().store().stats().await?;
        let (runs_at_work, runs_in_line) = self.write().room.dispatch.counts();
        Ok(EngineStats {
            store,
            events_committed: self.ground().counters.events_committed(),
            appends_full: self.ground().counters.appends_full(),
            runs_awake: self.awake(),
            runs_at_work,
            runs_in_line,
            readers: self.read().publisher.readers().add_up(),
            scrubbed: self.scrubbed(),
        })
    }
}
