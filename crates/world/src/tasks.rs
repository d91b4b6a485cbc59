//! The task tree: every task has a kind, and the kind decides how it ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

/// The kind of a task. Shutdown ends kinds in this order: services first (no new input),
/// then connections, effects, and writers last, so that accepted commands are still written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A listener or a sweeper; it gets the stop signal and may finish what it does.
    Service,
    /// One client's connection or stream.
    Connection,
    /// Work outside of the store that a run waits for, such as a tool call.
    Effect,
    /// The one writer of an awake run; finishes its current append.
    Writer,
}

const KINDS: [Kind; 4] = [Kind::Service, Kind::Connection, Kind::Effect, Kind::Writer];

/// The task tree. Cheap to clone.
#[derive(Clone)]
pub struct Tasks {
    inner: Arc<Inner>,
}

struct Inner {
    groups: [Group; 4],
    blocking: Arc<tokio::sync::Semaphore>,
    abandoned: Arc<tokio::sync::Semaphore>,
}

/// Waits for work that goes on without it.
struct Caller {
    abandon: Option<oneshot::Sender<OwnedSemaphorePermit>>,
    places: Arc<tokio::sync::Semaphore>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        // Without a place the sender is dropped, and the work with it. The work may have ended.
        if let (Some(abandon), Ok(place)) = (self.abandon.take(), self.places.clone().try_acquire_owned()) {
            drop(abandon.send(place));
        }
    }
}

/// Work of another task or thread panicked; the panic is reported like all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

struct Group {
    stop: watch::Sender<bool>,
    alive: AtomicUsize,
    ended: tokio::sync::Notify,
}

/// Signals a task that its kind is being ended. Cheap to clone.
#[derive(Clone)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Returns when the task should end.
    pub async fn requested(&mut self) {
        if self.0.wait_for(|stop| *stop).await.is_err() {
            // The tree itself was dropped, which also means to stop.
        }
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }
}

impl Tasks {
    #[expect(clippy::new_without_default, reason = "each world creates exactly one tree")]
    pub fn new() -> Self {
        let blocking = Arc::new(tokio::sync::Semaphore::new(crate::limits::BLOCKING_MAX));
        let abandoned = Arc::new(tokio::sync::Semaphore::new(crate::limits::ABANDONED_MAX));
        Tasks::with_limits(blocking, abandoned)
    }

    fn with_limits(blocking: Arc<tokio::sync::Semaphore>, abandoned: Arc<tokio::sync::Semaphore>) -> Self {
        let group = || Group {
            stop: watch::channel(false).0,
            alive: AtomicUsize::new(0),
            ended: tokio::sync::Notify::new(),
        };
        Tasks { inner: Arc::new(Inner { groups: [group(), group(), group(), group()], blocking, abandoned }) }
    }

    /// A tree that ends on its own. Both share their limits of blocking and abandoned work.
    #[must_use]
    pub fn separate(&self) -> Self {
        let Inner { blocking, abandoned, .. } = &*self.inner;
        Tasks::with_limits(blocking.clone(), abandoned.clone())
    }

    fn group(&self, kind: Kind) -> &Group {
        &self.inner.groups[kind as usize]
    }

    /// Starts a task. It receives the signal of its kind and must end soon after that is given.
    pub fn spawn<F>(&self, kind: Kind, body: impl FnOnce(Shutdown) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Counted from here on, so that a kind that is ended meanwhile waits for it.
        let guard = self.enter(kind);
        self.spawn_boxed(Box::pin(body(self.shutdown_signal(kind))), guard);
    }

