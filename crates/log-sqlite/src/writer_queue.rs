//! The queue of the writer: bounded, in order, taken as a whole; and how long the writer waits for more of it.
//!
//! It takes one lock for each append and two for each group, and wakes the writer's thread only when that sleeps. A
//! task counts until it is part of a group. It must not know what a task does. See [`WriterQueue`] and [`GroupCommitPolicy`].

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use recount_log::limits::{APPENDS_WAITING_BYTES_MAX, APPENDS_WAITING_MAX};
use recount_log::{Fault, FaultKind, Retry};

use crate::fault::{closed, stopped};
use crate::limits::{GROUP_WAIT_COMMITS, GROUP_WAIT_DIVISOR, GROUP_WAIT_LESS_DIVISOR, GROUP_WAIT_MAX};

/// The queued tasks, with their bytes.
pub(crate) struct WriterQueue<T>(Mutex<QueueInner<T>>);

struct QueueInner<T> {
    tasks: VecDeque<T>,
    /// Tasks that are not in a group yet, here or with the writer.
    count: usize,
    bytes: usize,
    state: QueueState,
    /// The sleeping writer, and how many tasks wake it.
    asleep: Option<(Thread, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueState {
    Open,
    /// Takes no new tasks; the writer finishes the queued ones.
    Closed,
    /// The writer has stopped.
    Abandoned,
}

/// The result of [`WriterQueue::take`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TakeResult {
    Tasks,
    Nothing,
    /// The queue is empty and closed.
    End,
}

impl<T> WriterQueue<T> {
    pub(crate) fn new() -> Self {
        let (tasks, asleep) = (VecDeque::new(), None);
        WriterQueue(Mutex::new(QueueInner { tasks, count: 0, bytes: 0, state: QueueState::Open, asleep }))
    }

    fn lock(&self) -> MutexGuard<'_, QueueInner<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- for clients of the store ----

    /// Adds a task at the end.
    pub(crate) fn push(&self, task: T, bytes: usize) -> Result<(), Fault> {
        let mut inner = self.lock();
        match inner.state {
            QueueState::Open => {}
            QueueState::Closed => return Err(closed()),
            QueueState::Abandoned => return Err(stopped()),
        }
        if inner.count >= APPENDS_WAITING_MAX {
            return Err(busy(&format!("{APPENDS_WAITING_MAX} appends")));
        }
        if inner.bytes > 0 && inner.bytes + bytes > APPENDS_WAITING_BYTES_MAX {
            return Err(busy(&format!("{} bytes", inner.bytes)));
        }
        inner.count += 1;
        inner.bytes += bytes;
        inner.tasks.push_back(task);
        let here = inner.tasks.len();
        let asleep = inner.asleep.take_if(|(_, count)| here >= *count);
        drop(inner);
        if let Some((writer, _)) = asleep {
            writer.unpark();
        }
        Ok(())
    }

    /// Refuses new tasks from now on.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        if inner.state == QueueState::Open {
            inner.state = QueueState::Closed;
        }
        if let Some((writer, _)) = inner.asleep.take() {
            writer.unpark();
        }
    }

    // ---- for the writer ----

    /// Waits until so many tasks are queued, at most so long.
    pub(crate) fn gather(&self, count: usize, wait: Duration) {
        {
            let mut inner = self.lock();
            if inner.tasks.len() >= count || inner.state != QueueState::Open {
                return;
            }
            inner.asleep = Some((std::thread::current(), count));
        }
        // After a spurious wake-up it takes fewer.
        std::thread::park_timeout(wait);
    }

    /// Moves all queued tasks to the end of `tasks`. With `sleeps` the writer announces that it will
    /// sleep if the queue is empty.
    pub(crate) fn take(&self, tasks: &mut VecDeque<T>, sleeps: bool) -> TakeResult {
        let mut inner = self.lock();
        if inner.tasks.is_empty() {
            if inner.state != QueueState::Open {
                return TakeResult::End;
            }
            inner.asleep = sleeps.then(|| (std::thread::current(), 1));
            return TakeResult::Nothing;
        }
        inner.asleep = None;
        if tasks.is_empty() {
            std::mem::swap(&mut inner.tasks, tasks);
        } else {
            tasks.append(&mut inner.tasks);
        }
        TakeResult::Tasks
    }

    /// Sleeps until a task arrives, at most so long; only after a `take` with `sleeps`.
    pub(crate) fn sleep(wait: Option<Duration>) {
        match wait {
            Some(wait) => std::thread::park_timeout(wait),
            None => std::thread::park(),
        }
    }

    /// Releases the slots of tasks that are in a group now.
    pub(crate) fn release(&self, count: usize, bytes: usize) {
        let mut inner = self.lock();
        inner.count = inner.count.saturating_sub(count);
        inner.bytes = inner.bytes.saturating_sub(bytes);
    }

    /// Marks the queue as without a writer; queued tasks get no reply.
    pub(crate) fn abandon(&self) {
        let dropped = {
            let mut inner = self.lock();
            inner.state = QueueState::Abandoned;
            std::mem::take(&mut inner.tasks)
        };
        drop(dropped);
    }
}

/// Group commit: whether the writer waits, before it begins a commit, for appends that are about to come.
///
/// A commit costs nearly as much for one append as for thirty: a sync and a few pages. So waiting for more appends pays
/// under many concurrent clients, and only costs time under few. The number of clients is estimated: when the writer
/// was busy for longer (a slow sync, a sealing), the queue length afterwards is the number of concurrent appends. The
/// writer then waits for a part of that number, for at most a few commits. After a wait in vain it lowers the estimate.
///
/// A single client never waits, except for a few commits after many clients have stopped.
#[derive(Debug, Default)]
pub(crate) struct GroupCommitPolicy {
    /// The recent number of concurrent appends.
    at_once: usize,
    /// How long the last commit took.
    took: Duration,
}

