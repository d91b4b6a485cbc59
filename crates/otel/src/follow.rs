//! The follower of one tenant for one signal: reads the feed, hands each event to what makes spans or log records of it, and
//! stores how far the export is.
//!
//! It only reads, so it cannot slow an append, and waits as long as the endpoint takes nothing: the feed is then read from
//! the store later. Start with [`Follower::run`].

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;

use recount_engine::{Engine, Error, FeedRecords};
use recount_event::Code;
use recount_world::Shutdown;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::batch::Item;
use crate::limits;
use crate::outbox::Outbox;

/// Makes spans or log records of events.
pub(crate) trait Projection: Send + Sync + 'static {
    type Item: Item;

    /// The name of the stored position.
    const CURSOR: &'static str;

    /// What an event that is missing means for what is exported.
    const IF_MISSING: &'static str;

    /// Takes the next event of the feed, as stored, however long it takes.
    fn event(&mut self, bytes: &[u8], outbox: &mut Outbox<Self::Item>) -> impl Future<Output = ()> + Send;

    /// Everything that was added was sent.
    fn sent(&mut self) {}
}

pub(crate) struct Follower<P: Projection> {
    tenant: String,
    engine: Engine,
    /// Whether the first start begins at the beginning of the log.
    history: bool,
    projection: P,
    outbox: Outbox<P::Item>,
    /// Everything up to this position is exported or in the outbox.
    through: u64,
    /// The stored position, and when it was stored.
    stored: u64,
    stored_at: Instant,
    /// Positions without an event, since the log last named any.
    missing: Option<(u64, u64)>,
}

impl<P: Projection> Follower<P> {
    pub(crate) fn new(
        tenant: &str,
        engine: Engine,
        history: bool,
        projection: P,
        outbox: Outbox<P::Item>,
    ) -> Self {
        Follower {
            tenant: tenant.to_owned(),
            engine,
            history,
            projection,
            outbox,
            through: 0,
            stored: 0,
            stored_at: recount_world::moment(),
            missing: None,
        }
    }

