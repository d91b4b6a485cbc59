//! A run is stopped, in whatever state it is.

use recount_event::Code;

use super::{Batch, close, settle};
use crate::command::CancelledBy;
use crate::rejection::Rejection;

pub(super) fn cancel(batch: &mut Batch, by: CancelledBy, reason: &str) -> Result<(), Rejection> {
    if batch.state.is_ended() {
        let said = batch.state.status().said();
        let over = format!("{} {said}: there is nothing to cancel", batch.state.run_id);
        return Err(Rejection::new(Code::RunEnded, over));
    }
    close::texts(batch)?;
    close::calls_and_prompts(batch, &close::Why { by: by.as_str(), reason }, false)?;
    close::turn(batch, "cancelled", reason, false)?;
    let ending = settle::cancelled(batch, by, reason.to_owned());
    batch.say(ending)
}
