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
    runs: BTreeMap<RunId, KnownRun>,
}

/// A run whose events came before.
struct KnownRun {
    records: RunRecords,
    /// Whether it has the turns of all earlier events. After a restart it has none until one is needed.
    has_turns: bool,
}

impl EventRecords {
    pub(crate) fn new(tenant: &str, engine: Engine, with_contents: bool) -> Self {
        EventRecords { tenant: tenant.to_owned(), engine, with_contents, runs: BTreeMap::new() }
    }

    /// The record of an event, however often it takes to read what came before it.
    async fn record(&mut self, event: &Event) -> Option<LogRecord> {
        let (mut backoff, with_contents) = (Backoff::default(), self.with_contents);
        loop {
            let error = match self.known(event).await {
                Ok(known) => return Some(known.record(event, with_contents)),
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
        if !self.runs.contains_key(&run) {
            let origin = Lineage(&self.engine).origin(run).await?;
            if self.runs.len() >= limits::RUNS_KEPT_MAX {
                self.runs.clear();
            }
            let has_turns = event.sequence == 0;
            self.runs.insert(run, KnownRun { records: RunRecords::new(origin.trace), has_turns });
        }
        let known = self.runs.get_mut(&run).expect("it was added");
        if !known.has_turns && depends_on_turns(event.type_name()) {
            let mut records = known.records.clone();
            pass_before(&self.engine, event, &mut records).await?;
            *known = KnownRun { records, has_turns: true };
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