    /// Starts a task that is dropped when the shutdown of its kind is requested.
    pub fn spawn_until_shutdown(&self, kind: Kind, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn(kind, |mut shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = work => {}
            }
        });
    }

    /// Boxed, so that the runtime's code for tasks is compiled once and not for each future.
    #[expect(clippy::disallowed_methods, reason = "the only place that spawns tasks")]
    fn spawn_boxed(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>, guard: AliveGuard) {
        tokio::spawn(counted(future, guard));
    }

    fn enter(&self, kind: Kind) -> AliveGuard {
        self.group(kind).alive.fetch_add(1, Ordering::SeqCst);
        AliveGuard { tree: self.clone(), kind }
    }

    /// Runs a short piece of blocking work, such as reading a file, outside the runtime's own threads. It
    /// counts as alive until it ends, even if its result is no longer awaited, so it must end by itself.
    /// Paused time does not advance meanwhile.
    pub async fn block<T: Send + 'static>(
        &self,
        kind: Kind,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        let turn = self.inner.blocking.clone().acquire_owned().await.map_err(|_| Panicked)?;
        let guard = self.enter(kind);
        let done = tokio::task::spawn_blocking(move || {
            let _held = (guard, turn);
            body()
        });
        done.await.map_err(|_| Panicked)
    }

    /// Runs work to its end, also if the caller stops waiting, as long as not too much of it was abandoned.
    pub async fn finish<T: Send + 'static>(
        &self,
        kind: Kind,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Panicked> {
        let (result, done) = oneshot::channel();
        let (abandon, mut abandoned) = oneshot::channel();
        let _caller = Caller { abandon: Some(abandon), places: self.inner.abandoned.clone() };
        self.spawn(kind, |_| async move {
            let mut work = std::pin::pin!(work);
            let _place = tokio::select! {
                finished = &mut work => return drop(result.send(finished)),
                place = &mut abandoned => match place {
                    Ok(place) => place,
                    Err(_) => return,
                },
            };
            work.await;
        });
        done.await.map_err(|_| Panicked)
    }

    pub fn shutdown_signal(&self, kind: Kind) -> Shutdown {
        Shutdown(self.group(kind).stop.subscribe())
    }

    pub fn alive(&self, kind: Kind) -> usize {
        self.group(kind).alive.load(Ordering::SeqCst)
    }

    /// Signals one kind to end and waits for at most `patience`. Returns the number of tasks that are still alive.
    pub async fn end(&self, kind: Kind, patience: Duration) -> usize {
        let group = self.group(kind);
        group.stop.send_replace(true);
        let all_ended = async {
            loop {
                let ended = group.ended.notified();
                if self.alive(kind) == 0 {
                    return;
                }
                ended.await;
            }
        };
        match tokio::time::timeout(patience, all_ended).await {
            Ok(()) => 0,
            Err(_) => self.alive(kind),
        }
    }

    /// Ends all kinds in order, each with the same `patience`. Returns the number of tasks that did not end.
    pub async fn end_all(&self, patience: Duration) -> usize {
        let mut alive = 0;
        for kind in KINDS {
            alive += self.end(kind, patience).await;
        }
        alive
    }
}

/// Uncounts a task when it ends. Not an `async` block, because that would store the future twice, and there are thousands
/// of tasks.
fn counted<F: Future<Output = ()>>(task: F, guard: AliveGuard) -> impl Future<Output = ()> {
    task.map(move |()| drop(guard))
}

/// Uncounts a task when dropped, so also after a panic.
struct AliveGuard {
    tree: Tasks,
    kind: Kind,
}

impl Drop for AliveGuard {
    fn drop(&mut self) {
        let group = self.tree.group(self.kind);
        group.alive.fetch_sub(1, Ordering::SeqCst);
        group.ended.notify_waiters();
    }
}

