//! [`Node`]: this process as a user of the database, with its threads, its lease and its connections for reads.
//!
//! It must not know stores, except for the names of the open ones.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recount_log::{Fault, FaultKind, Retry};
use recount_world::{Entropy as _, SystemClock, SystemEntropy};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

use crate::connect::{Link, Readers, Session, Target};
use crate::fault::stopped;
use crate::lease::Lease;
use crate::options::PostgresOptions;
use crate::rules::{LeaseEvent, LeaseStep};
use crate::{limits, shared};

/// A process that uses the database.
pub(crate) struct Node {
    /// Taken when the last handle is dropped, which may be on one of its own threads.
    runtime: Option<Runtime>,
    pub(crate) handle: Handle,
    pub(crate) target: Arc<Target>,
    pub(crate) options: PostgresOptions,
    /// This process among the nodes of the database.
    pub(crate) name: String,
    readers: Readers,
    lease: Arc<Lease>,
    /// The stores that this process has open.
    open: Mutex<HashSet<String>>,
    closing: Arc<Notify>,
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Node {
    /// Connects, prepares the shared tables, and registers this process.
    pub(crate) fn join(options: PostgresOptions) -> Result<Self, Fault> {
        let target = Arc::new(Target::parse(&options.url)?);
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("recount-postgres")
            .enable_all()
            .build()
            .map_err(|why| Fault::new(FaultKind::Io, Retry::Maybe, format!("cannot start threads: {why}")))?;
        let handle = runtime.handle().clone();
        let draw = SystemEntropy::new().draw();
        let node = format!("{}-{:08x}", options.node, draw as u32);
        let link = Link::new(target.clone());
        let joining = {
            let (target, options, node) = (target.clone(), options.clone(), node.clone());
            async move {
                let session = Session::connect(&target).await?;
                shared::prepare(&session).await?;
                shared::check_clock(&session, &SystemClock).await?;
                let sent_at = recount_world::uptime();
                shared::add_node(&link, &node, &options.address, options.lease).await?;
                Ok((link, Lease::granted(options.lease, sent_at)))
            }
        };
        let (link, lease) = match wait_for(&handle, joining) {
            Ok(joined) => joined,
            Err(fault) => {
                // Dropping a runtime panics on a thread of another one.
                runtime.shutdown_background();
                return Err(fault);
            }
        };
        let (lease, closing) = (Arc::new(lease), Arc::new(Notify::new()));
        handle.spawn(keep_lease(link, node.clone(), options.lease, lease.clone(), closing.clone()));
        let readers = Readers::new(&target);
        let open = Mutex::default();
        let runtime = Some(runtime);
        Ok(Node { runtime, handle, target, options, name: node, readers, lease, open, closing })
    }

    /// Ends the lease of this node.
    pub(crate) fn leave(&self) {
        self.closing.notify_one();
        let (target, name, lease) = (self.target.clone(), self.name.clone(), self.lease.clone());
        let left = wait_for(&self.handle, async move {
            lease.lose();
            shared::remove_node(&Link::new(target), &name).await
        });
        if let Err(fault) = left {
            tracing::warn!(%fault, "cannot end the lease of this node; it expires by itself");
        }
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    /// The names of the stores that this process has open.
    pub(crate) fn open_names(&self) -> MutexGuard<'_, HashSet<String>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits on this thread for work on the threads of the database.
pub(crate) fn wait_for<T: Send + 'static>(
    handle: &Handle,
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(limits::RESULTS_WAITING_MAX);
    handle.spawn(async move {
        // The receiver waits for it below.
        drop(sender.send(work.await));
    });
    receiver.recv().unwrap_or_else(|_| Err(stopped()))
}

/// Renews the lease of the node until the database is closed or the lease is lost.
async fn keep_lease(link: Link, node: String, length: Duration, lease: Arc<Lease>, closing: Arc<Notify>) {
    let probe: Arc<str> = "SELECT 1".into();
    // At once, so that the statement is prepared before time is short.
    let mut step = LeaseStep::Wait(Duration::ZERO);
    loop {
        if let LeaseStep::ResetAndWait(_) = step {
            link.reset().await;
        }
        let event = match step {
            LeaseStep::Wait(pause) | LeaseStep::ResetAndWait(pause) => tokio::select! {
                () = closing.notified() => return,
                () = tokio::time::sleep(pause) => LeaseEvent::Due,
            },
            LeaseStep::Renew(wait) => {
                match tokio::time::timeout(wait, shared::renew(&link, &node, length)).await {
                    Ok(Ok(true)) => LeaseEvent::Renewed,
                    Ok(Ok(false)) => LeaseEvent::Deleted,
                    Ok(Err(error)) => {
                        let fault = error.into_fault();
                        tracing::warn!(%fault, node, "cannot renew the lease of this node; trying again");
                        LeaseEvent::Failed
                    }
                    Err(_) => {
                        tracing::warn!(
                            node,
                            "no response to the renewal of the lease of this node; trying again"
                        );
                        LeaseEvent::TimedOut
                    }
                }
            }
            LeaseStep::Probe(wait) => {
                let probing = link.query("probing the database", &probe, &[]);
                match tokio::time::timeout(wait, probing).await {
                    Ok(Ok(_)) => LeaseEvent::Answered,
                    Ok(Err(_)) => LeaseEvent::Failed,
                    Err(_) => LeaseEvent::TimedOut,
                }
            }
            LeaseStep::Stop => return,
        };
        step = lease.step(event);
        if event == LeaseEvent::Deleted {
            tracing::error!(node, "another node ended the lease of this one; its stores are given up");
        }
    }
}
