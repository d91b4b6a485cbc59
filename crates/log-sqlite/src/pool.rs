//! A thread pool: a few threads that each own a resource (a connection, the blob folder) and share one bounded queue.
//!
//! Answers come through a channel that needs no runtime. It must not know the jobs.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use recount_log::{Answer, Fault, FaultKind, Retry};
use tokio::sync::oneshot;

use crate::fault::closed;

type Job<C> = Box<dyn FnOnce(&mut C) + Send>;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingBounds {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

/// The front of the queue. Ends its threads when it is closed; work that was accepted is done first.
pub(crate) struct Pool<C> {
    name: &'static str,
    bounds: WaitingBounds,
    queue: Arc<Queue<C>>,
}

struct Queue<C> {
    waiting: Mutex<Waiting<C>>,
    /// One for each thread.
    changed: Vec<Condvar>,
}

struct Waiting<C> {
    jobs: VecDeque<(usize, Job<C>)>,
    bytes: usize,
    closed: bool,
    /// Idle threads, the last one to become idle at the end: its caches are warm.
    resting: Vec<usize>,
}

impl<C: Send + 'static> Pool<C> {
    /// Starts one thread for each of `owned`; each keeps a clone of `held` until it has ended.
    pub(crate) fn start(
        name: &'static str,
        bounds: WaitingBounds,
        owned: Vec<C>,
        held: &(impl Clone + Send + 'static),
    ) -> (Self, Vec<JoinHandle<()>>) {
        let queue = Arc::new(Queue {
            waiting: Mutex::new(Waiting {
                jobs: VecDeque::new(),
                bytes: 0,
                closed: false,
                resting: Vec::with_capacity(owned.len()),
            }),
            changed: owned.iter().map(|_| Condvar::new()).collect(),
        });
        let threads = owned.into_iter().enumerate().map(|(place, mut own)| {
            let (queue, held) = (queue.clone(), held.clone());
            recount_world::thread(name, move || {
                queue.work(place, &mut own);
                drop(own);
                drop(held);
            })
        });
        let threads = threads.collect();
        (Pool { name, bounds, queue }, threads)
    }

    /// Queues a job that weighs `bytes`. Its place is taken now, not when the answer is awaited.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut C) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<T> {
        let (sender, receiver) = oneshot::channel();
        let job: Job<C> = Box::new(move |own| {
            if !sender.is_closed() {
                // The asker may leave at any time.
                drop(sender.send(work(own)));
            }
        });
        if let Err(fault) = self.put(bytes, job) {
            return Box::pin(std::future::ready(Err(fault)));
        }
        let name = self.name;
        Box::pin(async move {
            let gone = |_| {
                Fault::new(FaultKind::Io, Retry::Maybe, format!("a thread of {name} failed during this call"))
            };
            receiver.await.unwrap_or_else(|error| Err(gone(error)))
        })
    }

    fn put(&self, bytes: usize, job: Job<C>) -> Result<(), Fault> {
        let mut waiting = self.queue.lock();
        if waiting.closed {
            return Err(closed());
        }
        let full = waiting.jobs.len() >= self.bounds.count
            || (waiting.bytes > 0 && waiting.bytes + bytes > self.bounds.bytes);
        if full {
            let (count, waiting) = (waiting.jobs.len(), waiting.bytes);
            let message = format!(
                "{count} calls with {waiting} bytes are already waiting for {}; try again shortly",
                self.name
            );
            return Err(Fault::new(FaultKind::Busy, Retry::Maybe, message));
        }
        waiting.bytes += bytes;
        waiting.jobs.push_back((bytes, job));
        let rested = waiting.resting.pop();
        drop(waiting);
        if let Some(thread) = rested {
            self.queue.changed[thread].notify_one();
        }
        Ok(())
    }
}

impl<C> Pool<C> {
    /// Takes no further work. The threads end when they have done what was accepted.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.queue.changed.iter().for_each(Condvar::notify_one);
    }
}

