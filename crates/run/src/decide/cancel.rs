//! Ends a run in any phase: cancelled, or failed because it cannot continue.

use recount_event::family::run::Failed;
use recount_event::{Code, Payload};

use super::{Batch, close, settle};
use crate::command::CancelledBy;
use crate::rejection::Rejection;

pub(super) fn cancel(batch: &mut Batch, by: CancelledBy, reason: &str) -> Result<(), Rejection> {
    close_all(batch, by, reason, "cancelled", "cancel")?;
    let ending = settle::cancelled(batch, by, reason.to_owned());
    batch.emit(ending)
}

/// A report of `run.failed` is refused while anything is open, so a worker that gives a run up does it here.
pub(super) fn fail(batch: &mut Batch, code: &str, message: &str, retriable: bool) -> Result<(), Rejection> {
    if !batch.state.is_own() {
        let foreign =
            format!("{} is an external run: only its producer can report that it failed", batch.state.run_id);
        return Err(Rejection::new(Code::EventRefused, foreign));
    }
    let by = CancelledBy::System;
    close_all(batch, by, message, code, "fail")?;
    let mut ending = Failed::new(code.to_owned(), message.to_owned(), retriable);
    (ending.turns, ending.cost_micros_usd, ending.duration_ms) = settle::figures(batch);
    ending.by = Some(by.as_str().to_owned());
    batch.emit(Payload::RunFailed(Box::new(ending)))
}

/// Closes whatever is open in a run that has not ended; an open turn fails with `code`.
fn close_all(
    batch: &mut Batch,
    by: CancelledBy,
    reason: &str,
    code: &str,
    what: &str,
) -> Result<(), Rejection> {
    if batch.state.is_ended() {
        let status = batch.state.status().phrase();
        let over = format!("{} {status}: there is nothing to {what}", batch.state.run_id);
        return Err(Rejection::new(Code::RunEnded, over));
    }
    close::texts(batch)?;
    close::calls_and_prompts(batch, &close::CloseReason { by: by.as_str(), reason }, false)?;
    close::turn(batch, code, reason, false)
}
