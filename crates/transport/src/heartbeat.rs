//! Heartbeats: when an idle stream sends a sign of life. See [`Heartbeat`].

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// One timer for all of a stream's life. It is not set back with each piece, but looked at when it goes off.
pub struct Heartbeat {
    every: Duration,
    timer: Pin<Box<Sleep>>,
    sent_at: Instant,
}

impl Heartbeat {
    /// Must be created within the runtime, whose timer it needs.
    pub fn new(every: Duration) -> Self {
        Heartbeat { every, timer: Box::pin(tokio::time::sleep(every)), sent_at: recount_world::moment() }
    }

    /// Notes that something was sent.
    pub fn sent(&mut self) {
        self.sent_at = recount_world::moment();
    }

    /// Returns when nothing was sent for too long. Dropping the future loses nothing.
    pub async fn due(&mut self) {
        loop {
            self.timer.as_mut().await;
            let due = self.sent_at + self.every;
            let now = recount_world::moment();
            let is_due = now >= due;
            self.timer.as_mut().reset(if is_due { now + self.every } else { due });
            if is_due {
                return;
            }
        }
    }
}
