//! One stream of a subscription: events of its runs, shaped by its terms, as items for the host.
//!
//! It waits for events, for what the subscription hears of, and for what the shaper holds. It must not know how items
//! are written.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use recount_aaep::shaping::Shaper;
use recount_aaep_host::{Close, Feed, Item, Problem};
use recount_engine::{Caller, Events};
use recount_event::RunId;
use recount_world::{Kind, Shutdown};
use tokio::sync::watch;
use tokio::time::Instant;

use super::FaceState;
use crate::project::{Place, Projector};
use crate::speech::Speech;
use crate::subscription::{Control, Subscription};

/// A stream that is open.
pub(super) struct Stream {
    subscription: Arc<Subscription>,
    number: u64,
    control: watch::Receiver<Control>,
    heard: Control,
    caller: Caller,
    shutdown: Shutdown,
    began: Instant,
    shaper: Shaper,
    run: RunId,
    events: Events,
    projector: Projector,
    after: Option<Place>,
    out: VecDeque<Item>,
}

impl Stream {
    pub(super) async fn open(
        state: &FaceState,
        subscription: Arc<Subscription>,
        last_event_id: Option<&str>,
    ) -> Result<Stream, Problem> {
        let Some(run) = subscription.wish().run else { return Err(Problem::NotFound) };
        let events = subscription.engine().read().follow_events(run, None).await;
        let events = events.map_err(|_| Problem::SubscriptionUnknown)?;
        let terms = subscription.terms();
        let speech = Speech::of(chosen(&terms.languages()));
        let (heard, control) = subscription.attach();
        Ok(Stream {
            number: heard.stream,
            heard,
            control,
            caller: subscription.caller().clone(),
            shutdown: state.world.tasks.shutdown_signal(Kind::Connection),
            began: recount_world::moment(),
            shaper: Shaper::new(terms, subscription.id()),
            run,
            events,
            projector: Projector::new(run, speech),
            after: last_event_id.and_then(Place::parse).filter(|place| place.run == run),
            out: VecDeque::new(),
            subscription,
        })
    }

    pub(super) fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// What the subscription has been told since it was looked at last.
    fn hear(&mut self) -> Option<Close> {
        let control = *self.control.borrow_and_update();
        if control.closed {
            return Some(Close::Asked);
        }
        if control.stream != self.number {
            return Some(Close::Unavailable);
        }
        if control.terms != self.heard.terms {
            self.shaper.terms_changed(self.subscription.terms());
        }
        self.heard = control;
        None
    }

    fn pump(&mut self) {
        let now = self.now_ms();
        for event in self.shaper.due(now) {
            let id = event.envelope.event_id.as_str().into();
            self.out.push_back(Item::Event { id: Some(id), text: Bytes::from(event.to_json()) });
        }
    }
}

impl Feed for Stream {
    async fn next(&mut self) -> Item {
        loop {
            if let Some(close) = self.hear() {
                return Item::End(close);
            }
            self.pump();
            if let Some(item) = self.out.pop_front() {
                return item;
            }
            if self.projector.is_over() && self.shaper.held_events() == 0 {
                return Item::End(Close::Clean);
            }
            let due = self.shaper.next_due().map(|due| self.began + Duration::from_millis(due));
            let is_due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.shutdown.requested() => return Item::End(Close::Clean),
                () = self.caller.revoked() => return Item::End(Close::Unavailable),
                _ = self.control.changed() => {}
                events = self.events.next(), if !self.projector.is_over() => match events {
                    Ok(Some(events)) => {
                        let now = self.now_ms();
                        let (run, tokens) = (self.run, self.subscription.tokens());
                        for event in events {
                            for told in self.projector.event(&event, &|prompt| tokens.of(run, prompt)) {
                                let place = Place::parse(told.envelope.event_id.as_str());
                                if place > self.after {
                                    self.shaper.push(told, now);
                                }
                            }
                        }
                    }
                    Ok(None) => return Item::End(Close::Clean),
                    Err(error) => {
                        tracing::warn!(%error, "a stream cannot go on");
                        return Item::End(Close::Unavailable);
                    }
                },
                () = is_due => {}
            }
        }
    }

    fn ready(&mut self) -> Option<Item> {
        self.out.pop_front()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.subscription.detach(self.number);
    }
}

/// The language of the texts for these wishes.
fn chosen(wishes: &[&str]) -> &'static str {
    let offers: Vec<&'static str> = Speech::languages().collect();
    recount_aaep::language::choose(wishes, &offers, &[], offers[0])
}
