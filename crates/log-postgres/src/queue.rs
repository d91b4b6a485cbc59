//! The queue of the writer: bounded, in order. It must not know how tasks are carried out.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use recount_log::limits::{
    APPENDS_WAITING_BYTES_MAX, APPENDS_WAITING_MAX, GROUP_APPENDS_MAX, GROUP_BYTES_MAX,
};
use recount_log::{Append, AppendError, Committed, Fault, RowRepair};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::fault::{busy, closed};

pub(crate) enum Task {
    Append(Job),
    Repair(RowRepair, oneshot::Sender<Result<bool, Fault>>),
}

pub(crate) struct Job {
    pub(crate) append: Append,
    pub(crate) since: Instant,
    pub(crate) result: oneshot::Sender<Result<Committed, AppendError>>,
}

impl Task {
    /// Whether it is carried out by itself: what it removes must not be part of the same group.
    fn is_alone(&self) -> bool {
        match self {
            Task::Append(job) => !job.append.cuts.is_empty() || !job.append.erased.is_empty(),
            Task::Repair(..) => true,
        }
    }

    pub(crate) fn fail(self, fault: Fault) {
        // The caller may have stopped waiting.
        match self {
            Task::Append(job) => drop(job.result.send(Err(fault.into()))),
            Task::Repair(_, result) => drop(result.send(Err(fault))),
        }
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    tasks: VecDeque<(Task, usize)>,
    bytes: usize,
    /// Why no further task is accepted.
    refusal: Option<Fault>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, task: Task, bytes: usize) -> Result<(), Fault> {
        let mut waiting = self.lock();
        if let Some(fault) = &waiting.refusal {
            return Err(fault.clone());
        }
        if waiting.tasks.len() >= APPENDS_WAITING_MAX {
            return Err(busy(format!(
                "{APPENDS_WAITING_MAX} appends are waiting for the store's writer; try again shortly"
            )));
        }
        if waiting.bytes > 0 && waiting.bytes + bytes > APPENDS_WAITING_BYTES_MAX {
            return Err(busy(format!(
                "{} bytes are waiting for the store's writer; try again shortly",
                waiting.bytes
            )));
        }
        waiting.bytes += bytes;
        waiting.tasks.push_back((task, bytes));
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Refuses further tasks; the writer still gets those that are queued.
    pub(crate) fn close(&self) {
        self.lock().refusal.get_or_insert_with(closed);
        self.arrived.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().refusal.is_some()
    }

    /// Refuses further tasks, and fails those that are queued. The first reason to refuse stays.
    pub(crate) fn abandon(&self, fault: &Fault) {
        self.lock().refusal.get_or_insert_with(|| fault.clone());
        self.fail_waiting(fault);
        self.arrived.notify_one();
    }

    /// Fails the queued tasks.
    pub(crate) fn fail_waiting(&self, fault: &Fault) {
        let tasks = {
            let mut waiting = self.lock();
            waiting.bytes = 0;
            std::mem::take(&mut waiting.tasks)
        };
        tasks.into_iter().for_each(|(task, _)| task.fail(fault.clone()));
    }

    /// The tasks of the next group, in order; empty if none is queued.
    pub(crate) fn take_now(&self) -> Vec<Task> {
        self.lock().next_group()
    }

    /// The same, waiting for the first; `None` when the queue is closed and empty.
    pub(crate) async fn take(&self) -> Option<Vec<Task>> {
        loop {
            {
                let mut waiting = self.lock();
                let group = waiting.next_group();
                if !group.is_empty() {
                    return Some(group);
                }
                if waiting.refusal.is_some() {
                    return None;
                }
            }
            self.arrived.notified().await;
        }
    }
}

impl Waiting {
    fn next_group(&mut self) -> Vec<Task> {
        let (mut group, mut group_bytes) = (Vec::new(), 0);
        while let Some((task, bytes)) = self.tasks.front() {
            let (alone, bytes) = (task.is_alone(), *bytes);
            let fits = group.len() < GROUP_APPENDS_MAX && group_bytes + bytes <= GROUP_BYTES_MAX && !alone;
            if !group.is_empty() && !fits {
                break;
            }
            let Some((task, _)) = self.tasks.pop_front() else { break };
            self.bytes -= bytes;
            group_bytes += bytes;
            group.push(task);
            if alone {
                break;
            }
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use recount_log::{Cut, FaultKind};

    use super::*;

    fn task(cuts: bool) -> Task {
        let cuts = if cuts { vec![Cut { stream: "a".into(), keep_from: 0 }] } else { Vec::new() };
        let append = Append { cuts, ..Append::default() };
        Task::Append(Job { append, since: recount_world::moment(), result: oneshot::channel().0 })
    }

    #[tokio::test]
    async fn groups_are_bounded_and_a_removal_is_a_group_of_its_own() {
        let queue = Queue::default();
        for (cuts, bytes) in
            [(false, 1), (false, 1), (true, 1), (false, GROUP_BYTES_MAX), (false, 1), (false, 1)]
        {
            queue.push(task(cuts), bytes).unwrap();
        }
        queue.close();
        assert_eq!(queue.push(task(false), 1).unwrap_err().kind, FaultKind::Closed);
        let mut sizes = Vec::new();
        while let Some(group) = queue.take().await {
            sizes.push(group.len());
        }
        assert_eq!(sizes, [2, 1, 1, 2]);
    }

    #[tokio::test]
    async fn a_full_queue_refuses_and_an_abandoned_one_fails_what_waits() {
        let queue = Queue::default();
        queue.push(task(false), APPENDS_WAITING_BYTES_MAX + 1).unwrap();
        assert_eq!(queue.push(task(false), 1).unwrap_err().kind, FaultKind::Busy);
        assert_eq!(
            queue.take().await.unwrap().len(),
            1,
            "one that is too large is accepted when nothing waits"
        );
        (0..APPENDS_WAITING_MAX).for_each(|_| queue.push(task(false), 0).unwrap());
        assert_eq!(queue.push(task(false), 0).unwrap_err().kind, FaultKind::Busy);
        let (result, failed) = oneshot::channel();
        queue.fail_waiting(&closed());
        let job = Job { append: Append::default(), since: recount_world::moment(), result };
        queue.push(Task::Append(job), 0).unwrap();
        queue.abandon(&crate::fault::fenced("s"));
        assert!(
            matches!(failed.await.unwrap(), Err(AppendError::Fault(fault)) if fault.kind == FaultKind::Fenced)
        );
        queue.abandon(&closed());
        assert_eq!(queue.push(task(false), 0).unwrap_err().kind, FaultKind::Fenced, "the first reason stays");
        assert!(queue.take().await.is_none());
    }
}
