//! Checks the life of a call: proposed or not, invoked once or refused, settled once.

use recount_event::ForeignId;
use recount_event::family::tool::{Ended, Invoked, Refused, RiskLevel};

use crate::rejection::{Broken, broken};
use crate::state::{self, ApprovalOutcome, Call, CallStage, NameStatus, Space, State};

fn same_name(call: &Call, id: &ForeignId, tool_name: &str) -> Result<(), Broken> {
    match &call.tool_name {
        Some(known) if **known != *tool_name => {
            broken!("call.name", "call {id} has the tool {known}, not {tool_name}: send the same tool_name")
        }
        _ => Ok(()),
    }
}

/// The call, when it is invoked and not settled.
pub(super) fn running<'a>(
    state: &'a State,
    id: &ForeignId,
) -> Result<(&'a Call, &'a state::Invoked), Broken> {
    match state.calls.get(id) {
        Some(call) => match &call.stage {
            CallStage::Invoked(invoked) => Ok((call, invoked)),
            CallStage::Announced | CallStage::Proposed => {
                broken!("call.open", "call {id} is not invoked yet: send tool.invoked first")
            }
        },
        None => match state.ledger.get(Space::Call, id) {
            Some(NameStatus::Over(how)) => broken!("call.open", "call {id} was settled by {how}"),
            Some(NameStatus::Denied) => broken!("call.open", "call {id} was denied and never invoked"),
            None => broken!("call.open", "no call {id} was invoked: send tool.invoked first"),
        },
    }
}

/// Something that a tool did.
pub(super) fn reports_on(state: &State, id: &ForeignId, tool_name: Option<&str>) -> Result<(), Broken> {
    let (call, _) = running(state, id)?;
    tool_name.map_or(Ok(()), |tool_name| same_name(call, id, tool_name))
}

fn not_settled(state: &State, id: &ForeignId) -> Result<(), Broken> {
    match state.ledger.get(Space::Call, id) {
        Some(NameStatus::Over(how)) => {
            broken!("call.settled_once", "call {id} was settled by {how}: leave out the second outcome")
        }
        _ => Ok(()),
    }
}

pub(super) fn refused(state: &State, refused: &Refused) -> Result<(), Broken> {
    let id = &refused.tool_call_id;
    not_settled(state, id)?;
    match state.calls.get(id) {
        Some(Call { stage: CallStage::Invoked(_), .. }) => {
            broken!(
                "call.refused",
                "call {id} was invoked and cannot be refused: send tool.completed, tool.failed, \
                 tool.cancelled or tool.timed_out"
            )
        }
        Some(call) => same_name(call, id, &refused.tool_name),
        None if state.ledger.get(Space::Call, id).is_some() => Ok(()),
        None => broken!("call.refused", "call {id} was never proposed"),
    }
}

pub(super) fn invoked(state: &State, invoked: &Invoked) -> Result<(), Broken> {
    let id = &invoked.tool_call_id;
    let call = state.calls.get(id);
    if matches!(call, Some(Call { stage: CallStage::Invoked(_), .. })) {
        return broken!("call.invoked_once", "call {id} was invoked before: use a new id");
    }
    match state.ledger.get(Space::Call, id) {
        Some(NameStatus::Over(how)) => {
            return broken!("call.invoked_once", "call {id} was settled by {how}: use a new id");
        }
        Some(NameStatus::Denied) => {
            return broken!("approval.denied", "call {id} was denied and cannot be invoked");
        }
        None => {}
    }
    if state.cost.exceeded {
        return broken!(
            "cost.halted",
            "call {id} cannot be invoked after the budget is exhausted: send tool.refused"
        );
    }
    if let Some(call) = call {
        if state.approval_pending(id) {
            return broken!("approval.pending", "call {id} has a pending approval: wait for its outcome");
        }
        if call.verdict.as_ref().is_some_and(|verdict| verdict.outcome != ApprovalOutcome::Granted) {
            return broken!("approval.denied", "call {id} was denied: send tool.refused");
        }
        same_name(call, id, &invoked.tool_name)?;
    }
    if let Some(turn_index) = invoked.turn_index
        && call.and_then(|call| call.turn_index) != Some(turn_index)
    {
        return broken!(
            "call.proposed",
            "call {id} was not proposed in turn {turn_index}: send assistant.tool_call_proposed first, or no turn_index"
        );
    }
    let grave = invoked.irreversible == Some(true) || invoked.risk_level == Some(RiskLevel::High);
    if grave && state.is_own() && call.and_then(Call::granted).is_none() {
        return broken!(
            "approval.required",
            "call {id} ({}) is irreversible or high-risk and was not approved: request an approval first",
            invoked.tool_name
        );
    }
    Ok(())
}

/// The outcome of a call.
pub(super) fn ended(state: &State, ended: &Ended) -> Result<(), Broken> {
    not_settled(state, &ended.tool_call_id)?;
    reports_on(state, &ended.tool_call_id, Some(&ended.tool_name))
}

/// The good outcome of a call.
pub(super) fn completed(state: &State, completed: &Ended) -> Result<(), Broken> {
    ended(state, completed)?;
    let (_, invoked) = running(state, &completed.tool_call_id)?;
    match invoked.shell {
        Some(shell) if !shell.exited => broken!(
            "shell.exit",
            "call {} is completed while its command runs: send tool.shell.exited first",
            completed.tool_call_id
        ),
        _ => Ok(()),
    }
}
