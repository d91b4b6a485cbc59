//! The follower of one tenant: reads the feed, exports each run that has ended, and stores how far it is.
//!
//! It only reads, so it cannot slow an append, and waits as long as the endpoint takes nothing: the feed is then read from
//! the store later. It holds one batch of spans and what is open in one run. Start with [`Follower::run`].

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recount_engine::{Engine, Error, FeedRecords, RunConfig};
use recount_event::codec::{self, Envelope};
use recount_event::{Code, RunId};
use recount_world::Shutdown;
use tokio::time::Instant;

use crate::batch::Batch;
use crate::figures::Counters;
use crate::ids::{Ancestry, Origin};
use crate::limits;
use crate::project::{RunSpans, RunTotals};
use crate::proto::{ExportRequest, Span};
use crate::send::{Reply, Sender};
use crate::settings::ExportSettings;

/// The name of the stored position.
const CURSOR: &str = "otel";

/// The types of endings begin with this, as stored. Others may contain it.
const ENDING: &[u8] = b"\"type\":\"run.";

pub(crate) struct Follower {
    tenant: String,
    engine: Engine,
    settings: ExportSettings,
    sender: Arc<Sender>,
    counters: Arc<Counters>,
    batch: Batch,
    /// When the batch got its first span.
    filled_at: Option<Instant>,
    /// Runs in the batch.
    runs: Vec<RunTotals>,
    /// Everything up to this position is exported or in the batch.
    through: u64,
    /// The stored position, and when it was stored.
    stored: u64,
    stored_at: Instant,
    /// Positions without an event, since the log last named any.
    missing: Option<(u64, u64)>,
}

impl Follower {
    pub(crate) fn new(
        tenant: &str,
        engine: Engine,
        settings: ExportSettings,
        sender: Arc<Sender>,
        counters: Arc<Counters>,
    ) -> Follower {
        Follower {
            tenant: tenant.to_owned(),
            engine,
            batch: Batch::new(&settings, tenant),
            settings,
            sender,
            counters,
            filled_at: None,
            runs: Vec::new(),
            through: 0,
            stored: 0,
            stored_at: recount_world::moment(),
            missing: None,
        }
    }

    /// Follows until the server stops, then sends what it holds, if the endpoint takes it soon.
    pub(crate) async fn run(mut self, mut shutdown: Shutdown) {
        tokio::select! {
            biased;
            () = shutdown.requested() => {}
            () = self.follow() => {}
        }
        let sent = tokio::time::timeout(limits::STOP_WAIT, self.send_batch()).await;
        if sent.is_err() {
            tracing::info!(
                tenant = self.tenant,
                "the OpenTelemetry endpoint did not take the last spans; they are sent after the next start"
            );
        }
        self.store_cursor().await;
    }

    async fn follow(&mut self) {
        let Some(mut feed) = self.begin().await else { return };
        let mut wait = limits::RETRY_WAIT;
        loop {
            let found = {
                let next = pin!(feed.next());
                match self.wake_at() {
                    Some(at) => tokio::select! {
                        biased;
                        found = next => Some(found),
                        () = tokio::time::sleep_until(at) => None,
                    },
                    None => Some(next.await),
                }
            };
            match found {
                Some(Ok(Some(records))) => {
                    wait = limits::RETRY_WAIT;
                    for (position, bytes) in records {
                        self.record(position, &bytes).await;
                    }
                }
                Some(Ok(None)) => return,
                Some(Err(error)) => {
                    tracing::warn!(tenant = self.tenant, %error, "the export of traces cannot read the feed");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(limits::RETRY_WAIT_MAX);
                }
                None => {}
            }
            let now = recount_world::moment();
            if self.filled_at.is_some_and(|filled| now >= filled + limits::BATCH_WAIT) {
                self.send_batch().await;
            }
            if now >= self.stored_at + limits::CURSOR_EVERY {
                self.store_cursor().await;
            }
        }
    }

    /// Opens the feed at the stored position, or after its end if there is none. `None`: the server stops.
    async fn begin(&mut self) -> Option<FeedRecords> {
        let mut wait = limits::RETRY_WAIT;
        loop {
            match self.open().await {
                Ok(feed) => return Some(feed),
                Err(error) if error.code() == Code::ShuttingDown => return None,
                Err(error) => {
                    tracing::warn!(tenant = self.tenant, %error, "the export of traces cannot start");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(limits::RETRY_WAIT_MAX);
                }
            }
        }
    }

    /// Settles where the export begins, so that no run that ends from now on is left out.
    pub(crate) async fn prepare(&self) {
        if let Err(error) = self.position().await {
            tracing::warn!(tenant = self.tenant, %error, "the export of traces cannot read its position yet");
        }
    }

