//! Events as log records, while their runs are open. See [`EventRecords`].

use std::collections::BTreeMap;

use recount_engine::{Engine, Error};
use recount_event::{Event, RunId, codec};

use crate::backoff::Backoff;
use crate::follow::Projection;
use crate::limits;
use crate::lineage::{Lineage, is_temporary};
use crate::outbox::Outbox;
use crate::project::records::{RunRecords, depends_on_turns, is_exported};
use crate::proto::LogRecord;

/// Before the type of an event, as stored. No other member before it has a text of its own.
const TYPE: &[u8] = b"\"type\":\"";

pub(crate) struct EventRecords {
    tenant: String,
    engine: Engine,
    with_contents: bool,
    runs: KnownRuns,
}

/// A run whose events came before.
struct KnownRun {
    records: RunRecords,
    /// Whether it has the turns of all earlier events. After a restart it has none until one is needed.
    has_turns: bool,
    /// When it was used last; a key of `by_use`.
    used: u64,
}

/// The open runs that were used last.
struct KnownRuns {
    runs_max: usize,
    runs: BTreeMap<RunId, KnownRun>,
    /// The least recently used one first.
    by_use: BTreeMap<u64, RunId>,
    uses: u64,
}

impl KnownRuns {
    fn new(runs_max: usize) -> Self {
        KnownRuns { runs_max, runs: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    fn get(&mut self, run: RunId) -> Option<&mut KnownRun> {
        let known = self.runs.get_mut(&run)?;
        self.uses += 1;
        self.by_use.remove(&known.used);
        self.by_use.insert(self.uses, run);
        known.used = self.uses;
        Some(known)
    }

    /// Adds a run, in place of the least recently used one if there are too many.
    fn add(&mut self, run: RunId, records: RunRecords, has_turns: bool) {
        if self.runs.len() >= self.runs_max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.runs.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, run);
        self.runs.insert(run, KnownRun { records, has_turns, used: self.uses });
    }

    /// Forgets the run if this event ends it.
    fn passed(&mut self, run: RunId, type_name: &str) {
        if matches!(type_name, "run.finished" | "run.failed" | "run.cancelled")
            && let Some(known) = self.runs.remove(&run)
        {
            self.by_use.remove(&known.used);
        }
    }
}

impl EventRecords {
    pub(crate) fn new(tenant: &str, engine: Engine, with_contents: bool) -> Self {
        let runs = KnownRuns::new(limits::RUNS_KEPT_MAX);
        EventRecords { tenant: tenant.to_owned(), engine, with_contents, runs }
    }

    /// The record of an event, however often it takes to read what came before it.
    async fn record(&mut self, event: &Event) -> Option<LogRecord> {
        let (mut backoff, with_contents) = (Backoff::default(), self.with_contents);
        loop {
            let error = match self.known(event).await {
                Ok(known) => {
                    let record = known.record(event, with_contents);
                    self.runs.passed(event.run_id, event.type_name());
                    return Some(record);
                }
                Err(error) => error,
            };
            let (tenant, run, sequence) = (&self.tenant, event.run_id, event.sequence);
            if !is_temporary(&error) {
                tracing::warn!(tenant, %run, sequence, %error, "the event is not exported as a log record");
                return None;
            }
            tracing::warn!(tenant, %run, sequence, %error, "the export of logs cannot read the run yet");
            backoff.pause().await;
        }
    }

    /// What is known of the run before this event.
    async fn known(&mut self, event: &Event) -> Result<&mut RunRecords, Error> {
        let run = event.run_id;
        if self.runs.get(run).is_none() {
            let origin = Lineage(&self.engine).origin(run).await?;
            self.runs.add(run, RunRecords::new(origin.trace), event.sequence == 0);
        }
        let known = self.runs.get(run).expect("it was added");
        if !known.has_turns && depends_on_turns(event.type_name()) {
            let mut records = known.records.clone();
            pass_before(&self.engine, event, &mut records).await?;
            (known.records, known.has_turns) = (records, true);
        }
        Ok(&mut known.records)
    }
}

impl Projection for EventRecords {
    type Item = LogRecord;

    const CURSOR: &'static str = "otel_logs";

    const IF_MISSING: &'static str = "they are not exported as logs";

    async fn event(&mut self, bytes: &[u8], outbox: &mut Outbox<LogRecord>) {
        if !type_name(bytes).is_some_and(is_exported) {
            return;
        }
        match codec::decode(bytes) {
            Ok(event) => {
                if let Some(record) = self.record(&event).await {
                    outbox.add(record).await;
                }
            }
            Err(error) => {
                tracing::warn!(tenant = self.tenant, %error, "an event is not exported as a log record");
            }
        }
    }
}

/// Reads the turns of a run before an event.
async fn pass_before(engine: &Engine, event: &Event, records: &mut RunRecords) -> Result<(), Error> {
    let mut after = None;
    loop {
        let page = engine.read().run_page(event.run_id, after, limits::PAGE_EVENTS).await?;
        for (sequence, bytes) in &page.events {
            if *sequence >= event.sequence {
                return Ok(());
            }
            if type_name(bytes).is_some_and(depends_on_turns)
                && let Ok(before) = codec::decode(bytes)
            {
                records.pass(before.payload());
            }
        }
        after = page.next;
        if !page.has_more {
            return Ok(());
        }
    }
}

/// The type of a stored event.
fn type_name(bytes: &[u8]) -> Option<&str> {
    let rest = &bytes[memchr::memmem::find(bytes, TYPE)? + TYPE.len()..];
    str::from_utf8(&rest[..memchr::memchr(b'"', rest)?]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Origin;

    fn add(runs: &mut KnownRuns, number: u64) -> RunId {
        let run: RunId = format!("run_{number:026}").parse().unwrap();
        runs.add(run, RunRecords::new(Origin::of(run, None, None).trace), true);
        run
    }

    #[test]
    fn too_many_open_runs_displace_only_the_least_recently_used_ones() {
        let mut runs = KnownRuns::new(3);
        let [a, b, c] = [1, 2, 3].map(|number| add(&mut runs, number));
        runs.get(a).unwrap();
        let d = add(&mut runs, 4);
        assert_eq!([a, b, c, d].map(|run| runs.get(run).is_some()), [true, false, true, true]);
        assert_eq!((runs.runs.len(), runs.by_use.len()), (3, 3));
    }

    #[test]
    fn ended_runs_displace_no_open_one() {
        let mut runs = KnownRuns::new(2);
        let open = add(&mut runs, 1);
        for number in 2..10 {
            let run = add(&mut runs, number);
            runs.passed(run, "turn.completed");
            assert!(runs.get(run).is_some());
            runs.passed(run, "run.finished");
            assert!(runs.get(run).is_none() && runs.get(open).is_some());
        }
        assert_eq!((runs.runs.len(), runs.by_use.len()), (1, 1));
    }
}
