//! Checks whether an event may come next. The half of the grammar that [`crate::decide`] uses; [`crate::audit`]
//! has its own, and the two share only the ids of the rules.
//!
//! Look at [`judge`]: first the phase of the run, then the event's family.

mod assistant;
mod cost;
mod phase;
mod prompt;
mod shell;
mod tool;
mod turn;

use recount_event::{ForeignId, Payload};

use crate::rejection::Broken;
use crate::state::{BlockKind, PromptKind, State};

/// Refuses what may not come next, naming the rule it breaks.
pub(crate) fn judge(state: &State, payload: &Payload) -> Result<(), Broken> {
    phase::judge(state, payload)?;
    match payload {
        Payload::TurnStarted(started) => turn::started(state, started),
        Payload::TurnCompleted(completed) => turn::completed(state, completed),
        Payload::TurnFailed(failed) => turn::failed(state, failed),

        Payload::AssistantTextDelta(delta) => assistant::delta(state, delta, BlockKind::Text),
        Payload::AssistantThinkingDelta(delta) => assistant::delta(state, delta, BlockKind::Thinking),
        Payload::AssistantTextComplete(complete) => assistant::complete(state, complete, BlockKind::Text),
        Payload::AssistantThinkingComplete(complete) => {
            assistant::complete(state, complete, BlockKind::Thinking)
        }
        Payload::AssistantToolCallProposed(proposed) => assistant::proposed(state, proposed),
        Payload::AssistantToolCallInputDelta(delta) => assistant::in_turn(state, delta.turn_index),
        Payload::AssistantImageBlock(image) => assistant::in_turn(state, image.turn_index),
        Payload::AssistantFinalAnswer(answer) => assistant::final_answer(state, answer),

        Payload::ToolRefused(refused) => tool::refused(state, refused),
        Payload::ToolInvoked(invoked) => tool::invoked(state, invoked),
        Payload::ToolCompleted(ended) => tool::completed(state, ended),
        Payload::ToolFailed(ended) | Payload::ToolCancelled(ended) | Payload::ToolTimedOut(ended) => {
            tool::ended(state, ended)
        }
        Payload::ToolShellCommand(command) => shell::command(state, command),
        Payload::ToolShellOutputChunk(chunk) => shell::chunk(state, chunk),
        Payload::ToolShellExited(exited) => shell::exited(state, exited),

        Payload::ApprovalRequested(request) => prompt::approval(state, request),
        Payload::ApprovalResolved(resolved) => prompt::approval_resolved(state, resolved),
        Payload::ApprovalExtended(more) => prompt::extended(
            state,
            (PromptKind::Approval, &more.approval_id, more.tool_call_id.as_ref()),
            &more.expires_at,
            more.seconds,
        ),
        Payload::ApprovalTimedOut(missed) => prompt::approval_timed_out(state, missed),
        Payload::ClarificationRequested(request) => prompt::clarification(state, request),
        Payload::ClarificationAnswered(answered) => prompt::clarification_answered(state, answered),
        Payload::ClarificationExtended(more) => prompt::extended(
            state,
            (PromptKind::Clarification, &more.clarification_id, more.tool_call_id.as_ref()),
            &more.expires_at,
            more.seconds,
        ),
        Payload::ClarificationTimedOut(missed) => prompt::clarification_timed_out(state, missed),
        Payload::HandoffRequested(request) => prompt::handoff(state, request),
        Payload::HandoffExtended(more) => prompt::extended(
            state,
            (PromptKind::Handoff, &more.handoff_id, more.tool_call_id.as_ref()),
            &more.expires_at,
            more.seconds,
        ),
        Payload::HandoffAcknowledged(taken) => prompt::handoff_acknowledged(state, taken),
        Payload::HandoffRejected(refused) => prompt::handoff_rejected(state, refused),
        Payload::HandoffTimedOut(missed) => prompt::handoff_timed_out(state, missed),

        Payload::CostTick(tick) => cost::tick(state, tick),
        Payload::CostBudgetWarning(warning) => cost::warning(state, warning),

        other => match subject_of(other) {
            Some((tool_call_id, tool_name)) => tool::reports_on(state, tool_call_id, tool_name),
            None => Ok(()),
        },
    }
}

/// The call that an event reports on, and the tool's name where it gives one. Not for events that
/// change the call, and not for retracted changes, which may come at any time.
fn subject_of(payload: &Payload) -> Option<(&ForeignId, Option<&str>)> {
    Some(match payload {
        Payload::ToolStarted(started) => (&started.tool_call_id, Some(&started.tool_name)),
        Payload::ToolGlobCompleted(glob) => (&glob.tool_call_id, None),
        Payload::ToolGrepCompleted(grep) => (&grep.tool_call_id, None),
        Payload::ToolTodoWriteUpdated(list) => (&list.tool_call_id, list.tool_name.as_deref()),
        Payload::ToolFileReadCompleted(read) => (&read.tool_call_id, None),
        Payload::ToolEditProposed(change) | Payload::ToolFileWriteProposed(change) => {
            (&change.tool_call_id, None)
        }
        Payload::ToolMultiEditProposed(change) => (&change.tool_call_id, None),
        Payload::ToolEditApplied(change) | Payload::ToolFileWriteApplied(change) => {
            (change.tool_call_id.as_ref()?, None)
        }
        Payload::ToolMultiEditApplied(change) => (change.tool_call_id.as_ref()?, None),
        Payload::ToolFilePatch(change) | Payload::ToolFileApplied(change) => {
            (change.tool_call_id.as_ref()?, change.tool_name.as_deref())
        }
        Payload::ToolHttpRequested(request)
        | Payload::ToolWebFetchRequested(request)
        | Payload::ToolWebSearchRequested(request) => (&request.tool_call_id, None),
        Payload::ToolHttpResponse(response)
        | Payload::ToolWebFetchResponse(response)
        | Payload::ToolWebSearchResponse(response) => (&response.tool_call_id, None),
        _ => return None,
    })
}