/// Starts an operating-system thread, for work that blocks. The caller owns its end.
pub fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
    #[expect(clippy::disallowed_methods, reason = "the only place that spawns tasks")]
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .expect("the operating system can start a thread while the program starts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_is_finished_without_its_caller_unless_too_much_was_abandoned() {
        let tasks = Tasks::new();
        let (go, waits) = watch::channel(false);
        let (finished, count) = (Arc::new(AtomicUsize::new(0)), crate::limits::ABANDONED_MAX + 5);
        for _ in 0..count {
            let (mut waits, finished) = (waits.clone(), finished.clone());
            let work = tasks.finish(Kind::Connection, async move {
                waits.wait_for(|go| *go).await.unwrap();
                finished.fetch_add(1, Ordering::SeqCst)
            });
            assert!(
                tokio::time::timeout(Duration::from_secs(1), work).await.is_err(),
                "the caller stops waiting"
            );
        }
        while tasks.alive(Kind::Connection) > crate::limits::ABANDONED_MAX {
            tokio::task::yield_now().await;
        }
        go.send_replace(true);
        assert_eq!(tasks.end(Kind::Connection, Duration::from_secs(5)).await, 0);
        assert_eq!(finished.load(Ordering::SeqCst), crate::limits::ABANDONED_MAX);
        assert_eq!(tasks.finish(Kind::Connection, async { 7 }).await, Ok(7));
        assert_eq!(
            tasks.finish(Kind::Connection, async { panic!("as the test demands") }).await,
            Err::<(), _>(Panicked)
        );
    }

    #[tokio::test]
    async fn ending_a_kind_waits_for_its_tasks_and_no_others() {
        let tasks = Tasks::new();
        let (done, mut finished) = watch::channel(0);
        tasks.spawn(Kind::Writer, |mut shutdown| async move {
            shutdown.requested().await;
            done.send_replace(1);
        });
        assert_eq!(tasks.end(Kind::Service, Duration::from_secs(5)).await, 0);
        assert_eq!(*finished.borrow_and_update(), 0, "the writer has no signal yet");
        assert_eq!(tasks.end(Kind::Writer, Duration::from_secs(5)).await, 0);
        assert_eq!(*finished.borrow_and_update(), 1);
    }

    #[tokio::test]
    async fn a_task_is_uncounted_however_it_ends_and_its_future_is_stored_once() {
        let tasks = Tasks::new();
        let guard = || {
            tasks.group(Kind::Effect).alive.fetch_add(1, Ordering::SeqCst);
            AliveGuard { tree: tasks.clone(), kind: Kind::Effect }
        };
        let large = async |much: [u8; 4096]| {
            std::future::pending::<()>().await;
            assert_eq!(much.len(), 4096);
        };
        let task = large([0; 4096]);
        let (its_own, counting) = (size_of_val(&task), counted(task, guard()));
        assert!(size_of_val(&counting) < its_own + 64, "{} for {its_own}", size_of_val(&counting));
        assert_eq!(tasks.alive(Kind::Effect), 1);
        drop(counting);
        assert_eq!(tasks.alive(Kind::Effect), 0);
        counted(async {}, guard()).await;
        assert_eq!(tasks.alive(Kind::Effect), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_blocks_is_counted_until_it_ends_and_stops_paused_time() {
        let tasks = Tasks::new();
        let before = crate::moment();
        assert_eq!(tasks.block(Kind::Effect, || 7).await, Ok(7));
        assert_eq!(before.elapsed(), Duration::ZERO);
        let (release, held) = std::sync::mpsc::sync_channel::<()>(1);
        let mut work = Box::pin(tasks.block(Kind::Effect, move || held.recv().is_ok()));
        assert!(futures_poll(&mut work).is_pending());
        drop(work);
        assert_eq!(tasks.alive(Kind::Effect), 1, "it continues although its result is no longer awaited");
        release.send(()).unwrap();
        assert_eq!(tasks.end(Kind::Effect, Duration::from_secs(5)).await, 0);
        assert_eq!(tasks.block(Kind::Effect, || panic!("on purpose")).await, Err::<(), _>(Panicked));
        assert_eq!(tasks.alive(Kind::Effect), 0);
    }

    fn futures_poll<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
        std::pin::Pin::new(future).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_counted() {
        let tasks = Tasks::new();
        tasks.spawn(Kind::Effect, |_| std::future::pending());
        assert_eq!(tasks.end_all(Duration::from_secs(1)).await, 1);
    }
}
