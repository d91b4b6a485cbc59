//! Growing pauses between attempts. See [`Backoff`].

use std::time::Duration;

use recount_world::World;

use crate::limits;

/// The next pause; each is twice as long as the one before, up to a limit.
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Backoff(limits::RETRY_WAIT)
    }
}

impl Backoff {
    pub(crate) fn reset(&mut self) {
        *self = Backoff::default();
    }

    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.next()).await;
    }

    /// Pauses for between half and all of the time, so that servers do not return at the same moment, and at least as long as is
    /// demanded.
    pub(crate) async fn pause_spread(&mut self, demanded: Option<Duration>, world: &World) {
        let part = u32::try_from(world.entropy.draw() % 1000).unwrap_or(0);
        let wait = self.next();
        let spread = wait / 2 + wait / 2 * part / 1000;
        tokio::time::sleep(demanded.unwrap_or_default().max(spread)).await;
    }

    fn next(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (wait * 2).min(limits::RETRY_WAIT_MAX);
        wait
    }
}
