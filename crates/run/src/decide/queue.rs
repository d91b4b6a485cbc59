//! Decides how a run is queued.

use recount_event::family::run::{Queued, ResumedFromEvent};
use recount_event::{Code, Payload};

use super::Batch;
use crate::rejection::Rejection;

pub(super) fn queue(
    batch: &mut Batch,
    queued: Box<Queued>,
    resumed_from: Option<Box<ResumedFromEvent>>,
) -> Result<(), Rejection> {
    if !batch.state.is_blank() {
        let taken = format!("{} already exists: choose another id", batch.state.run_id);
        return Err(Rejection::new(Code::IdTaken, taken));
    }
    if let Some(resumed) = resumed_from {
        batch.emit(Payload::RunResumedFromEvent(resumed))?;
    }
    batch.emit(Payload::RunQueued(queued))
}
