//! The lease of a node as this process knows it: measured by time that never steps back.
//!
//! The deadline counts from before the renewal was sent, so it ends before the lease does in the database.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Shared by the task that renews the lease and all that depend on it.
#[derive(Debug)]
pub(crate) struct Lease {
    length: Duration,
    deadline: Mutex<Instant>,
    lost: watch::Sender<bool>,
}

impl Lease {
    /// A lease that was requested at `sent_at` and granted.
    pub(crate) fn granted(length: Duration, sent_at: Instant) -> Self {
        Lease { length, deadline: Mutex::new(sent_at + usable(length)), lost: watch::Sender::new(false) }
    }

    /// The renewal that was sent then has succeeded.
    pub(crate) fn renewed(&self, sent_at: Instant) {
        let mut deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        *deadline = (*deadline).max(sent_at + usable(self.length));
    }

    /// Another node ended the lease. It is never valid again.
    pub(crate) fn lose(&self) {
        self.lost.send_replace(true);
    }

    pub(crate) fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Waits until the lease is lost.
    pub(crate) fn watch_loss(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.lost.subscribe();
        async move {
            // The sender is dropped only with the process's last use of the database.
            if lost.wait_for(|lost| *lost).await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Whether an effect outside of the log may begin at this moment.
    pub(crate) fn is_valid_at(&self, moment: Instant) -> bool {
        !self.is_lost() && moment < *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a lease that is used: clocks may run at different speeds.
fn usable(length: Duration) -> Duration {
    length - length / 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_time_since_the_renewal_was_sent_and_never_returns_once_lost() {
        let start = recount_world::moment();
        let at = |seconds| start + Duration::from_secs(seconds);
        let lease = Lease::granted(Duration::from_secs(16), start);
        assert!(lease.is_valid_at(at(14)));
        assert!(!lease.is_valid_at(at(15)), "a sixteenth is kept back");
        lease.renewed(at(4));
        assert!(lease.is_valid_at(at(18)));
        assert!(!lease.is_valid_at(at(19)));
        lease.renewed(at(2));
        assert!(lease.is_valid_at(at(18)), "responses may arrive out of order");
        lease.lose();
        lease.renewed(at(5));
        assert!(!lease.is_valid_at(at(5)));
    }
}
