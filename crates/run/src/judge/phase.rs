//! Checks what may come in which phase of a run.

use recount_event::family::gap;
use recount_event::family::run::{Finished, Waiting, WaitsFor};
use recount_event::family::tool::RefusalCode;
use recount_event::{Payload, PromptEvent, PromptStep};

use crate::rejection::{Broken, broken};
use crate::state::{CallStage, Phase, State};

pub(super) fn judge(state: &State, payload: &Payload) -> Result<(), Broken> {
    let type_name = payload.type_name();
    match (&state.phase, payload) {
        (Phase::Blank, Payload::RunQueued(_) | Payload::RunResumedFromEvent(_)) => return Ok(()),
        (Phase::Resuming, Payload::RunQueued(_)) => return Ok(()),
        (Phase::Blank | Phase::Resuming, _) => {
            return broken!(
                "queued.first",
                "{type_name} is not allowed before run.queued: send run.queued first"
            );
        }
        (_, Payload::RunQueued(_) | Payload::RunResumedFromEvent(_)) => {
            return broken!(
                "queued.once",
                "{type_name} is not allowed in a run that was queued already: leave it out"
            );
        }
        (Phase::Ended(_), _) => return after_the_ending(state, payload),
        (_, Payload::GapEventsPruned(_)) => {
            return broken!(
                "gap.pruned",
                "gap.events_pruned is not allowed in an active run: prune ended runs only"
            );
        }
        _ => {}
    }
    if !state.has_started() && !may_precede_start(payload) {
        return broken!(
            "start.first",
            "{type_name} is not allowed before run.started: send run.started first"
        );
    }
    match state.phase {
        Phase::Waiting if !may_come_while_waiting(state, payload) => {
            return broken!(
                "wait.quiet",
                "{type_name} is not allowed while the run waits: answer what it waits for, or send run.continued first"
            );
        }
        Phase::Regrouping if !may_come_while_regrouping(state, payload) => {
            return broken!(
                "wait.regroup",
                "{type_name} is not allowed after run.continued while something is still open: send \
                 run.waiting first"
            );
        }
        _ => {}
    }
    match payload {
        Payload::RunStarted(_) if state.has_started() && !state.lost => {
            broken!(
                "start.again",
                "a second run.started is not allowed unless the worker was lost: leave it out"
            )
        }
        Payload::RunWaiting(waiting) => begins_to_wait(state, waiting),
        Payload::WorkspaceProvisioned(_) | Payload::WorkspaceFailed(_) | Payload::GapWorkspaceRemoved(_) => {
            has_workspaces(state, type_name)
        }
        Payload::RunContinued(_) => continues(state),
        Payload::RunFinished(finished) => {
            nothing_open(state, type_name)?;
            turns_agree(state, finished)
        }
        Payload::RunFailed(_) | Payload::RunCancelled(_) => nothing_open(state, type_name),
        _ => Ok(()),
    }
}

fn after_the_ending(state: &State, payload: &Payload) -> Result<(), Broken> {
    let type_name = payload.type_name();
    match payload {
        Payload::RunFinished(_) | Payload::RunFailed(_) | Payload::RunCancelled(_) => {
            broken!("ending.once", "{type_name} is not allowed in an ended run: leave it out")
        }
        Payload::GapEventsPruned(pruned) => names_earlier_events(state, pruned),
        Payload::GapWorkspaceRemoved(_) => has_workspaces(state, type_name),
        _ if type_name.starts_with("gap.") => Ok(()),
        _ => broken!("ending.last", "{type_name} is not allowed in an ended run: report it in a new run"),
    }
}

fn has_workspaces(state: &State, type_name: &str) -> Result<(), Broken> {
    if !state.is_own() {
        return broken!("workspace.own", "{type_name} is not allowed in an external run: leave it out");
    }
    Ok(())
}

fn names_earlier_events(state: &State, pruned: &gap::EventsPruned) -> Result<(), Broken> {
    let (first, last) = (pruned.first_pruned_sequence, pruned.last_pruned_sequence);
    if first > last || last >= state.next_sequence {
        return broken!(
            "gap.pruned",
            "gap.events_pruned names events {first} to {last}, but only events before {} exist: name a range \
             of those",
            state.next_sequence
        );
    }
    Ok(())
}

fn may_precede_start(payload: &Payload) -> bool {
    match payload {
        Payload::RunStarted(_)
        | Payload::RunThrottled(_)
        | Payload::RunFailed(_)
        | Payload::RunCancelled(_)
        | Payload::Opaque(_) => true,
        other => ["user.", "artifact.", "gap."].iter().any(|group| other.type_name().starts_with(group)),
    }
}

