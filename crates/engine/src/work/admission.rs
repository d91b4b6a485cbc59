//! Lets the `write` module ask the performer whether a run may start.

use std::sync::Arc;

use recount_event::family::run::Queued;

use crate::write::admission::Admission;
use crate::{NewRun, Performer, Unacceptable};

pub(crate) struct PerformerAdmission(pub(crate) Arc<dyn Performer>);

impl Admission for PerformerAdmission {
    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable> {
        self.0.accept(new)
    }

    fn afford(&self, queued: &Queued) -> Result<(), Unacceptable> {
        self.0.afford(queued)
    }
}