    /// The stored position; at the first start the end of the log, or its beginning.
    async fn position(&self) -> Result<u64, Error> {
        match self.engine.admin().cursor(CURSOR).await {
            Ok(Some(stored)) => Ok(stored),
            Ok(None) => {
                let first =
                    if self.settings.history { 0 } else { self.engine.read().last_position().await? };
                self.engine.admin().set_cursor(CURSOR, first).await?;
                Ok(first)
            }
            Err(error) if error.is_damage() => {
                tracing::warn!(
                    tenant = self.tenant, %error,
                    "the position of the export of traces is damaged; all runs are exported again"
                );
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    async fn open(&mut self) -> Result<FeedRecords, Error> {
        let (tenant, read) = (&self.tenant, self.engine.read());
        let mut after = self.position().await?;
        let last = read.last_position().await?;
        if after > last {
            tracing::warn!(
                tenant,
                "the log ends at position {last}, before the position {after} of the export of traces; it \
                 continues at the end"
            );
            after = last;
        }
        let feed = match read.follow_feed_records(after).await {
            Err(error) if error.code() == Code::CursorPruned => {
                tracing::warn!(
                    tenant,
                    "events after position {after} were pruned before they were exported as traces; runs that \
                     ended in them are missing"
                );
                after = 0;
                read.follow_feed_records(after).await?
            }
            opened => opened?,
        };
        (self.through, self.stored) = (after, after);
        self.counters.exported_to.store(after, Ordering::Relaxed);
        Ok(feed)
    }

    /// When there is something to do although no event comes.
    fn wake_at(&self) -> Option<Instant> {
        let send = self.filled_at.map(|filled| filled + limits::BATCH_WAIT);
        let is_ahead = self.batch.is_empty() && self.through > self.stored;
        let store = is_ahead.then(|| self.stored_at + limits::CURSOR_EVERY);
        [send, store].into_iter().flatten().min()
    }

    async fn record(&mut self, position: u64, bytes: &[u8]) {
        if self.through > 0 && position > self.through + 1 {
            let first = self.missing.map_or(self.through + 1, |(first, _)| first);
            self.missing = Some((first, position - 1));
        }
        if memchr::memmem::find(bytes, ENDING).is_some()
            && let Ok(envelope) = Envelope::read(bytes)
            && envelope.is_ending()
        {
            self.export_run(envelope.run_id).await;
        }
        self.through = position;
        self.note_exported();
    }

    /// Exports one run, however often it takes to read it.
    async fn export_run(&mut self, run: RunId) {
        let mut wait = limits::RETRY_WAIT;
        loop {
            let error = match self.project_run(run).await {
                Ok(()) => return,
                Err(error) => error,
            };
            let tenant = &self.tenant;
            let retries = matches!(&error, Error::Failed(failure) if failure.retry_after.is_some());
            if !retries {
                tracing::warn!(tenant, %run, %error, "the run is not exported as a trace");
                return;
            }
            tracing::warn!(tenant, %run, %error, "the export of traces cannot read the run yet");
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(limits::RETRY_WAIT_MAX);
        }
    }

    async fn project_run(&mut self, run: RunId) -> Result<(), Error> {
        let origin = self.origin(run).await?;
        let mut spans = RunSpans::new(run, origin, self.settings.contents);
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
            self.take(&mut finished).await;
            if !page.has_more {
                break;
            }
        }
        let totals = spans.totals();
        spans.finish(&mut finished);
        self.take(&mut finished).await;
        self.runs.push(totals);
        Ok(())
    }

    /// The trace of a run and the span above it.
    async fn origin(&self, run: RunId) -> Result<Origin, Error> {
        let Some(queued) = self.queued(run).await? else { return Ok(Origin::of(run, None, None)) };
        let (traceparent, above) = queued;
        let Some((parent_run, call)) = above else {
            return Ok(Origin::of(run, traceparent.as_deref(), None));
        };
        let mut first_run = parent_run;
        // With a trace of its own the family needs no first run.
        if traceparent.is_none() {
            for _ in 0..limits::ANCESTORS_MAX {
                let Some((_, Some((next, _)))) = self.queued(first_run).await? else { break };
                first_run = next;
            }
        }
        let ancestry = Ancestry { first_run, parent_run, call };
        Ok(Origin::of(run, traceparent.as_deref(), Some(&ancestry)))
    }

    /// The trace of the request for a run, and the run and call that started it. `None` if its beginning is missing.
    async fn queued(&self, run: RunId) -> Result<Option<QueuedOrigin>, Error> {
        let queued = match self.engine.read().queued(run).await {
            Ok(queued) => queued,
            // The pages of the run name the damage.
            Err(error) if error.is_damage() => None,
            Err(error) => return Err(error),
        };
        Ok(queued.map(|queued| {
            let config = RunConfig::from_json(queued.config.as_ref()).ok();
            let above = config.and_then(|config| config.spawned_by);
            (queued.traceparent, above.map(|above| (above.run_id, above.tool_call_id)))
        }))
    }

    /// Adds spans to the batch, and sends it when it is full.
    async fn take(&mut self, finished: &mut Vec<Span>) {
        for span in finished.drain(..) {
            self.filled_at.get_or_insert_with(recount_world::moment);
            self.batch.add(span);
            if self.batch.is_full() {
                self.send_batch().await;
            }
        }
    }

    /// Sends the batch, for as long as it takes. A batch that is dropped in between is sent again.
    async fn send_batch(&mut self) {
        let whole = 0..self.batch.len();
        let mut rest = vec![whole];
        let mut wait = limits::RETRY_WAIT;
        while let Some(range) = rest.pop().filter(|range| !range.is_empty()) {
            let reply = self.sender.send(&self.batch.request(range.clone())).await;
            let (why, demanded) = match reply {
                Reply::Taken { rejected, why } => {
                    self.sent(range.len() as u64, rejected, &why);
                    wait = limits::RETRY_WAIT;
                    continue;
                }
                Reply::Refused { status, why } if self.is_at_fault(status, &range).await => {
                    if range.len() == 1 {
                        self.reject(range.start, &why);
                    } else {
                        let middle = range.start + range.len() / 2;
                        rest.extend([middle..range.end, range.start..middle]);
                    }
                    continue;
                }
                Reply::Refused { why, .. } => (why, None),
                Reply::Later { why, wait } => (why, wait),
            };
            self.failed(&why);
            rest.push(range);
            // An endpoint that demands no pause gets one, so that a broken one is not flooded.
            tokio::time::sleep(demanded.unwrap_or_default().max(self.spread(wait))).await;
            wait = (wait * 2).min(limits::RETRY_WAIT_MAX);
        }
        self.counters.exported(std::mem::take(&mut self.runs));
        self.batch.clear();
        self.filled_at = None;
        self.note_exported();
        if let Some((first, last)) = self.missing.take() {
            tracing::warn!(
                tenant = self.tenant,
                "some events from position {first} to {last} are missing: pruned, erased or damaged; runs that ended \
                 in them are not exported as traces"
            );
        }
    }

    /// Whether a refusal is about the spans: several may be too large together, and the endpoint takes a request
    /// without any. Otherwise the endpoint refuses everything, and the spans wait for it.
    async fn is_at_fault(&self, status: u16, range: &std::ops::Range<usize>) -> bool {
        let is_size = status == 413 && range.len() > 1;
        is_size || matches!(self.sender.send(&ExportRequest::default()).await, Reply::Taken { .. })
    }

    fn sent(&self, spans: u64, rejected: u64, why: &str) {
        if let Some(since) = self.counters.works() {
            let seconds = self.engine.world().clock.now_ms().saturating_sub(since) / 1000;
            tracing::info!(tenant = self.tenant, seconds, "the OpenTelemetry endpoint takes traces again");
        }
        if rejected > 0 {
            tracing::warn!(tenant = self.tenant, rejected, why, "the OpenTelemetry endpoint rejected spans");
        }
        self.counters.rejected.fetch_add(rejected, Ordering::Relaxed);
        self.counters.spans.fetch_add(spans.saturating_sub(rejected), Ordering::Relaxed);
    }

    fn reject(&self, at: usize, why: &str) {
        let span = &self.batch.span(at).name;
        tracing::error!(
            tenant = self.tenant,
            span,
            why,
            "the OpenTelemetry endpoint refuses a span; it is dropped"
        );
        self.counters.rejected.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self, why: &str) {
        self.counters.failed_requests.fetch_add(1, Ordering::Relaxed);
        let endpoint = self.settings.endpoint.shown();
        if self.counters.fails(self.engine.world().clock.now_ms(), why) {
            tracing::warn!(
                tenant = self.tenant,
                endpoint,
                why,
                "the OpenTelemetry endpoint takes no traces; nothing is lost, and the export continues when it does"
            );
        } else {
            tracing::debug!(
                tenant = self.tenant,
                endpoint,
                why,
                "the OpenTelemetry endpoint still takes no traces"
            );
        }
    }

    /// Between half and all of a pause, so that servers do not return at the same moment.
    fn spread(&self, wait: Duration) -> Duration {
        let part = u32::try_from(self.engine.world().entropy.draw() % 1000).unwrap_or(0);
        wait / 2 + wait / 2 * part / 1000
    }

    fn note_exported(&self) {
        if self.batch.is_empty() {
            self.counters.exported_to.store(self.through, Ordering::Relaxed);
        }
    }

    /// Stores how far the export is, so that a restart continues there.
    async fn store_cursor(&mut self) {
        let exported = self.counters.exported_to.load(Ordering::Relaxed);
        self.stored_at = recount_world::moment();
        if exported <= self.stored {
            return;
        }
        match self.engine.admin().set_cursor(CURSOR, exported).await {
            Ok(()) => self.stored = exported,
            Err(error) => {
                tracing::warn!(tenant = self.tenant, %error, "cannot store the position of the export of traces");
            }
        }
    }
}

/// The trace of the request for a run, and the run and call that started it.
type QueuedOrigin = (Option<String>, Option<(RunId, recount_event::ForeignId)>);
