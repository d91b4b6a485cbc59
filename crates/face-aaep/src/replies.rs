//! Messages of subscribers that concern runs: replies to prompts, requests for more time, and control. Each becomes a
//! command of the engine, or nothing.
//!
//! See [`receive`]. It returns before a message is looked at, so neither the response nor its time says what became of
//! one: the result is visible as events alone, and in the log of attempts. It must not know how a message came in.

mod check;
mod countdown;
mod submit;

use std::sync::Arc;

use recount_world::Kind;

pub(crate) use self::countdown::take_countdowns;
use crate::reply_state::{PromptReply, Put, Received};
use crate::subscription::Subscription;

/// Takes a message that was sent by the caller of this subscription.
pub(crate) fn receive(subscription: &Arc<Subscription>, reply: PromptReply) {
    let world = subscription.engine().world();
    let received = Received { reply, at_ms: world.clock.now_ms() };
    let put = subscription.replies().inbox().put(received);
    match put {
        Put::Waits => {}
        Put::Starts => {
            let subscription = subscription.clone();
            world.tasks.spawn(Kind::Connection, |_| async move { handle_waiting(&subscription).await });
        }
        Put::Full => subscription.replies().dropped(),
    }
}

/// Handles what waits, one after the other in the order in which it came.
async fn handle_waiting(subscription: &Subscription) {
    let next = || subscription.replies().inbox().take();
    while let Some(received) = next() {
        let attempt = submit::handle(subscription, received).await;
        subscription.replies().record(attempt).await;
    }
}
