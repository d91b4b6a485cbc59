//! Counts concurrent items or bytes against a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A count that is released when it is dropped.
pub(crate) struct Counted(Arc<AtomicUsize>, usize);

impl Counted {
    /// `None` at the limit.
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
