//! Whether and how a run of ours may start. Who answers that is set by the room above.

use recount_event::family::run::Queued;

use crate::{NewRun, Unacceptable};

/// See the file's head. Where there is one, our own runs are executed here.
pub(crate) trait Admission: Send + Sync {
    /// Fills in what a request left open, and refuses what cannot be done.
    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable>;

    /// Refuses a run that could not keep to its budget.
    fn afford(&self, queued: &Queued) -> Result<(), Unacceptable>;
}
