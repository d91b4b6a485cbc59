//! Counts what is held at once, against a bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts something for as long as it lives.
pub(crate) struct Counted(Arc<AtomicUsize>, usize);

impl Counted {
    /// `None` beyond the bound.
    pub(crate) fn within(counter: &Arc<AtomicUsize>, more: usize, max: usize) -> Option<Self> {
        let before = counter.fetch_add(more, Ordering::SeqCst);
        let counted = Counted(counter.clone(), more);
        (before + more <= max).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::SeqCst);
    }
}