    /// Of the signal, in the log of the server.
    fn name() -> &'static str {
        P::Item::SIGNAL.as_str()
    }

    /// Follows until the server stops, then sends what it holds, if the endpoint takes it soon.
    pub(crate) async fn run(mut self, mut shutdown: Shutdown) {
        tokio::select! {
            biased;
            () = shutdown.requested() => {}
            () = self.follow() => {}
        }
        let sent = tokio::time::timeout(limits::STOP_WAIT, self.send()).await;
        if sent.is_err() {
            tracing::info!(
                tenant = self.tenant,
                "the OpenTelemetry endpoint did not take the last {}s; they are sent after the next start",
                P::Item::NOUN
            );
        }
        self.store_cursor().await;
    }

    async fn follow(&mut self) {
        let Some(mut feed) = self.begin().await else { return };
        let mut backoff = Backoff::default();
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
                    backoff.reset();
                    for (position, bytes) in records {
                        self.record(position, &bytes).await;
                    }
                }
                Some(Ok(None)) => return,
                Some(Err(error)) => {
                    let name = Self::name();
                    tracing::warn!(tenant = self.tenant, %error, "the export of {name} cannot read the feed");
                    backoff.pause().await;
                }
                None => {}
            }
            let now = recount_world::moment();
            if self.outbox.due_at().is_some_and(|due| now >= due) {
                self.send().await;
            }
            if now >= self.stored_at + limits::CURSOR_EVERY {
                self.store_cursor().await;
            }
        }
    }

    /// Opens the feed at the stored position, or after its end if there is none. `None`: the server stops.
    async fn begin(&mut self) -> Option<FeedRecords> {
        let mut backoff = Backoff::default();
        loop {
            match self.open().await {
                Ok(feed) => return Some(feed),
                Err(error) if error.code() == Code::ShuttingDown => return None,
                Err(error) => {
                    let name = Self::name();
                    tracing::warn!(tenant = self.tenant, %error, "the export of {name} cannot start");
                    backoff.pause().await;
                }
            }
        }
    }

    /// Settles where the export begins, so that nothing from now on is left out.
    pub(crate) async fn prepare(&self) {
        if let Err(error) = self.position().await {
            let name = Self::name();
            tracing::warn!(tenant = self.tenant, %error, "the export of {name} cannot read its position yet");
        }
    }

    /// The stored position; at the first start the end of the log, or its beginning.
    async fn position(&self) -> Result<u64, Error> {
        match self.engine.admin().cursor(P::CURSOR).await {
            Ok(Some(stored)) => Ok(stored),
            Ok(None) => {
                let first = if self.history { 0 } else { self.engine.read().last_position().await? };
                self.engine.admin().set_cursor(P::CURSOR, first).await?;
                Ok(first)
            }
            Err(error) if error.is_damage() => {
                let name = Self::name();
                tracing::warn!(
                    tenant = self.tenant, %error,
                    "the position of the export of {name} is damaged; everything is exported again"
                );
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    async fn open(&mut self) -> Result<FeedRecords, Error> {
        let (tenant, read, name) = (&self.tenant, self.engine.read(), Self::name());
        let mut after = self.position().await?;
        let last = read.last_position().await?;
        if after > last {
            tracing::warn!(
                tenant,
                "the log ends at position {last}, before the position {after} of the export of {name}; it \
                 continues at the end"
            );
            after = last;
        }
        let feed = match read.follow_feed_records(after).await {
            Err(error) if error.code() == Code::CursorPruned => {
                tracing::warn!(
                    tenant,
                    "events after position {after} were pruned before they were exported as {name}; {}",
                    P::IF_MISSING
                );
                after = 0;
                read.follow_feed_records(after).await?
            }
            opened => opened?,
        };
        (self.through, self.stored) = (after, after);
        self.outbox.counters().exported_to.store(after, Ordering::Relaxed);
        Ok(feed)
    }

    /// When there is something to do although no event comes.
    fn wake_at(&self) -> Option<Instant> {
        let is_ahead = self.outbox.is_empty() && self.through > self.stored;
        let store = is_ahead.then(|| self.stored_at + limits::CURSOR_EVERY);
        [self.outbox.due_at(), store].into_iter().flatten().min()
    }

    async fn record(&mut self, position: u64, bytes: &[u8]) {
        if self.through > 0 && position > self.through + 1 {
            let first = self.missing.map_or(self.through + 1, |(first, _)| first);
            self.missing = Some((first, position - 1));
        }
        self.projection.event(bytes, &mut self.outbox).await;
        self.through = position;
        if self.outbox.is_empty() {
            self.note_sent();
        }
    }

    async fn send(&mut self) {
        self.outbox.send().await;
        self.note_sent();
        if let Some((first, last)) = self.missing.take() {
            tracing::warn!(
                tenant = self.tenant,
                "some events from position {first} to {last} are missing: pruned, erased or damaged; {}",
                P::IF_MISSING
            );
        }
    }

    /// Everything up to here was sent.
    fn note_sent(&mut self) {
        self.projection.sent();
        self.outbox.counters().exported_to.store(self.through, Ordering::Relaxed);
    }

    /// Stores how far the export is, so that a restart continues there.
    async fn store_cursor(&mut self) {
        let exported = self.outbox.counters().exported_to.load(Ordering::Relaxed);
        self.stored_at = recount_world::moment();
        if exported <= self.stored {
            return;
        }
        match self.engine.admin().set_cursor(P::CURSOR, exported).await {
            Ok(()) => self.stored = exported,
            Err(error) => {
                let name = Self::name();
                tracing::warn!(tenant = self.tenant, %error, "cannot store the position of the export of {name}");
            }
        }
    }
}
