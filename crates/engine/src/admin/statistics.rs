//! Engine statistics for metrics.

use recount_log::Stats;

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::{Error, PromptWaits, ReaderStats, ScrubReport};

/// Statistics of an engine. Counts start when it is opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineStats {
    pub store: Stats,
    pub events_committed: u64,
    /// Appends that were refused because the disk is full.
    pub appends_full: u64,
    pub runs_awake: usize,
    /// Own runs with a worker, and own runs that wait for one.
    pub runs_at_work: usize,
    pub runs_in_line: usize,
    pub readers: ReaderStats,
    pub prompt_waits: PromptWaits,
    pub scrub: ScrubReport,
}

impl EngineStats {
    /// Adds the statistics of another engine of the same process.
    pub fn add(&mut self, other: &EngineStats) {
        self.store.add(&other.store);
        self.events_committed += other.events_committed;
        self.appends_full += other.appends_full;
        self.runs_awake += other.runs_awake;
        self.runs_at_work += other.runs_at_work;
        self.runs_in_line += other.runs_in_line;
        for (key, waits) in &other.prompt_waits {
            self.prompt_waits.entry(key.clone()).or_default().add(waits);
        }
        self.scrub.rounds += other.scrub.rounds;
        self.scrub.events += other.scrub.events;
        self.scrub.findings.extend(other.scrub.findings.iter().cloned());
        self.scrub.more += other.scrub.more;
        let (sum, more) = (&mut self.readers, &other.readers);
        sum.open += more.open;
        sum.from_store += more.from_store;
        sum.lag_max = sum.lag_max.max(more.lag_max);
        sum.events_live += more.events_live;
        sum.events_stored += more.events_stored;
    }
}

impl AdminHandle {
    /// Current values and counts, for metrics.
    #[boxed]
    pub async fn stats(&self) -> Result<EngineStats, Error> {
        let store = self.ground().store().stats().await?;
        let (runs_at_work, runs_in_line) = self.write().context.dispatch.counts();
        Ok(EngineStats {
            store,
            events_committed: self.ground().counters.events_committed(),
            appends_full: self.ground().counters.appends_full(),
            runs_awake: self.awake(),
            runs_at_work,
            runs_in_line,
            readers: self.read().publisher.readers().stats(),
            prompt_waits: self.ground().counters.waits(),
            scrub: self.scrub_report(),
        })
    }
}
