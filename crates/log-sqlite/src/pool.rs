//! A thread pool: a few threads that each own a resource (a connection, the blob folder) and share one bounded queue.
//!
//! Results arrive through a channel that needs no runtime. It must not know the jobs.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use recount_log::{Answer, Fault, FaultKind, Retry};
use tokio::sync::oneshot;

use crate::fault::closed;

type Job<C> = Box<dyn FnOnce(&mut C) + Send>;

/// The bounds of the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingBounds {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

/// The handle of the pool. Closing it ends the threads after the accepted work.
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
    idle: Vec<usize>,
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
                idle: Vec::with_capacity(owned.len()),
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

    /// Queues a job that weighs `bytes`. It is queued now, not when the result is awaited.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut C) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<T> {
        let (sender, receiver) = oneshot::channel();
        let job: Job<C> = Box::new(move |own| {
            if !sender.is_closed() {
                // The caller may stop waiting at any time.
                drop(sender.send(work(own)));
            }
        });
        if let Err(fault) = self.enqueue(bytes, job) {
            return Box::pin(std::future::ready(Err(fault)));
        }
        let name = self.name;
        Box::pin(async move {
            let closed = |_| {
                Fault::new(FaultKind::Io, Retry::Maybe, format!("a thread of {name} failed during this call"))
            };
            receiver.await.unwrap_or_else(|error| Err(closed(error)))
        })
    }

    fn enqueue(&self, bytes: usize, job: Job<C>) -> Result<(), Fault> {
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
        let rested = waiting.idle.pop();
        drop(waiting);
        if let Some(thread) = rested {
            self.queue.changed[thread].notify_one();
        }
        Ok(())
    }
}

impl<C> Pool<C> {
    /// Refuses further work. The threads end after the accepted work.
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
            // A panic affects only one caller, whose channel closes. The thread continues.
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
                // A spuriously woken thread no longer counts as idle.
                waiting.idle.retain(|idle| *idle != place);
                return Some(job);
            }
            if waiting.closed {
                return None;
            }
            if !waiting.idle.contains(&place) {
                waiting.idle.push(place);
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
        let first = pool.call(0, move |_| {
            started.send(()).unwrap();
            gate.recv().unwrap();
            Ok(())
        });
        running.recv().unwrap();
        let waiting: Vec<_> = (0..3).map(|_| pool.call(0, |turns| Ok(std::mem::replace(turns, 1)))).collect();
        let refused = block_on(pool.call(0, |_| Ok(()))).unwrap_err();
        assert_eq!(refused.kind, FaultKind::Busy);
        pool.close();
        go.send(()).unwrap();
        assert_eq!(block_on(first), Ok(()));
        assert!(waiting.into_iter().map(block_on).all(|answer| answer.is_ok()));
        assert_eq!(block_on(pool.call(0, |_| Ok(()))).unwrap_err().kind, FaultKind::Closed);
        assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    }

    #[test]
    fn bytes_that_wait_are_bounded_but_one_heavy_call_alone_is_taken() {
        let (pool, _threads) = Pool::start("test", BOUNDS, vec![()], &());
        let (go, gate) = mpsc::channel::<()>();
        let (started, running) = mpsc::channel();
        let first = pool.call(0, move |()| {
            started.send(()).unwrap();
            gate.recv().unwrap();
            Ok(())
        });
        running.recv().unwrap();
        let heavy = pool.call(100, |()| Ok(()));
        let refused = block_on(pool.call(1, |()| Ok(()))).unwrap_err();
        assert_eq!(refused.kind, FaultKind::Busy);
        go.send(()).unwrap();
        assert_eq!((block_on(first), block_on(heavy)), (Ok(()), Ok(())));
        assert_eq!(block_on(pool.call(1, |()| Ok(()))), Ok(()));
        pool.close();
    }

    #[test]
    fn a_panic_costs_one_call() {
        let (pool, _threads) = Pool::start("test", BOUNDS, vec![()], &());
        let lost = block_on(pool.call(0, |()| -> Result<(), Fault> { panic!("intended by the test") }));
        assert_eq!(lost.unwrap_err().kind, FaultKind::Io);
        assert_eq!(block_on(pool.call(0, |()| Ok(7))), Ok(7));
        pool.close();
    }

    /// Successive calls use one thread, whose caches are warm.
    #[test]
    fn the_last_idle_thread_continues() {
        let (pool, threads) = Pool::start("test", BOUNDS, vec![0_u32; 3], &());
        let idle = |count| {
            while pool.queue.lock().idle.len() < count {
                std::thread::yield_now();
            }
        };
        for turn in 0..20 {
            idle(3);
            let turns = block_on(pool.call(0, |turns| {
                *turns += 1;
                Ok(*turns)
            }));
            assert_eq!(turns, Ok(turn + 1));
        }
        pool.close();
        assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    }
}
