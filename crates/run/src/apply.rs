//! Folds one event into a state. Every change of a state happens here; replay uses nothing else.
//!
//! Nothing is checked: an event that cannot follow is a bug of the caller, and panics.

mod assistant;
mod cost;
mod prompt;
mod pruned;
mod run;
mod tool;
mod turn;

use recount_event::{Event, Payload};

use crate::state::{PromptKind, State};
pub(crate) use cost::{child_runs, open_turn};

/// Takes in the next event of the run. Panics when it is not the next one.
pub fn apply(state: &mut State, event: &Event) {
    assert_eq!(event.run_id, state.run_id, "an event of another run");
    assert_eq!(event.sequence, state.next_sequence, "an event out of order in {}", state.run_id);
    if state.last_event_id.is_none() {
        state.created_ms = event.occurred_ms;
    }
    state.last_ms = event.occurred_ms;
    state.last_event_id = Some(event.event_id);
    if state.is_headless() {
        pruned::fold(state, event);
    } else {
        fold(state, event);
    }
    run::regrouped(state);
    state.next_sequence += 1;
}

fn fold(state: &mut State, event: &Event) {
    let at_ms = event.occurred_ms;
    match event.payload() {
        Payload::RunResumedFromEvent(_) => run::resumed(state),
        Payload::RunQueued(queued) => run::queued(state, queued),
        Payload::RunStarted(_) => run::started(state, at_ms),
        Payload::RunWaiting(_) => run::waiting(state),
        Payload::RunContinued(_) => run::continued(state),
        Payload::RunFinished(ending) => run::finished(state, at_ms, ending),
        Payload::RunFailed(ending) => run::failed(state, at_ms, ending),
        Payload::RunCancelled(ending) => run::cancelled(state, at_ms, ending),
        Payload::GapRunDisconnected(_) => run::disconnected(state),
        Payload::GapEventsPruned(marker) => pruned::marked(state, marker),

        Payload::TurnStarted(started) => turn::started(state, started),
        Payload::TurnCompleted(completed) => turn::completed(state, completed),
        Payload::TurnFailed(failed) => turn::failed(state, failed),

        Payload::AssistantTextDelta(delta) => assistant::delta(state, delta, crate::state::BlockKind::Text),
        Payload::AssistantThinkingDelta(delta) => {
            assistant::delta(state, delta, crate::state::BlockKind::Thinking);
        }
        Payload::AssistantTextComplete(complete) | Payload::AssistantThinkingComplete(complete) => {
            assistant::complete(state, complete);
        }
        Payload::AssistantToolCallProposed(proposed) => assistant::proposed(state, proposed),
        Payload::AssistantFinalAnswer(_) => state.turns.final_answer = true,

        Payload::UserMessage(_) => state.turns.wants_model = true,

        Payload::ToolRefused(refused) => tool::settled(state, &refused.tool_call_id, event.type_name()),
        Payload::ToolInvoked(invoked) => tool::invoked(state, invoked),
        Payload::ChildRunStarted(started) => tool::started_child(state, started),
        Payload::ToolCompleted(ended)
        | Payload::ToolFailed(ended)
        | Payload::ToolCancelled(ended)
        | Payload::ToolTimedOut(ended) => tool::settled(state, &ended.tool_call_id, event.type_name()),
        Payload::ToolShellCommand(command) => tool::shell_command(state, command),
        Payload::ToolShellOutputChunk(chunk) => tool::shell_chunk(state, chunk),
        Payload::ToolShellExited(exited) => tool::shell_exited(state, exited),

        Payload::ApprovalRequested(request) => prompt::approval(state, request, at_ms),
        Payload::ApprovalResolved(resolved) => prompt::approval_resolved(state, resolved),
        Payload::ApprovalExtended(more) => {
            let (kind, id) = (PromptKind::Approval, &more.approval_id);
            prompt::extended(state, kind, id, &more.expires_at, more.seconds);
        }
        Payload::ApprovalTimedOut(missed) => prompt::approval_timed_out(state, missed),
        Payload::ClarificationRequested(request) => prompt::clarification(state, request, at_ms),
        Payload::ClarificationAnswered(answered) => prompt::clarification_answered(state, answered),
        Payload::ClarificationExtended(more) => {
            let (kind, id) = (PromptKind::Clarification, &more.clarification_id);
            prompt::extended(state, kind, id, &more.expires_at, more.seconds);
        }
        Payload::ClarificationTimedOut(missed) => prompt::clarification_timed_out(state, missed),
        Payload::HandoffRequested(request) => prompt::handoff(state, request, at_ms),
        Payload::HandoffExtended(more) => {
            let (kind, id) = (PromptKind::Handoff, &more.handoff_id);
            prompt::extended(state, kind, id, &more.expires_at, more.seconds);
        }
        Payload::HandoffAcknowledged(taken) => prompt::handoff_acknowledged(state, taken),
        Payload::HandoffRejected(refused) => prompt::handoff_rejected(state, refused),
        Payload::HandoffTimedOut(missed) => prompt::handoff_timed_out(state, missed),

        Payload::CostTick(tick) => cost::tick(state, tick),
        Payload::CostBudgetWarning(warning) => {
            state.cost.warned.insert(warning.threshold_pct);
        }
        Payload::CostBudgetExceeded(_) => state.cost.exceeded = true,

        // Payloads that change nothing in the state.
        _ => {}
    }
}
