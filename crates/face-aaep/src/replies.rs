//! Messages of subscribers that concern runs: replies to prompts, requests for more time, and control. Each becomes a
//! command of the engine, or nothing.
//!
//! See [`receive`]. It returns before a message is looked at, so neither the response nor its time says what became of
//! one: the result is visible as events alone, and in the log of attempts. It must not know how a message came in.

mod attempt;
mod check;
mod countdown;
mod inbox;
mod message;
mod shown;
mod submit;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_aaep::Event;
use recount_aaep::wire::SubscriptionId;
use recount_world::Kind;

pub(crate) use self::attempt::Unlogged;
pub use self::attempt::{AttemptLog, Outcome, ReplyAttempt};
pub(crate) use self::countdown::take_countdowns;
use self::inbox::{Inbox, Received};
pub(crate) use self::message::{OwnMessage, PromptReply};
use self::shown::ShownPrompts;
use crate::reply_tokens::ReplyTokens;
use crate::subscription::Subscription;

/// What a subscription keeps for its replies.
pub(crate) struct ReplyState {
    subscription: SubscriptionId,
    tokens: ReplyTokens,
    shown: Mutex<ShownPrompts>,
    inbox: Mutex<Inbox>,
    log: Arc<dyn AttemptLog>,
    /// Attempts without effect so far.
    refused: AtomicU64,
}

impl ReplyState {
    pub(crate) fn new(
        subscription: SubscriptionId,
        tokens: ReplyTokens,
        log: Arc<dyn AttemptLog>,
    ) -> Arc<Self> {
        Arc::new(ReplyState {
            subscription,
            tokens,
            shown: Mutex::default(),
            inbox: Mutex::default(),
            log,
            refused: AtomicU64::new(0),
        })
    }

    pub(crate) fn subscription(&self) -> &SubscriptionId {
        &self.subscription
    }

    /// Prepares an event before it is sent: a prompt gets the token that only this subscription can use, and can be
    /// answered from now on.
    pub(crate) fn show(&self, event: &mut Event) {
        self.shown().show(event, |first| self.tokens.bound(&self.subscription, first));
    }

    /// When a prompt tells its time next, in milliseconds since 1970.
    pub(crate) fn next_countdown_ms(&self) -> Option<u64> {
        self.shown().next_due_ms()
    }

    fn shown(&self) -> MutexGuard<'_, ShownPrompts> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a message that was sent by the caller of this subscription.
pub(crate) fn receive(subscription: &Arc<Subscription>, reply: PromptReply) {
    let world = subscription.engine().world();
    let received = Received { reply, at_ms: world.clock.now_ms() };
    let mut inbox = subscription.replies().inbox.lock().unwrap_or_else(PoisonError::into_inner);
    match inbox.put(received) {
        inbox::Put::Waits => {}
        inbox::Put::Starts => {
            let subscription = subscription.clone();
            world.tasks.spawn(Kind::Connection, |_| async move { work_off(&subscription).await });
        }
        inbox::Put::Full => {
            drop(inbox);
            tracing::warn!(subscription = %subscription.id(), "a reply was dropped: too many wait");
            subscription.replies().log.count(Outcome::TooMany);
        }
    }
}

/// Handles what waits, one after the other in the order in which it came.
async fn work_off(subscription: &Subscription) {
    let next = || subscription.replies().inbox.lock().unwrap_or_else(PoisonError::into_inner).take();
    while let Some(received) = next() {
        let attempt = submit::handle(subscription, received).await;
        attempt::record(subscription, attempt).await;
    }
}
