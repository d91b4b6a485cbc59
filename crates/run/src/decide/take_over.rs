//! Decides a takeover: another worker continues a run whose worker was lost. Calls that this server was executing are
//! settled as interrupted and never repeated automatically; what waits for others stays open, and so does a call that
//! started a run: that goes on by itself, and its ending is the outcome.

use recount_event::family::gap::RunDisconnected;
use recount_event::family::run::{Started, Waiting};
use recount_event::family::tool::RefusalCode;
use recount_event::{Code, Payload, time};

use super::{Batch, close, outcome};
use crate::effect::outstanding;
use crate::rejection::Rejection;
use crate::state::{Call, CallStage, Phase};

const INTERRUPTED: &str = "interrupted";

pub(super) fn take_over(
    batch: &mut Batch,
    worker_id: String,
    lease_until_ms: Option<u64>,
    reason: String,
) -> Result<(), Rejection> {
    let state = &batch.state;
    if !state.is_own() {
        let foreign = format!("{} is an external run: this server cannot take it over", state.run_id);
        return Err(Rejection::new(Code::EventRefused, foreign));
    }
    match state.phase {
        Phase::Running => {}
        Phase::Ended(_) => {
            let over = format!("{} {}: there is nothing to take over", state.run_id, state.status().phrase());
            return Err(Rejection::new(Code::RunEnded, over));
        }
        // A run in the queue or waiting holds no worker, so none was lost.
        _ => return Ok(()),
    }
    let since = state.next_sequence.saturating_sub(1);
    let lost = RunDisconnected::new(since, time::format_ms(state.last_ms), reason.clone());
    batch.emit(Payload::GapRunDisconnected(Box::new(lost)))?;
    close::texts(batch)?;
    calls(batch, &reason)?;
    close::turn(batch, INTERRUPTED, &reason, true)?;
    let mut started = Started::new();
    started.worker_id = Some(worker_id);
    started.lease_until = lease_until_ms.map(time::format_ms);
    batch.emit(Payload::RunStarted(Box::new(started)))?;
    wait_again(batch)
}

/// If the lost worker had the only work besides waiting, this records that the run only waits.
fn wait_again(batch: &mut Batch) -> Result<(), Rejection> {
    let waits_for = batch.state.waits_for();
    if waits_for.is_empty() || !outstanding(&batch.state).work.is_empty() {
        return Ok(());
    }
    batch.emit(Payload::RunWaiting(Box::new(Waiting::new(waits_for))))
}

/// What is known of a call that was under way, for the model and for people. It was announced before it began, so it may
/// have taken effect; nothing was recorded of its outcome.
fn interrupted_call(reason: &str, call: &Call) -> String {
    let how_far = outcome::how_far(call);
    match call.has_not_started() {
        true => format!("interrupted ({reason}): {how_far}"),
        false => format!("interrupted ({reason}): {how_far}; repeating the call may apply it twice"),
    }
}

fn calls(batch: &mut Batch, reason: &str) -> Result<(), Rejection> {
    let cut_turn = batch.state.open_turn();
    for (id, call) in close::in_order(batch) {
        if batch.state.has_prompt(&id) || call.has_child() {
            continue;
        }
        if call.is_with_server() {
            let mut ended = outcome::ended(&id, &call);
            ended.code = Some(INTERRUPTED.into());
            ended.error = Some(interrupted_call(reason, &call));
            batch.emit(Payload::ToolFailed(Box::new(ended)))?;
        } else if call.stage == CallStage::Proposed && cut_turn.is_some() && call.turn_index == cut_turn {
            // The turn will be tried again, and the model will ask again.
            let message = "the turn that proposed this call was interrupted".to_owned();
            batch.emit(outcome::refusal(&id, &call, RefusalCode::Cancelled, message))?;
        }
    }
    Ok(())
}
