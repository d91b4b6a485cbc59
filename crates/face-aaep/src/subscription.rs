//! Subscriptions: their caller, options and terms, and the signals that their streams react to.
//!
//! A [`Subscription`] outlives its streams by a grace time, but not a restart. Must not depend on how events are
//! carried. Start with [`Subscriptions`].

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
use crate::request::SubscriptionOptions;
use crate::sending::Sending;
use crate::speech::Speech;
use crate::view::View;

/// One subscription of one caller.
pub(crate) struct Subscription {
    id: SubscriptionId,
    engine: Engine,
    caller: Caller,
    options: SubscriptionOptions,
    replies: Arc<ReplyState>,
    terms: Mutex<Terms>,
    /// Whether it was negotiated on a WebSocket and ends with it.
    on_socket: bool,
    control: watch::Sender<Control>,
    /// When its last stream ended; `None` while it has one.
    left_at: Mutex<Option<Instant>>,
    /// The reader and buffers for its next stream.
    retained: Mutex<Option<Box<RetainedStream>>>,
    is_retained: Notify,
    _place: Share<EngineInstance>,
}

/// Changes that a stream reacts to while it waits for events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Control {
    /// The number of the current stream. Each new stream has a higher number and ends the one before it.
    pub(crate) stream: u64,
    /// Counts changes of the terms.
    pub(crate) terms: u64,
    pub(crate) closed: bool,
}

impl Subscription {
    pub(crate) fn new(new: NewSubscription, place: Place) -> Self {
        let NewSubscription { id, engine, caller, options, replies, terms, on_socket } = new;
        Subscription {
            id,
            engine,
            caller,
            options,
            replies,
            terms: Mutex::new(terms),
            on_socket,
            control: watch::Sender::new(Control::default()),
            left_at: Mutex::new(Some(recount_world::moment())),
            retained: Mutex::new(None),
            is_retained: Notify::new(),
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

    pub(crate) fn options(&self) -> SubscriptionOptions {
        self.options
    }

    pub(crate) fn replies(&self) -> &Arc<ReplyState> {
        &self.replies
    }

    pub(crate) fn terms(&self) -> Terms {
        lock(&self.terms).clone()
    }

    /// Sets other terms for later events.
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
        View::new(&self.terms(), self.caller.may(Scope::Approve), self.options.redaction)
    }

    /// The language of its events.
    pub(crate) fn speech(&self) -> &'static Speech {
        let offers: Vec<&'static str> = Speech::languages().collect();
        let terms = self.terms();
        Speech::of(recount_aaep::language::choose(&terms.languages(), &offers, &[], offers[0]))
    }

    /// Keeps the reader and buffers for the next stream.
    pub(crate) fn retain_stream(&self, retained: RetainedStream) {
        *lock(&self.retained) = Some(Box::new(retained));
        self.is_retained.notify_one();
    }

    /// Takes the reader and buffers of the previous stream. A previous stream that is still open releases them within a
    /// short time; `None` if it does not.
    pub(crate) async fn take_retained(&self) -> Option<Box<RetainedStream>> {
        let taken = async {
            loop {
                if let Some(retained) = lock(&self.retained).take() {
                    return retained;
                }
                self.is_retained.notified().await;
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

/// The reader and buffers that one stream of a subscription to all runs leaves for the next.
pub(crate) struct RetainedStream {
    pub(crate) reader: TenantReader,
    /// None before the first stream.
    pub(crate) sending: Option<Sending>,
}

/// All subscriptions of the process, with a limit in total and for each tenant. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Subscriptions {
    by_id: Arc<Mutex<HashMap<SubscriptionId, Arc<Subscription>>>>,
    places: Shares<EngineInstance>,
}

/// The parts of a new subscription.
pub(crate) struct NewSubscription {
    pub(crate) id: SubscriptionId,
    pub(crate) engine: Engine,
    pub(crate) caller: Caller,
    pub(crate) options: SubscriptionOptions,
    pub(crate) replies: Arc<ReplyState>,
    pub(crate) terms: Terms,
    pub(crate) on_socket: bool,
}

/// A slot for one more subscription.
pub(crate) type Place = Share<EngineInstance>;

impl Subscriptions {
    pub(crate) fn new(subscriptions_max: usize) -> Self {
        let limits = ShareLimits::for_each(subscriptions_max, limits::SUBSCRIPTIONS_OWN_MAX);
        Subscriptions { by_id: Arc::default(), places: Shares::new(limits) }
    }

    /// A slot for one more subscription of this tenant, if there is one.
    pub(crate) fn place(&self, engine: &Engine) -> Option<Place> {
        self.places.try_take(&engine.instance(), 1)
    }

    pub(crate) fn add(&self, subscription: Subscription) {
        lock(&self.by_id).insert(subscription.id.clone(), Arc::new(subscription));
    }

    /// A subscription of this caller. Subscriptions of other callers are not found.
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

    /// Records that a stream ended. Ends the subscription too if it was on a WebSocket.
    pub(crate) fn detach(&self, subscription: &Subscription, stream: u64) {
        if subscription.control.borrow().stream != stream {
            return;
        }
        *lock(&subscription.left_at) = Some(recount_world::moment());
        if subscription.on_socket {
            self.close(subscription);
        }
    }

    /// Ends the subscriptions that had no stream for too long.
    pub(crate) fn sweep(&self) {
        let now = recount_world::moment();
        let over: Vec<Arc<Subscription>> = {
            let mut by_id = lock(&self.by_id);
            let over = by_id.values().filter(|subscription| subscription.is_over(now)).cloned().collect();
            by_id.retain(|_, subscription| !subscription.is_over(now));
            over
        };
        // Dropped outside of the lock, because they may own much memory.
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
