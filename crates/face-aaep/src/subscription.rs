//! Subscriptions: who subscribed to what, on which terms, and what a stream of it has to hear of meanwhile.
//!
//! A [`Subscription`] outlives its streams by a grace time, and a restart never. It must not know how events are
//! carried. See [`Subscriptions`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_aaep::negotiate::Terms;
use recount_aaep::wire::SubscriptionId;
use recount_engine::{Caller, Engine, EngineInstance};
use recount_transport::{Share, ShareLimits, Shares};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::limits;
use crate::replies::ReplyState;
use crate::reply_tokens::ReplyTokens;
use crate::request::Wish;

/// One subscription of one caller.
pub(crate) struct Subscription {
    id: SubscriptionId,
    engine: Engine,
    caller: Caller,
    wish: Wish,
    tokens: ReplyTokens,
    replies: ReplyState,
    terms: Mutex<Terms>,
    control: watch::Sender<Control>,
    /// Since when it has no stream; `None` while it has one.
    left_at: Mutex<Option<Instant>>,
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

    /// What the reply tokens of its prompts are made with.
    pub(crate) fn tokens(&self) -> &ReplyTokens {
        &self.tokens
    }

    pub(crate) fn replies(&self) -> &ReplyState {
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

    /// Opens a stream; the one before it ends.
    pub(crate) fn attach(&self) -> (Control, watch::Receiver<Control>) {
        *lock(&self.left_at) = None;
        let mut control = self.control.subscribe();
        self.control.send_modify(|control| control.stream += 1);
        let now = *control.borrow_and_update();
        (now, control)
    }

    /// A stream has ended, without the subscription.
    pub(crate) fn detach(&self, stream: u64) {
        if self.control.borrow().stream == stream {
            *lock(&self.left_at) = Some(recount_world::moment());
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let left = lock(&self.left_at);
        left.is_some_and(|left| now.duration_since(left) >= limits::SUBSCRIPTION_GRACE)
    }
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
    pub(crate) tokens: ReplyTokens,
    pub(crate) replies: ReplyState,
    pub(crate) terms: Terms,
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

    pub(crate) fn add(&self, new: NewSubscription, place: Place) -> Arc<Subscription> {
        let NewSubscription { id, engine, caller, wish, tokens, replies, terms } = new;
        let subscription = Arc::new(Subscription {
            id: id.clone(),
            engine,
            caller,
            wish,
            tokens,
            replies,
            terms: Mutex::new(terms),
            control: watch::Sender::new(Control::default()),
            left_at: Mutex::new(Some(recount_world::moment())),
            _place: place,
        });
        lock(&self.by_id).insert(id, subscription.clone());
        subscription
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

    /// Ends those that were without a stream for too long.
    pub(crate) fn sweep(&self) {
        let now = recount_world::moment();
        let over: Vec<Arc<Subscription>> = {
            let mut by_id = lock(&self.by_id);
            let over = by_id.values().filter(|subscription| subscription.is_over(now)).cloned().collect();
            by_id.retain(|_, subscription| !subscription.is_over(now));
            over
        };
        // Dropped outside of the lock: what they hold may be much.
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
