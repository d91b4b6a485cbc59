//! One stream of a subscription: the events of its runs, shaped by its terms, as items for the host.
//!
//! Waits for events, for changes of the subscription, and for events that the shaper holds. Must not depend on how
//! items are written or how events are projected.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use recount_aaep_host::{Close, Feed, Item, Problem};
use recount_engine::Caller;
use recount_world::{Kind, Shutdown};
use tokio::sync::watch;

use super::{FaceState, join};
use crate::delivery::{Delivery, OutgoingFrame};
use crate::projections::{Broken, Next, Projections, RunReader, TenantReader};
use crate::replies;
use crate::sending::Sending;
use crate::subscription::{Control, RetainedStream, Subscription, Subscriptions};
use crate::traffic::{Reported, Traffic};

/// A stream that is open.
pub(super) struct Stream {
    source: StreamSource,
    sending: Sending,
    attached: Attached,
    projections: Projections,
    control: watch::Receiver<Control>,
    applied: Control,
    shutdown: Shutdown,
    revoked: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    traffic: Traffic,
    reported: Reported,
}

/// Where events come from.
enum StreamSource {
    Run(Box<RunReader>),
    All(Box<TenantReader>),
    /// No more events follow; the stream ends when everything is sent.
    Over,
}

/// Marks the subscription as having this stream until it is dropped.
struct Attached {
    subscriptions: Subscriptions,
    subscription: Arc<Subscription>,
    number: u64,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.subscriptions.detach(&self.subscription, self.number);
    }
}

impl Stream {
    /// Opens a stream for a caller. It ends when the caller's token is revoked.
    pub(super) async fn open(
        state: &FaceState,
        subscription: Arc<Subscription>,
        mut caller: Caller,
        last_event_id: Option<&str>,
    ) -> Result<Stream, Problem> {
        let last_event_id = last_event_id.filter(|id| !id.is_empty());
        let (applied, control) = subscription.attach();
        let subscriptions = state.subscriptions.clone();
        let attached = Attached { subscriptions, subscription, number: applied.stream };
        let subscription = &attached.subscription;
        let (source, sending) = match subscription.options().run {
            Some(run) => {
                let (reader, sending) = join::run(state, subscription, run, last_event_id).await?;
                (reader.map_or(StreamSource::Over, |reader| StreamSource::Run(Box::new(reader))), sending)
            }
            None => {
                let (reader, sending) = join::all(state, subscription, last_event_id).await?;
                (StreamSource::All(Box::new(reader)), sending)
            }
        };
        Ok(Stream {
            reported: Reported::new(sending.counts()),
            source,
            sending,
            attached,
            projections: state.projections.clone(),
            control,
            applied,
            shutdown: state.world.tasks.shutdown_signal(Kind::Connection),
            revoked: Box::pin(async move { caller.revoked().await }),
            traffic: state.traffic.clone(),
        })
    }

    pub(super) fn subscription(&self) -> &Subscription {
        &self.attached.subscription
    }

    /// Applies the changes of the subscription since the last call.
    fn apply_control(&mut self) -> Option<Close> {
        let control = *self.control.borrow_and_update();
        if control.closed {
            return Some(Close::Requested);
        }
        if control.stream != self.attached.number {
            return Some(Close::Unavailable);
        }
        if control.terms != self.applied.terms {
            let subscription = &self.attached.subscription;
            self.sending.change_terms(subscription.terms(), subscription.view());
            match &mut self.source {
                StreamSource::Run(reader) => {
                    reader.change_language(&self.projections, subscription.speech());
                }
                StreamSource::All(reader) => reader.change_language(subscription.speech()),
                StreamSource::Over => {}
            }
        }
        self.applied = control;
        None
    }

    fn item(&mut self) -> Option<Item> {
        let frame = self.sending.frame();
        self.traffic.report(&mut self.reported, self.sending.counts());
        frame.map(|OutgoingFrame { id, text }| Item::Event { id, text })
    }

    /// Sends the countdowns of prompts outside of the events of the log.
    async fn count_down(&mut self) {
        for event in replies::take_countdowns(&self.attached.subscription).await {
            self.sending.take_aside(&event);
        }
    }

    /// How long until the next countdown.
    fn countdown_wait(&self) -> Option<Duration> {
        let subscription = &self.attached.subscription;
        let due_ms = subscription.replies().next_countdown_ms()?;
        let now_ms = subscription.engine().world().clock.now_ms();
        Some(Duration::from_millis(due_ms.saturating_sub(now_ms)))
    }

    fn take(&mut self, next: Result<Next, Broken>) -> Option<Close> {
        match next {
            Ok(Next::Events(events)) => self.sending.take(events),
            Ok(Next::Joined(join_state)) => self.sending.take_lead_in(&join_state.lead_in),
            Ok(Next::Over) => self.source = StreamSource::Over,
            Err(Broken) => return Some(Close::Unavailable),
        }
        None
    }
}

/// Waits for what a source has next.
async fn next_of(source: &mut StreamSource) -> Result<Next, Broken> {
    match source {
        StreamSource::Run(reader) => Ok(reader.next().await?.map_or(Next::Over, Next::Events)),
        StreamSource::All(reader) => reader.next().await,
        StreamSource::Over => pending().await,
    }
}

impl Feed for Stream {
    async fn next(&mut self) -> Item {
        loop {
            if let Some(close) = self.apply_control() {
                return Item::End(close);
            }
            if let Some(item) = self.item() {
                return item;
            }
            if matches!(self.source, StreamSource::Over) && self.sending.is_idle() {
                return Item::End(Close::Clean);
            }
            let due = self.sending.next_due();
            let is_due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => pending().await,
                }
            };
            let countdown = self.countdown_wait();
            let is_countdown_due = async {
                match countdown {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => pending().await,
                }
            };
            let next = tokio::select! {
                biased;
                // A WebSocket cannot be resumed, so held events are sent before the close.
                () = self.shutdown.requested() => {
                    self.sending.flush();
                    return self.item().unwrap_or(Item::End(Close::Shutdown));
                }
                () = &mut self.revoked => return Item::End(Close::Unauthenticated),
                _ = self.control.changed() => continue,
                next = next_of(&mut self.source) => next,
                () = is_due => continue,
                () = is_countdown_due => {
                    self.count_down().await;
                    continue;
                }
            };
            if let Some(close) = self.take(next) {
                return Item::End(close);
            }
        }
    }

    fn ready(&mut self) -> Option<Item> {
        self.item()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let StreamSource::All(reader) = std::mem::replace(&mut self.source, StreamSource::Over) else {
            return;
        };
        let subscription = &self.attached.subscription;
        let (terms, view) = (subscription.terms(), subscription.view());
        let rest = Sending::new(Delivery::of_all(terms, subscription.replies().clone(), view));
        let sending = std::mem::replace(&mut self.sending, rest);
        subscription.retain_stream(RetainedStream { reader: *reader, sending: Some(sending) });
    }
}
