//! The reply state of a subscription: the prompts that it was shown, waiting messages, and the log of attempts.
//!
//! Must not depend on subscriptions or runs. Start with [`ReplyState`].

mod attempt;
mod inbox;
mod message;
mod shown;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recount_aaep::Event;
use recount_aaep::wire::{ReplyToken, SubscriptionId};
use recount_event::{ForeignId, RunId};

pub(crate) use self::attempt::Unlogged;
pub use self::attempt::{AttemptLog, Outcome, ReplyAttempt};
pub(crate) use self::inbox::{Inbox, PutOutcome, Received};
pub(crate) use self::message::{CONTROL, ControlAction, ControlRequest, EXTEND, OwnMessage, PromptReply};
pub(crate) use self::shown::{DueMark, PromptShape, Shown, ShownPrompts};
use crate::limits;
use crate::project::Place;
use crate::reply_tokens::ReplyTokens;

/// The reply state of one subscription.
pub(crate) struct ReplyState {
    subscription: SubscriptionId,
    tokens: ReplyTokens,
    shown: Mutex<ShownPrompts>,
    inbox: Mutex<Inbox>,
    log: Arc<dyn AttemptLog>,
    /// Attempts without effect so far.
    refused: AtomicU64,
    /// Events so far that are not of the log.
    asides: AtomicU64,
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
            asides: AtomicU64::new(0),
        })
    }

    pub(crate) fn subscription(&self) -> &SubscriptionId {
        &self.subscription
    }

    pub(crate) fn tokens(&self) -> &ReplyTokens {
        &self.tokens
    }

    /// Prepares an event for sending: gives a prompt the token that only this subscription can use, and accepts replies
    /// to it.
    pub(crate) fn show(&self, event: &mut Event) {
        self.shown().show(event, |first| self.tokens.bound(&self.subscription, first));
    }

    /// Whether a reply with the token of a prompt is accepted already.
    pub(crate) fn has_shown(&self, prompt: &Event) -> bool {
        self.shown().has_shown(prompt, |first| self.tokens.bound(&self.subscription, first))
    }

    /// Gives an event that is not of the log an id that no other event of any subscription has: listeners skip events
    /// whose ids they know.
    pub(crate) fn identify_aside(&self, event: &mut Event) {
        let Some(place) = Place::parse(event.envelope.event_id.as_str()) else { return };
        let number = self.asides.fetch_add(1, Ordering::Relaxed);
        let offset = self.tokens.number(&self.subscription, number);
        event.envelope.event_id = place.aside(offset).event_id();
    }

    /// The token that this subscription is sent for a prompt.
    pub(crate) fn token_of(&self, run: RunId, prompt: &ForeignId) -> ReplyToken {
        self.tokens.bound(&self.subscription, &self.tokens.of(run, prompt))
    }

    /// When the next countdown is due, in milliseconds since 1970.
    pub(crate) fn next_countdown_ms(&self) -> Option<u64> {
        self.shown().next_due_ms()
    }

    pub(crate) fn shown(&self) -> MutexGuard<'_, ShownPrompts> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a message that was dropped because too many wait.
    pub(crate) fn dropped(&self) {
        tracing::warn!(subscription = %self.subscription, "a reply was dropped because too many are waiting");
        self.log.count(Outcome::TooMany);
    }

    /// Records an attempt. Of attempts without effect only the first are recorded; later ones are counted.
    pub(crate) async fn record(&self, attempt: ReplyAttempt) {
        tracing::debug!(
            subscription = %self.subscription,
            message = attempt.message,
            outcome = attempt.outcome.word(),
            "a reply was handled"
        );
        if attempt.outcome != Outcome::Accepted {
            let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
            if refused == limits::REPLIES_REFUSED_RECORDED_MAX {
                tracing::warn!(
                    subscription = %self.subscription,
                    by = %attempt.by,
                    refused,
                    "a subscription sends many replies without effect; from now on they are only counted, \
                     not logged"
                );
            }
            if refused > limits::REPLIES_REFUSED_RECORDED_MAX {
                self.log.count(attempt.outcome);
                return;
            }
        }
        self.log.record(attempt).await;
    }
}
