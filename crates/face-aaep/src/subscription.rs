//! Subscriptions: who subscribed to what, on which terms, and what a stream of it has to hear of meanwhile.
//!
//! A [`Subscription`] outlives its streams by a grace time, and a restart never. It must not know how events are
//! carried. See [`Subscriptions`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_aaep::negotiate::Terms;
use recount_aaep::wire::SubscriptionId;
use recount_engine::{Caller, Engine, EngineInstance, Scope};
use recount_transport::{Share, ShareLimits, Shares};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::limits;
use crate::projections::TenantReader;
use crate::reply_state::ReplyState;
use crate::request::Wish;
use crate::sending::Sending;
use crate::speech::Speech;
use crate::view::View;

/// One subscription of one caller.
pub(crate) struct Subscription {
    id: SubscriptionId,
    engine: Engine,
    caller: Caller,
    wish: Wish,
    replies: Arc<ReplyState>,
    terms: Mutex<Terms>,
    /// Whether it was agreed on a WebSocket and ends with it.
    on_socket: bool,
    control: watch::Sender<Control>,
    /// Since when it has no stream; `None` while it has one.
    left_at: Mutex<Option<Instant>>,
    /// What its next stream goes on with.
    kept: Mutex<Option<Box<Kept>>>,
    is_kept: Notify,
    _place: Share<EngineInstance>,
}

/// What a stream has to hear of while it waits for events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Control {
    /// The stream that is in use: each new one has a higher number and ends the one before it.
    pub(crate) stream: u64,
    /// Counts changes of the terms.
    pub(crate) terms: u64,
    pub(crate) closed: bool,
}

impl Subscription {
    pub(crate) fn new(new: NewSubscription, place: Place) -> Self {
        let NewSubscription { id, engine, caller, wish, replies, terms, on_socket } = new;
        Subscription {
            id,
            engine,
            caller,
            wish,
            replies,
            terms: Mutex::new(terms),
            on_socket,
            control: watch::Sender::new(Control::default()),
            left_at: Mutex::new(Some(recount_world::moment())),
            kept: Mutex::new(None),
            is_kept: Notify::new(),
            _place: place,
        }
    }

    pub(crate) fn id(&self) -> &SubscriptionId {
        &self.id
    }

    /// The engine of the caller's tenant.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(crate) fn wish(&self) -> Wish {
        self.wish
    }

    pub(crate) fn replies(&self) -> &Arc<ReplyState> {
        &self.replies
    }

    pub(crate) fn terms(&self) -> Terms {
        lock(&self.terms).clone()
    }

    /// Other terms, which hold for events from now on.
    pub(crate) fn change_terms(&self, terms: Terms) {
        *lock(&self.terms) = terms;
        self.control.send_modify(|control| control.terms += 1);
    }

    /// Whether this caller is the one that subscribed.
    pub(crate) fn is_of(&self, engine: &Engine, caller: &Caller) -> bool {
        self.engine.instance() == engine.instance() && self.caller.id == caller.id
    }

    /// How it sees events now.
    pub(crate) fn view(&self) -> View {
        View::new(&self.terms(), self.caller.may(Scope::Approve), self.wish.redaction)
    }

    /// The language of its events.
    pub(crate) fn speech(&self) -> &'static Speech {
        let offers: Vec<&'static str> = Speech::languages().collect();
        let terms = self.terms();
        Speech::of(recount_aaep::language::choose(&terms.languages(), &offers, &[], offers[0]))
    }

    /// Keeps what the next stream goes on with.
    pub(crate) fn keep(&self, kept: Kept) {
        *lock(&self.kept) = Some(Box::new(kept));
        self.is_kept.notify_one();
    }

    /// What this stream goes on with. A stream before it that is still in use gives it up within a short time; `None`
    /// when it does not.
    pub(crate) async fn take_kept(&self) -> Option<Box<Kept>> {
        let taken = async {
            loop {
                if let Some(kept) = lock(&self.kept).take() {
                    return kept;
                }
                self.is_kept.notified().await;
            }
        };
        tokio::time::timeout(limits::HANDOVER_WAIT, taken).await.ok()
    }

    /// Opens a stream; the one before it ends.
    pub(crate) fn attach(&self) -> (Control, watch::Receiver<Control>) {
        *lock(&self.left_at) = None;
        let mut control = self.control.subscribe();
        self.control.send_modify(|control| control.stream += 1);
        let now = *control.borrow_and_update();
        (now, control)
    }

    fn is_over(&self, now: Instant) -> bool {
        let left = lock(&self.left_at);
        left.is_some_and(|left| now.duration_since(left) >= limits::SUBSCRIPTION_GRACE)
    }
}

/// What one stream of a subscription to all runs leaves to the next.
pub(crate) struct Kept {
    pub(crate) reader: TenantReader,
    /// None before the first stream.
    pub(crate) sending: Option<Sending>,
}

/// All subscriptions of the process, bounded in all and for each tenant. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Subscriptions {
    by_id: Arc<Mutex<HashMap<SubscriptionId, Arc<Subscription>>>>,
    places: Shares<EngineInstance>,
}

/// What a subscription is made of.
pub(crate) struct NewSubscription {
    pub(crate) id: SubscriptionId,
    pub(crate) engine: Engine,
    pub(crate) caller: Caller,
    pub(crate) wish: Wish,
    pub(crate) replies: Arc<ReplyState>,
    pub(crate) terms: Terms,
    pub(crate) on_socket: bool,
}

/// A place for one more subscription.
pub(crate) type Place = Share<EngineInstance>;

impl Subscriptions {
    pub(crate) fn new(subscriptions_max: usize) -> Self {
        let limits = ShareLimits::for_each(subscriptions_max, limits::SUBSCRIPTIONS_OWN_MAX);
        Subscriptions { by_id: Arc::default(), places: Shares::new(limits) }
    }

    /// A place for one more subscription of this tenant, if there is one.
    pub(crate) fn place(&self, engine: &Engine) -> Option<Place> {
        self.places.try_take(&engine.instance(), 1)
    }

    pub(crate) fn add(&self, subscription: Subscription) {
        lock(&self.by_id).insert(subscription.id.clone(), Arc::new(subscription));
    }

    /// A subscription of this caller. One of another caller does not exist for it.
    pub(crate) fn find(&self, id: &str, engine: &Engine, caller: &Caller) -> Option<Arc<Subscription>> {
        let id = SubscriptionId::new(id).ok()?;
        let found = lock(&self.by_id).get(&id).cloned()?;
        found.is_of(engine, caller).then_some(found)
    }

    /// Ends a subscription and its stream.
    pub(crate) fn close(&self, subscription: &Subscription) {
        lock(&self.by_id).remove(subscription.id());
        subscription.control.send_modify(|control| control.closed = true);
    }

    /// A stream has ended, without its subscription unless it was on a WebSocket.
    pub(crate) fn detach(&self, subscription: &Subscription, stream: u64) {
        if subscription.control.borrow().stream != stream {
            return;
        }
        *lock(&subscription.left_at) = Some(recount_world::moment());
        if subscription.on_socket {
            self.close(subscription);
        }
    }

    /// Ends those that were without a stream for too long.
    pub(crate) fn sweep(&self) {
        let now = recount_world::moment();
        let over: Vec<Arc<Subscription>> = {
            let mut by_id = lock(&self.by_id);
            let over = by_id.values().filter(|subscription| subscription.is_over(now)).cloned().collect();
            by_id.retain(|_, subscription| !subscription.is_over(now));
            over
        };
        // Outside of the lock: what they hold may be much.
        drop(over);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        lock(&self.by_id).len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
