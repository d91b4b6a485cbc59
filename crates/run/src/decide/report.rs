//! Decides events that a producer or our own performer reports: checked one by one, accepted all or none.

use recount_event::family::approval::Decision;
use recount_event::family::clarification::Applied;
use recount_event::registry::{self, Appender, Opaque, Status};
use recount_event::{Code, Draft, Payload};

use super::{Batch, bounds, close, settle};
use crate::rejection::{Broken, Rejection, broken};
use crate::state::Phase;

/// `by` of prompts that were withdrawn because the producer ended its run.
const BY_PRODUCER: &str = "producer";

/// `by` of `run.continued` after results that came from an application.
const BY_APPLICATION: &str = "application";

pub(super) fn append(batch: &mut Batch, drafts: Vec<Draft>) -> Result<(), Rejection> {
    if batch.state.is_own() {
        let own =
            format!("{} is executed by this server: no other program may append to it", batch.state.run_id);
        return Err(Rejection::new(Code::RunNotExternal, own));
    }
    if batch.state.is_ended() {
        return Err(ended(batch));
    }
    put_all(batch, drafts, may_be_appended, ReportEnding::WithdrawsPrompts)
}

pub(super) fn progress(batch: &mut Batch, drafts: Vec<Draft>) -> Result<(), Rejection> {
    let only_gaps = drafts.iter().all(|draft| is_gap(&draft.payload));
    if batch.state.is_ended() && !only_gaps {
        return Err(ended(batch));
    }
    if !batch.state.is_own() {
        return put_all(batch, drafts, may_be_reported_of_external, ReportEnding::KeepsPrompts);
    }
    let waited = batch.state.phase == Phase::Waiting;
    put_all(batch, drafts, may_be_performed, ReportEnding::KeepsPrompts)?;
    if waited { settle::continue_run(batch, BY_APPLICATION) } else { Ok(()) }
}

fn ended(batch: &Batch) -> Rejection {
    let state = &batch.state;
    let over = format!("{} {}: no more events can be added", state.run_id, state.status().phrase());
    Rejection::new(Code::RunEnded, over)
}

/// The effect of an ending on open prompts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReportEnding {
    /// Nothing: the reporter withdraws its prompts first.
    KeepsPrompts,
    /// Open prompts are withdrawn directly before it. A producer may not report that itself, and a restarted one
    /// does not know its prompts.
    WithdrawsPrompts,
}

fn put_all(
    batch: &mut Batch,
    drafts: Vec<Draft>,
    door: fn(&Payload) -> Result<(), Broken>,
    ending: ReportEnding,
) -> Result<(), Rejection> {
    for (index, draft) in drafts.into_iter().enumerate() {
        let type_name = draft.payload.type_name().to_owned();
        door(&draft.payload)
            .map_err(Rejection::from)
            .and_then(|()| bounds::event(&batch.state, &draft.payload))
            .and_then(|()| match ending {
                ReportEnding::WithdrawsPrompts if is_ending(&draft.payload) => withdraw(batch, &type_name),
                _ => Ok(()),
            })
            .and_then(|()| batch.put(draft))
            .map_err(|no| Rejection { index: Some(index), type_name: Some(type_name), ..no })?;
    }
    Ok(())
}

fn withdraw(batch: &mut Batch, ending: &str) -> Result<(), Rejection> {
    let reason = format!("its producer reported {ending}");
    close::prompts(batch, &close::CloseReason { by: BY_PRODUCER, reason: &reason })
}

fn is_ending(payload: &Payload) -> bool {
    matches!(payload, Payload::RunFinished(_) | Payload::RunFailed(_) | Payload::RunCancelled(_))
}

fn is_gap(payload: &Payload) -> bool {
    !matches!(payload, Payload::Opaque(_)) && payload.type_name().starts_with("gap.")
}

fn may_be_appended(payload: &Payload) -> Result<(), Broken> {
    extension_or_known(payload)?;
    let type_name = payload.type_name();
    match (registry::row(type_name), payload) {
        // Its own approval a producer may withdraw, where that was decided elsewhere.
        (_, Payload::ApprovalResolved(resolved)) if resolved.decided_elsewhere.is_some() => Ok(()),
        (Some(row), _) if row.appender == Appender::Runtime => {
            broken!("append.runtime_only", "only this server writes {type_name}: leave it out")
        }
        (Some(row), _) if row.status == Status::Experimental => {
            broken!("append.experimental_off", "{type_name} is experimental and not enabled: leave it out")
        }
        _ => Ok(()),
    }
}

fn may_be_reported_of_external(payload: &Payload) -> Result<(), Broken> {
    if !is_gap(payload) {
        return broken!(
            "progress.external",
            "only the producer of this external run may report {}",
            payload.type_name()
        );
    }
    Ok(())
}

fn may_be_performed(payload: &Payload) -> Result<(), Broken> {
    extension_or_known(payload)?;
    let answers = match payload {
        Payload::ApprovalResolved(resolved) => resolved.decision != Decision::Cancelled,
        Payload::ClarificationTimedOut(missed) => missed.applied != Applied::Unavailable,
        Payload::ApprovalTimedOut(_)
        | Payload::ApprovalExtended(_)
        | Payload::ClarificationAnswered(_)
        | Payload::ClarificationExtended(_)
        | Payload::HandoffAcknowledged(_)
        | Payload::HandoffExtended(_)
        | Payload::HandoffTimedOut(_) => true,
        _ => false,
    };
    if answers {
        return broken!(
            "progress.answer",
            "{} answers or extends a prompt: use the command for that prompt instead of reporting an event",
            payload.type_name()
        );
    }
    Ok(())
}

fn extension_or_known(payload: &Payload) -> Result<(), Broken> {
    match payload {
        Payload::Opaque(Opaque { type_name, .. })
            if !(registry::is_type_name(type_name) && registry::is_extension(type_name)) =>
        {
            broken!(
                "append.unknown_type",
                "{type_name} is not in the registry: use a registered type, or ext.<owner>.<name>"
            )
        }
        _ => Ok(()),
    }
}
