//! Handles messages of subscribers that concern runs: replies to prompts, requests for more time, and control. Each
//! becomes a command of the engine or has no effect.
//!
//! [`receive`] returns before it reads a message, so that neither the response nor its time reveals the outcome. Events
//! and the log of attempts show the outcome. Must not depend on how a message arrived.

mod check;
mod countdown;
mod submit;

use std::sync::Arc;

use recount_world::Kind;

pub(crate) use self::countdown::take_countdowns;
use crate::reply_state::{PromptReply, PutOutcome, Received};
use crate::subscription::Subscription;

/// Takes a message of the caller of this subscription.
pub(crate) fn receive(subscription: &Arc<Subscription>, reply: PromptReply) {
    let world = subscription.engine().world();
    let received = Received { reply, at_ms: world.clock.now_ms() };
    let put = subscription.replies().inbox().put(received);
    match put {
        PutOutcome::Waits => {}
        PutOutcome::Starts => {
            let subscription = subscription.clone();
            world.tasks.spawn(Kind::Connection, |_| async move { handle_waiting(&subscription).await });
        }
        PutOutcome::Full => subscription.replies().dropped(),
    }
}

/// Handles the waiting messages in order.
async fn handle_waiting(subscription: &Subscription) {
    let next = || subscription.replies().inbox().take();
    while let Some(received) = next() {
        let attempt = submit::handle(subscription, received).await;
        subscription.replies().record(attempt).await;
    }
}
