//! Sends the spans or log records of one tenant in batches, however long the endpoint takes.
//!
//! It holds one batch. It must not know where items come from. Start with [`Outbox::add`] and [`Outbox::send`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use recount_world::World;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::batch::{Batch, Item};
use crate::figures::{Counters, SignalCounters};
use crate::limits;
use crate::send::{Reply, Sender};
use crate::settings::ExportSettings;

pub(crate) struct Outbox<I> {
    tenant: String,
    world: World,
    /// Where it sends, as shown.
    endpoint: String,
    sender: Arc<Sender>,
    counters: Arc<Counters>,
    batch: Batch<I>,
    /// When the batch got its first item.
    filled_at: Option<Instant>,
}

impl<I: Item> Outbox<I> {
    pub(crate) fn new(
        tenant: &str,
        world: World,
        settings: &ExportSettings,
        sender: Arc<Sender>,
        counters: Arc<Counters>,
    ) -> Self {
        Outbox {
            tenant: tenant.to_owned(),
            world,
            endpoint: settings.endpoint(I::SIGNAL).map(|endpoint| endpoint.shown()).unwrap_or_default(),
            sender,
            counters,
            batch: Batch::new(settings, tenant),
            filled_at: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// When the batch is to be sent although it is not full.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.filled_at.map(|filled| filled + limits::BATCH_WAIT)
    }

    pub(crate) fn counters(&self) -> &SignalCounters {
        self.counters.of(I::SIGNAL)
    }

    /// Adds an item to the batch, and sends it when it is full.
    pub(crate) async fn add(&mut self, item: I) {
        self.filled_at.get_or_insert_with(recount_world::moment);
        self.batch.add(item);
        if self.batch.is_full() {
            self.send().await;
        }
    }

    /// Sends the batch, for as long as it takes. A batch that is dropped in between is sent again.
    pub(crate) async fn send(&mut self) {
        let whole = 0..self.batch.len();
        let mut rest = vec![whole];
        let mut backoff = Backoff::default();
        while let Some(range) = rest.pop().filter(|range| !range.is_empty()) {
            let reply = self.sender.send(self.batch.request(range.clone())).await;
            let (why, demanded) = match reply {
                Reply::Taken { rejected, why } => {
                    self.sent(range.len() as u64, rejected, &why);
                    backoff.reset();
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
            backoff.pause_spread(demanded, &self.world).await;
        }
        self.batch.clear();
        self.filled_at = None;
    }

    /// Whether a refusal is about the items: several may be too large together, and the endpoint takes a request
    /// without any. Otherwise the endpoint refuses everything, and the items wait for it.
    async fn is_at_fault(&self, status: u16, range: &Range<usize>) -> bool {
        let is_size = status == 413 && range.len() > 1;
        // A request without items has no bytes.
        is_size || matches!(self.sender.send(Vec::new()).await, Reply::Taken { .. })
    }

    fn sent(&self, items: u64, rejected: u64, why: &str) {
        let (counters, signal) = (self.counters(), I::SIGNAL.as_str());
        if let Some(since) = counters.works() {
            let seconds = self.world.clock.now_ms().saturating_sub(since) / 1000;
            tracing::info!(tenant = self.tenant, seconds, "the OpenTelemetry endpoint takes {signal} again");
        }
        if rejected > 0 {
            tracing::warn!(
                tenant = self.tenant,
                rejected,
                why,
                "the OpenTelemetry endpoint rejected {}s",
                I::NOUN
            );
        }
        counters.rejected.fetch_add(rejected, Ordering::Relaxed);
        counters.sent.fetch_add(items.saturating_sub(rejected), Ordering::Relaxed);
    }

    fn reject(&self, at: usize, why: &str) {
        let name = self.batch.item(at).name();
        tracing::error!(
            tenant = self.tenant,
            name,
            why,
            "the OpenTelemetry endpoint refuses a {}; it is dropped",
            I::NOUN
        );
        self.counters().rejected.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self, why: &str) {
        let (tenant, endpoint, signal) = (&self.tenant, &self.endpoint, I::SIGNAL.as_str());
        self.counters().failed_requests.fetch_add(1, Ordering::Relaxed);
        if self.counters().fails(self.world.clock.now_ms(), why) {
            tracing::warn!(
                tenant,
                endpoint,
                why,
                "the OpenTelemetry endpoint takes no {signal}; nothing is lost, and the export continues when it does"
            );
        } else {
            tracing::debug!(tenant, endpoint, why, "the OpenTelemetry endpoint still takes no {signal}");
        }
    }
}
