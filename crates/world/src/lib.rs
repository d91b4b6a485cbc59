//! The operating system's clock, entropy and task spawning, passed to all other crates as a [`World`].
//!
//! The only crate that reads the time, draws randomness or spawns; [`platform`] has what differs between systems. All
//! others receive a [`World`], so a simulation can replace it. It must never know the domain.

mod clock;
mod entropy;
pub mod limits;
pub mod platform;
mod tasks;

pub use clock::{Clock, ManualClock, RuntimeClock, SystemClock, moment, uptime};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use tasks::{Kind, Panicked, Shutdown, Tasks, thread};

use std::sync::Arc;

/// Everything our code may ask of the outside. Cheap to clone.
#[derive(Clone)]
pub struct World {
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub tasks: Tasks,
}

impl World {
    /// The real one.
    pub fn real() -> Self {
        World { clock: Arc::new(SystemClock), entropy: Arc::new(SystemEntropy::new()), tasks: Tasks::new() }
    }

    /// A repeatable one: time is the runtime's own (which a test may pause), entropy comes from `seed`.
    pub fn seeded(seed: u64, start_ms: u64) -> Self {
        World {
            clock: Arc::new(RuntimeClock::starting_at(start_ms)),
            entropy: Arc::new(SeededEntropy::new(seed)),
            tasks: Tasks::new(),
        }
    }

    /// The same with a task tree of its own, for a part of the process that ends alone.
    #[must_use]
    pub fn separate(&self) -> Self {
        World { tasks: self.tasks.separate(), ..self.clone() }
    }

    /// Waits until the clock shows `at_ms`. Looks again in steps, because a wall clock may be set.
    pub async fn sleep_until_ms(&self, at_ms: u64) {
        loop {
            let now = self.clock.now_ms();
            if now >= at_ms {
                return;
            }
            let left = std::time::Duration::from_millis(at_ms - now);
            tokio::time::sleep(left.min(limits::CLOCK_LOOK_EVERY)).await;
        }
    }
}