/// Outcomes of what the run waits for, events that close it, and events that do not concern it.
fn may_come_while_waiting(state: &State, payload: &Payload) -> bool {
    matches!(payload, Payload::RunContinued(_)) || closes_a_wait(state, payload)
}

fn may_come_while_regrouping(state: &State, payload: &Payload) -> bool {
    matches!(payload, Payload::RunWaiting(_)) || closes_a_wait(state, payload)
}

fn closes_a_wait(state: &State, payload: &Payload) -> bool {
    match payload {
        Payload::ToolCancelled(_)
        | Payload::RunFinished(_)
        | Payload::RunFailed(_)
        | Payload::RunCancelled(_) => true,
        Payload::ToolRefused(refused) => refused.code == RefusalCode::Cancelled,
        Payload::ToolCompleted(ended) | Payload::ToolFailed(ended) | Payload::ToolTimedOut(ended) => {
            state.calls.get(&ended.tool_call_id).is_none_or(|call| call.is_with_client())
        }
        other => match PromptEvent::of(other) {
            Some(event) => event.step != PromptStep::Requested,
            None => other.type_name().starts_with("gap."),
        },
    }
}

fn nothing_open(state: &State, type_name: &str) -> Result<(), Broken> {
    if let Some(turn) = &state.turns.open {
        if let Some((block_index, block)) = turn.blocks.first_key_value() {
            return broken!(
                "ending.text_open",
                "{type_name} is not allowed while {} block {block_index} of turn {} is open: complete it first",
                block.kind,
                turn.index
            );
        }
        return broken!(
            "ending.turn_open",
            "{type_name} is not allowed while turn {} is open: send turn.completed or turn.failed first",
            turn.index
        );
    }
    if let Some((id, call)) = state.calls.iter().find(|(_, call)| call.stage != CallStage::Announced) {
        return broken!(
            "ending.call_open",
            "{type_name} is not allowed while call {id} ({}) is open: settle it first",
            call.name()
        );
    }
    if let Some(name) = state.prompts.keys().next() {
        return broken!(
            "ending.prompt_open",
            "{type_name} is not allowed while {name} is pending: wait for its outcome, or cancel the run"
        );
    }
    Ok(())
}

fn turns_agree(state: &State, finished: &Finished) -> Result<(), Broken> {
    match finished.turns {
        Some(turns) if state.is_own() && turns != state.turns.completed => broken!(
            "ending.turns",
            "run.finished has turns {turns}, but the run completed {}: correct the number",
            state.turns.completed
        ),
        _ => Ok(()),
    }
}

fn begins_to_wait(state: &State, waiting: &Waiting) -> Result<(), Broken> {
    if !state.is_own() {
        return broken!("wait.own", "run.waiting is not allowed in an external run: leave it out");
    }
    if let Some(turn) = &state.turns.open {
        return broken!(
            "wait.turn",
            "run.waiting is not allowed while turn {} is open: end the turn first",
            turn.index
        );
    }
    let busy = state.calls.iter().find(|(id, call)| {
        !(call.is_with_client() || call.is_held() || call.is_yet_to_ask() || state.has_prompt(id))
    });
    if let Some((id, call)) = busy {
        return broken!(
            "wait.calls",
            "run.waiting is not allowed while call {id} ({}) is neither settled nor waiting for an answer: settle it first",
            call.name()
        );
    }
    let open = state.waits_for();
    if open.is_empty() {
        return broken!("wait.nothing", "run.waiting is not allowed when nothing is open: leave it out");
    }
    if !same(&open, &waiting.waits_for) {
        return broken!(
            "wait.names",
            "run.waiting names {}, but these are open: {}; name exactly these",
            in_words(&waiting.waits_for),
            in_words(&open)
        );
    }
    Ok(())
}

fn same(a: &[WaitsFor], b: &[WaitsFor]) -> bool {
    a.len() == b.len() && a.iter().all(|one| b.contains(one)) && b.iter().all(|one| a.contains(one))
}

fn in_words(list: &[WaitsFor]) -> String {
    let words: Vec<String> = list.iter().map(|one| format!("{} {}", one.kind, one.id)).collect();
    if words.is_empty() { "nothing".into() } else { words.join(", ") }
}

fn continues(state: &State) -> Result<(), Broken> {
    if !state.is_own() {
        return broken!("wait.own", "run.continued is not allowed in an external run: leave it out");
    }
    if state.phase != Phase::Waiting {
        return broken!(
            "wait.continued",
            "run.continued is not allowed in a run that is not waiting: leave it out"
        );
    }
    Ok(())
}
