//! The loop that the two bare stores share: waiting writers, and one thread that commits all waiting requests.
//!
//! No timer: appends gather during a sync. The store defines what a commit is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow};
use tokio::sync::{mpsc, oneshot};

use crate::clock::{now_ns, seconds_since};
use crate::histogram::Histogram;
use crate::scene;

/// Requests that wait for the committing thread.
const WAITING_MAX: usize = 4096;

/// Makes groups durable, one after the other.
pub(crate) trait Commit: Send + 'static {
    fn commit(&mut self, group: &[u8]) -> Result<()>;
}

/// The results of a window.
pub(crate) struct Window {
    pub(crate) events: u64,
    pub(crate) commits: u64,
    pub(crate) seconds: f64,
    pub(crate) confirmed: Histogram,
}

impl Window {
    pub(crate) fn events_a_second(&self) -> f64 {
        self.events as f64 / self.seconds
    }
}

struct Request {
    bytes: Vec<u8>,
    done: oneshot::Sender<()>,
}

/// `writers` tasks append `events` events per request, one request after the other, for so many seconds.
pub(crate) fn run(mut store: impl Commit, writers: usize, events: u64, seconds: f64) -> Result<Window> {
    let (sender, mut inbox) = mpsc::channel::<Request>(WAITING_MAX);
    let (finished, commits) = oneshot::channel();
    let thread = recount_world::thread("yardstick-commit", move || {
        let mut commits = 0u64;
        let mut group = Vec::new();
        let mut waiting = Vec::new();
        let outcome = loop {
            let Some(first) = inbox.blocking_recv() else { break Ok(commits) };
            group.extend_from_slice(&first.bytes);
            waiting.push(first.done);
            while waiting.len() < WAITING_MAX && group.len() < 1 << 20 {
                let Ok(next) = inbox.try_recv() else { break };
                group.extend_from_slice(&next.bytes);
                waiting.push(next.done);
            }
            if let Err(error) = store.commit(&group) {
                break Err(error);
            }
            commits += 1;
            group.clear();
            for done in waiting.drain(..) {
                if done.send(()).is_err() {
                    // A dropped writer does not wait.
                    continue;
                }
            }
        };
        drop(finished.send(outcome));
    });
    let runtime = runtime()?;
    let start = now_ns();
    let over = Arc::new(AtomicBool::new(false));
    let measured = runtime.block_on(async {
        let tasks: Vec<_> = (0..writers)
            .map(|_| {
                let (sender, over) = (sender.clone(), over.clone());
                runtime.spawn(async move {
                    let (mut count, mut confirmed, mut sequence) = (0u64, Histogram::default(), 0u64);
                    while !over.load(Ordering::Relaxed) {
                        let start = now_ns();
                        let mut bytes = Vec::with_capacity(events as usize * scene::STORED_BYTES);
                        for _ in 0..events {
                            bytes.extend_from_slice(&scene::stored(sequence, start));
                            sequence += 1;
                        }
                        let (done, answer) = oneshot::channel();
                        if sender.send(Request { bytes, done }).await.is_err() || answer.await.is_err() {
                            return Err(anyhow!("the store stopped"));
                        }
                        confirmed.add(now_ns() - start);
                        count += events;
                    }
                    Ok((count, confirmed))
                })
            })
            .collect();
        tokio::time::sleep(std::time::Duration::from_secs_f64(seconds)).await;
        over.store(true, Ordering::Relaxed);
        let (mut count, mut confirmed) = (0, Histogram::default());
        for task in tasks {
            let (mine, times) = task.await??;
            count += mine;
            confirmed.merge(&times);
        }
        anyhow::Ok((count, confirmed))
    });
    let seconds = seconds_since(start);
    // The tasks have senders, too.
    drop((sender, runtime));
    // The reason why the store stopped, if it did.
    let commits = commits.blocking_recv().map_err(|_| anyhow!("the committing thread died"))??;
    thread.join().map_err(|_| anyhow!("the committing thread died"))?;
    let (count, confirmed) = measured?;
    Ok(Window { events: count, commits, seconds, confirmed })
}

/// As many threads as the product serves with.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?)
}
