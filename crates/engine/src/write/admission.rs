//! Decides whether and how an own run may start. The `work` module provides the implementation.

use recount_event::family::run::Queued;

use crate::{NewRun, Unacceptable};

/// Without an implementation, own runs are not executed here.
pub(crate) trait Admission: Send + Sync {
    /// Fills in missing options, and refuses an invalid run.
    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable>;

    /// Refuses a run that cannot keep its budget.
    fn afford(&self, queued: &Queued) -> Result<(), Unacceptable>;
}
