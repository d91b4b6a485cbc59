//! Sends the spans or log records of one tenant in batches, however long the endpoint takes.
//!
//! It holds one batch. It must not know where items come from. Start with [`Outbox::add`] and [`Outbox::send`].

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

/// Items of a batch that the endpoint refused for good, for one line in the log.
#[derive(Default)]
struct Dropped {
    items: u64,
    /// The name of the first, and why it was refused.
    first: Option<(String, String)>,
}

impl Dropped {
    fn log(&self, tenant: &str, noun: &str) {
        let Some((name, why)) = &self.first else { return };
        let dropped = self.items;
        tracing::error!(
            tenant,
            dropped,
            name,
            why,
            "the OpenTelemetry endpoint refuses {noun}s; they are dropped, and this is the first of them"
        );
    }
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
    ///
    /// A part that is refused is halved. An item that is refused alone is dropped only when the endpoint has taken something
    /// since: a later part of the batch, or a probe. Otherwise the endpoint refuses everything, and the items wait for it.
    pub(crate) async fn send(&mut self) {
        let end = self.batch.len();
        let whole = 0..end;
        let mut rest = vec![whole];
        let (mut backoff, mut dropped) = (Backoff::default(), Dropped::default());
        // Refusals since something was taken: the items alone, which are consecutive, and how many in all.
        let (mut suspects, mut refused) = (Vec::new(), 0);
        let mut patience = limits::REFUSALS_BEFORE_PROBE;
        while let Some(range) = rest.pop().filter(|range| !range.is_empty()) {
            let (why, demanded) = match self.sender.send(self.batch.request(range.clone())).await {
                Reply::Taken { rejected, why } => {
                    self.sent(range.len() as u64, rejected, &why);
                    self.reject(&mut suspects, &mut dropped);
                    refused = 0;
                    backoff.reset();
                    continue;
                }
                Reply::Refused { why } => {
                    refused += 1;
                    if range.len() == 1 {
                        suspects.push((range.start, why.clone()));
                    } else {
                        let middle = range.start + range.len() / 2;
                        rest.extend([middle..range.end, range.start..middle]);
                    }
                    if refused < patience && !rest.is_empty() {
                        continue;
                    }
                    match self.sender.send(self.batch.probe(&self.world)).await {
                        Reply::Taken { .. } => {
                            self.sent(0, 0, "");
                            self.reject(&mut suspects, &mut dropped);
                            (refused, patience) = (0, patience * 4);
                            backoff.reset();
                            if !rest.is_empty() {
                                backoff.pause().await;
                            }
                            continue;
                        }
                        Reply::Refused { .. } => (why, None),
                        Reply::Later { why, wait } => (why, wait),
                    }
                }
                Reply::Later { why, wait } => (why, wait),
            };
            self.failed(&why);
            let first = suspects.first().map_or(range.start, |(at, _)| *at);
            suspects.clear();
            let again = first..end;
            rest = vec![again];
            // An endpoint that demands no pause gets one, so that a broken one is not flooded.
            backoff.pause_spread(demanded, &self.world).await;
        }
        dropped.log(&self.tenant, I::NOUN);
        self.batch.clear();
        self.filled_at = None;
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

    /// Drops items that were refused alone.
    fn reject(&self, suspects: &mut Vec<(usize, String)>, dropped: &mut Dropped) {
        self.counters().rejected.fetch_add(suspects.len() as u64, Ordering::Relaxed);
        for (at, why) in suspects.drain(..) {
            dropped.items += 1;
            dropped.first.get_or_insert_with(|| (self.batch.item(at).name().to_owned(), why));
        }
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
