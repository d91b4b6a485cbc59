//! The newest events of a projection, bounded in bytes. Must not depend on the content of events. Start with
//! [`Window::from`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Projected;
use crate::limits;
use crate::project::Place;

/// The bytes of all windows together.
#[derive(Default)]
pub(super) struct Budget(AtomicUsize);

impl Budget {
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A queue of events, numbered from the oldest.
pub(super) struct Window {
    queue: VecDeque<Arc<Projected>>,
    /// The number of the oldest event in the window, or of the next event.
    first: u64,
    bytes: usize,
    bytes_max: usize,
    budget: Arc<Budget>,
    /// Whether events are kept at all.
    keeps: bool,
}

impl Window {
    pub(super) fn new(bytes_max: usize, budget: Arc<Budget>, keeps: bool) -> Self {
        Window { queue: VecDeque::new(), first: 0, bytes: 0, bytes_max, budget, keeps }
    }

    /// The number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    /// Keeps later events: a reader has joined.
    pub(super) fn keep(&mut self) {
        self.keeps = true;
    }

    pub(super) fn push(&mut self, event: Arc<Projected>) {
        if !self.keeps {
            self.first += 1;
            return;
        }
        self.bytes += event.bytes;
        self.budget.0.fetch_add(event.bytes, Ordering::Relaxed);
        self.queue.push_back(event);
        let full = |window: &Window| {
            window.bytes > window.bytes_max || window.budget.bytes() > limits::PROJECTED_BYTES_MAX
        };
        while self.queue.len() > 1 && full(self) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.queue.pop_front() {
            self.first += 1;
            self.bytes -= oldest.bytes;
            self.budget.0.fetch_sub(oldest.bytes, Ordering::Relaxed);
        }
    }

    /// The events in the window.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Arc<Projected>> {
        self.queue.iter()
    }

    /// Some events from a number on; `None` if the first of them has left the window.
    pub(super) fn from(&self, number: u64) -> Option<Vec<Arc<Projected>>> {
        let skip = usize::try_from(number.checked_sub(self.first)?).ok()?;
        Some(self.queue.iter().skip(skip).take(limits::BATCH_EVENTS_MAX).cloned().collect())
    }

    /// The number of the first event of a run after a place; `None` if that event may have left the window.
    pub(super) fn after(&self, place: Place) -> Option<u64> {
        let before = self.queue.partition_point(|event| event.place <= place) as u64;
        (before > 0 || self.first == 0).then_some(self.first + before)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