impl GroupCommitPolicy {
    /// The queue length to wait for before a commit, and how long; `None`: commit now.
    pub(crate) fn wait_target(&self) -> Option<(usize, Duration)> {
        let count = self.at_once / GROUP_WAIT_DIVISOR;
        (count > 1).then(|| (count, (self.took * GROUP_WAIT_COMMITS).min(GROUP_WAIT_MAX)))
    }

    /// Records the queue length when it was taken.
    pub(crate) fn record_queue(&mut self, count: usize) {
        if self.wait_target().is_some_and(|(wanted, _)| count < wanted) {
            self.at_once -= self.at_once.div_ceil(GROUP_WAIT_LESS_DIVISOR);
        }
        self.at_once = self.at_once.max(count);
    }

    pub(crate) fn committed(&mut self, took: Duration) {
        self.took = took;
    }
}

fn busy(what: &str) -> Fault {
    let message = format!("{what} are waiting for the store's writer; try again shortly");
    Fault::new(FaultKind::Busy, Retry::Maybe, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_tasks_count_until_they_are_released() {
        let queue = WriterQueue::new();
        let mut mine = VecDeque::new();
        assert_eq!(queue.take(&mut mine, false), TakeResult::Nothing);
        (0..APPENDS_WAITING_MAX).for_each(|n| queue.push(n, 1).unwrap());
        assert_eq!(queue.push(0, 1).unwrap_err().kind, FaultKind::Busy);
        assert_eq!(queue.take(&mut mine, false), TakeResult::Tasks);
        assert_eq!(mine.len(), APPENDS_WAITING_MAX);
        assert_eq!(queue.push(0, 1).unwrap_err().kind, FaultKind::Busy);
        queue.release(1, 1);
        queue.push(7, 1).unwrap();
        queue.close();
        assert_eq!(queue.push(0, 1).unwrap_err().kind, FaultKind::Closed);
        assert_eq!(queue.take(&mut mine, false), TakeResult::Tasks);
        assert_eq!(mine.back(), Some(&7), "in order, after the tasks already taken");
        assert_eq!(queue.take(&mut mine, true), TakeResult::End);
    }

    #[test]
    fn the_writer_waits_for_the_target_or_the_timeout() {
        let queue = std::sync::Arc::new(WriterQueue::new());
        let others = |count: usize, closes: bool| {
            let queue = queue.clone();
            recount_world::thread("others", move || {
                while queue.lock().asleep.is_none() {
                    std::thread::yield_now();
                }
                (0..count).for_each(|n| queue.push(n, 1).unwrap());
                if closes {
                    queue.close();
                }
            })
        };
        let mut mine = VecDeque::new();
        for (count, closes) in [(5, false), (2, true)] {
            let other = others(count, closes);
            queue.gather(5, Duration::from_secs(600));
            other.join().unwrap();
            queue.take(&mut mine, false);
            assert_eq!(mine.drain(..).count(), count);
        }
        queue.gather(5, Duration::from_secs(600));
    }

    #[test]
    fn an_oversized_task_is_accepted_when_the_queue_is_empty() {
        let queue = WriterQueue::new();
        queue.push((), APPENDS_WAITING_BYTES_MAX + 1).unwrap();
        assert_eq!(queue.push((), 1).unwrap_err().kind, FaultKind::Busy);
        queue.abandon();
        assert_eq!(queue.push((), 1).unwrap_err().kind, FaultKind::Closed);
    }

    const COMMIT: Duration = Duration::from_micros(100);

    fn after(counts: &[usize]) -> GroupCommitPolicy {
        let mut policy = GroupCommitPolicy::default();
        for count in counts {
            policy.record_queue(*count);
            policy.committed(COMMIT);
        }
        policy
    }

    #[test]
    fn few_clients_cause_no_wait() {
        for counts in [&[][..], &[1], &[1, 1, 2, 1], &[4, 2, 5, 1]] {
            assert_eq!(after(counts).wait_target(), None, "{counts:?}");
        }
    }

    #[test]
    fn many_clients_cause_a_wait_of_a_few_commits() {
        assert_eq!(after(&[3, 60, 20, 30]).wait_target(), Some((20, COMMIT * GROUP_WAIT_COMMITS)));
        let mut slow = after(&[60]);
        slow.committed(Duration::from_secs(3));
        assert_eq!(slow.wait_target(), Some((20, GROUP_WAIT_MAX)));
    }

    #[test]
    fn after_many_clients_a_single_one_waits_a_few_times_and_then_never_again() {
        let mut policy = after(&[4096]);
        let mut waits = 0;
        while policy.wait_target().is_some() {
            policy.record_queue(1);
            waits += 1;
        }
        assert_eq!(waits, 23);
        policy.record_queue(1);
        assert_eq!(policy.wait_target(), None);
    }

    #[test]
    fn the_wait_target_is_at_most_a_part_of_the_maximum() {
        for most in 0..5000 {
            let policy = after(&[most / 2, most, most / 3]);
            match policy.wait_target() {
                Some((wanted, _)) => {
                    assert!(wanted > 1 && wanted <= most / GROUP_WAIT_DIVISOR, "{wanted} of {most}")
                }
                None => assert!(most < 2 * GROUP_WAIT_DIVISOR, "{most}"),
            }
        }
    }
}
