//! Ended runs as spans: finds endings in the feed, and reads and projects the run of each.
//!
//! It holds what is open in one run. Start with [`EndedRuns`].

use std::sync::Arc;

use recount_engine::{Engine, Error};
use recount_event::RunId;
use recount_event::codec::{self, Envelope};

use crate::backoff::Backoff;
use crate::figures::Counters;
use crate::follow::Projection;
use crate::limits;
use crate::lineage::{Lineage, is_temporary};
use crate::outbox::Outbox;
use crate::project::turns::TurnHistograms;
use crate::project::{RunSpans, RunTotals};
use crate::proto::Span;

/// The types of endings begin with this, as stored. Others may contain it.
const ENDING: &[u8] = b"\"type\":\"run.";

pub(crate) struct EndedRuns {
    tenant: String,
    engine: Engine,
    with_contents: bool,
    counters: Arc<Counters>,
    /// Runs in the outbox, and their turns.
    runs: Vec<RunTotals>,
    turns: TurnHistograms,
}

impl EndedRuns {
    pub(crate) fn new(tenant: &str, engine: Engine, with_contents: bool, counters: Arc<Counters>) -> Self {
        let (runs, turns) = (Vec::new(), TurnHistograms::default());
        EndedRuns { tenant: tenant.to_owned(), engine, with_contents, counters, runs, turns }
    }

    /// Exports one run, however often it takes to read it.
    async fn export_run(&mut self, run: RunId, outbox: &mut Outbox<Span>) {
        let mut backoff = Backoff::default();
        loop {
            let error = match self.project_run(run, outbox).await {
                Ok(()) => return,
                Err(error) => error,
            };
            let tenant = &self.tenant;
            if !is_temporary(&error) {
                tracing::warn!(tenant, %run, %error, "the run is not exported as a trace");
                return;
            }
            tracing::warn!(tenant, %run, %error, "the export of traces cannot read the run yet");
            backoff.pause().await;
        }
    }

    async fn project_run(&mut self, run: RunId, outbox: &mut Outbox<Span>) -> Result<(), Error> {
        let origin = Lineage(&self.engine).origin(run).await?;
        let mut spans = RunSpans::new(run, origin, self.with_contents);
        let (mut finished, mut after) = (Vec::new(), None);
        loop {
            let page = self.engine.read().run_page(run, after, limits::PAGE_EVENTS).await?;
            let tenant = &self.tenant;
            if let Some(damage) = &page.damage {
                tracing::warn!(tenant, %run, %damage, "damaged events are missing in the trace of the run");
                spans.skip();
            }
            let first = page.events.first().map_or(0, |(first, _)| *first);
            let expected = after.map_or(0, |after: u64| after + 1);
            if first > expected {
                let last = first - 1;
                tracing::warn!(
                    tenant, %run,
                    "the events {expected} to {last} were pruned before the run was exported as a trace"
                );
                spans.skip();
            }
            for (sequence, bytes) in &page.events {
                match codec::decode(bytes) {
                    Ok(event) => spans.event(&event, &mut finished),
                    Err(error) => {
                        tracing::warn!(tenant, %run, sequence, %error, "the event is missing in the trace");
                        spans.skip();
                    }
                }
            }
            after = page.next;
            add_all(&mut finished, outbox).await;
            if !page.has_more {
                break;
            }
        }
        let (totals, turns) = (spans.totals(), spans.take_histograms());
        spans.finish(&mut finished);
        add_all(&mut finished, outbox).await;
        self.runs.push(totals);
        self.turns.add(&turns);
        Ok(())
    }
}

impl Projection for EndedRuns {
    type Item = Span;

    const CURSOR: &'static str = "otel";

    const IF_MISSING: &'static str = "runs that ended in them are not exported as traces";

    async fn event(&mut self, bytes: &[u8], outbox: &mut Outbox<Span>) {
        if memchr::memmem::find(bytes, ENDING).is_some()
            && let Ok(envelope) = Envelope::read(bytes)
            && envelope.is_ending()
        {
            self.export_run(envelope.run_id, outbox).await;
        }
    }

    fn sent(&mut self) {
        if !self.runs.is_empty() {
            self.counters.exported(std::mem::take(&mut self.runs), &std::mem::take(&mut self.turns));
        }
    }
}

async fn add_all(finished: &mut Vec<Span>, outbox: &mut Outbox<Span>) {
    for span in finished.drain(..) {
        outbox.add(span).await;
    }
}