impl<C> Queue<C> {
    fn lock(&self) -> MutexGuard<'_, Waiting<C>> {
        self.waiting.lock().expect("nothing panics while it holds the queue")
    }

    fn work(&self, place: usize, own: &mut C) {
        while let Some(job) = self.next(place) {
            // A panic in one call is that caller's loss: its answer channel closes. The others go on.
            if std::panic::catch_unwind(AssertUnwindSafe(|| job(own))).is_err() {
                tracing::error!("a call to the store panicked");
            }
        }
    }

    fn next(&self, place: usize) -> Option<Job<C>> {
        let mut waiting = self.lock();
        loop {
            if let Some((bytes, job)) = waiting.jobs.pop_front() {
                waiting.bytes -= bytes;
                // It may have woken spontaneously, and no longer counts as idle.
                waiting.resting.retain(|resting| *resting != place);
                return Some(job);
            }
            if waiting.closed {
                return None;
            }
            if !waiting.resting.contains(&place) {
                waiting.resting.push(place);
            }
            waiting = self.changed[place].wait(waiting).expect("nothing panics while it holds the queue");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use recount_log_conformance::block_on;

    use super::*;

    const BOUNDS: WaitingBounds = WaitingBounds { count: 3, bytes: 10 };

    #[test]
    fn a_full_queue_refuses_and_accepted_work_is_done_after_close() {
        let (pool, threads) = Pool::start("test", BOUNDS, vec![0_u32], &());
        let (go, gate) = mpsc::channel::<()>();
        let (started, running) = mpsc::channel();
        let first = pool.ask(0, move |_| {
            started.send(()).unwrap();
            gate.recv().unwrap();
            Ok(())
        });
        running.recv().unwrap();
        let waiting: Vec<_> = (0..3).map(|_| pool.ask(0, |turns| Ok(std::mem::replace(turns, 1)))).collect();
        let refused = block_on(pool.ask(0, |_| Ok(()))).unwrap_err();
        assert_eq!(refused.kind, FaultKind::Busy);
        pool.close();
        go.send(()).unwrap();
        assert_eq!(block_on(first), Ok(()));
        assert!(waiting.into_iter().map(block_on).all(|answer| answer.is_ok()));
        assert_eq!(block_on(pool.ask(0, |_| Ok(()))).unwrap_err().kind, FaultKind::Closed);
        assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    }

    #[test]
    fn bytes_that_wait_are_bounded_but_one_heavy_call_alone_is_taken() {
        let (pool, _threads) = Pool::start("test", BOUNDS, vec![()], &());
        let (go, gate) = mpsc::channel::<()>();
        let (started, running) = mpsc::channel();
        let first = pool.ask(0, move |()| {
            started.send(()).unwrap();
            gate.recv().unwrap();
            Ok(())
        });
        running.recv().unwrap();
        let heavy = pool.ask(100, |()| Ok(()));
        let refused = block_on(pool.ask(1, |()| Ok(()))).unwrap_err();
        assert_eq!(refused.kind, FaultKind::Busy);
        go.send(()).unwrap();
        assert_eq!((block_on(first), block_on(heavy)), (Ok(()), Ok(())));
        assert_eq!(block_on(pool.ask(1, |()| Ok(()))), Ok(()));
        pool.close();
    }

    #[test]
    fn a_panic_costs_one_call() {
        let (pool, _threads) = Pool::start("test", BOUNDS, vec![()], &());
        let lost = block_on(pool.ask(0, |()| -> Result<(), Fault> { panic!("as the test wants it") }));
        assert_eq!(lost.unwrap_err().kind, FaultKind::Io);
        assert_eq!(block_on(pool.ask(0, |()| Ok(7))), Ok(7));
        pool.close();
    }

    /// One call after the other is done by one thread: what it owns is at hand.
    #[test]
    fn who_rested_last_goes_on() {
        let (pool, threads) = Pool::start("test", BOUNDS, vec![0_u32; 3], &());
        let resting = |count| {
            while pool.queue.lock().resting.len() < count {
                std::thread::yield_now();
            }
        };
        for turn in 0..20 {
            resting(3);
            let turns = block_on(pool.ask(0, |turns| {
                *turns += 1;
                Ok(*turns)
            }));
            assert_eq!(turns, Ok(turn + 1));
        }
        pool.close();
        assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    }
}
