//! The lease of a node, shared by the task that renews it and all that depend on it. Its rules are in `rules/lease.rs`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recount_world::uptime;
use tokio::sync::watch;

use crate::rules::{LeaseEvent, LeaseStep, NodeLease};

/// Shared by the task that renews the lease and all that depend on it.
#[derive(Debug)]
pub(crate) struct Lease {
    state: Mutex<NodeLease>,
    lost: watch::Sender<bool>,
}

impl Lease {
    /// A lease that was requested at this [`uptime`] and granted.
    pub(crate) fn granted(length: Duration, sent_at: Duration) -> Self {
        Lease { state: Mutex::new(NodeLease::granted(length, sent_at)), lost: watch::Sender::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, NodeLease> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do next about the lease.
    pub(crate) fn step(&self, event: LeaseEvent) -> LeaseStep {
        let mut state = self.state();
        let step = state.step(event, uptime());
        let is_lost = state.is_lost();
        drop(state);
        if is_lost {
            self.lost.send_replace(true);
        }
        step
    }

    /// The lease was ended. It is never valid again.
    pub(crate) fn lose(&self) {
        self.state().lose();
        self.lost.send_replace(true);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.state().is_lost()
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

    /// Whether an effect outside of the log may begin now for a store of this node.
    pub(crate) fn allows_effect(&self, is_closed: bool) -> bool {
        self.state().allows_effect(is_closed, uptime())
    }
}
