//! Commands out of numbers: mostly legal, sometimes not. Legal runs alone are made by [`recount_run_generator`].
//!
//! [`command`] turns the next few numbers into a command that makes some sense in the state at hand.

use recount_event::digest::call_digest;
use recount_event::family::shell::Stream;
use recount_event::{Draft, ForeignId, Payload};
use recount_run_generator::Dice;

use super::story::{fid, json, payload};
use crate::apply::apply;
use crate::judge::judge;
use crate::state::{BlockKind, Call, CallStage, OpenBlock, Phase, PromptKind, State};
use crate::{CallAnswer, CallResolution, CancelledBy, Command};

/// The first command of a story.
pub(super) fn queue(dice: &mut Dice<'_>, own: bool) -> Command {
    let warned = if dice.one_in(4) { ",'budget_warned':true,'prior_cost_micros_usd':5" } else { "" };
    let (kind, driver) = match (own, dice.below(6)) {
        (false, _) => ("external", "external"),
        (true, 5) => ("shell", "own"),
        (true, _) => ("agent_loop", "own"),
    };
    let data = format!("{{'kind':'{kind}','driver':'{driver}','prior_run_id':null{warned}}}");
    let Payload::RunQueued(queued) = payload("run.queued", &data) else { unreachable!() };
    let resumed_from = dice.one_in(4).then(|| {
        let data = "{'from_run_id':'run_x','from_sequence':3,'prior_cost_micros_usd':5}";
        let Payload::RunResumedFromEvent(resumed) = payload("run.resumed_from_event", data) else {
            unreachable!()
        };
        resumed
    });
    Command::Queue { queued, resumed_from }
}

/// A command that makes some sense now.
pub(super) fn command(dice: &mut Dice<'_>, state: &State) -> Command {
    let by = || "ann".to_owned();
    let throw = if state.phase == Phase::Waiting && dice.one_in(3) { 80 } else { dice.below(100) };
    if throw >= 77 && dice.one_in(if state.phase == Phase::Waiting { 2 } else { 6 }) {
        return answers(dice, state);
    }
    match throw {
        0..72 => report(dice, state),
        72..76 => Command::Tick,
        76 => {
            let kind = dice.pick(&PromptKind::ALL).unwrap_or(PromptKind::Approval);
            let id = prompt(dice, state, kind);
            Command::ExtendPrompt { kind, id, seconds: dice.below(90) as u64, by: by() }
        }
        77..86 => {
            let id = prompt(dice, state, PromptKind::Approval);
            Command::ResolveApproval {
                approval_id: id,
                approve: dice.one_in(2),
                by: by(),
                comment: None,
                remember: None,
            }
        }
        86..90 => {
            let id = prompt(dice, state, PromptKind::Clarification);
            Command::AnswerClarification {
                clarification_id: id,
                response: json("{'a':1}"),
                blocks: dice.one_in(2).then(|| vec![json("{'type':'text','text':'a'}")]),
                by: by(),
                config: None,
            }
        }
        90..92 => {
            let handoff_id = prompt(dice, state, PromptKind::Handoff);
            if dice.one_in(2) {
                Command::AcknowledgeHandoff { handoff_id, by: by(), comment: None }
            } else {
                Command::RejectHandoff { handoff_id, by: by(), reason: Some("busy".into()) }
            }
        }
        92..96 => Command::TakeOver {
            worker_id: "w2".into(),
            lease_until_ms: Some(state.last_occurred_ms() + 9),
            reason: "worker_lease_expired".into(),
        },
        96 => Command::Cancel {
            by: dice.pick(CancelledBy::ALL).unwrap_or(CancelledBy::System),
            reason: "enough".into(),
        },
        97 => queue(dice, true),
        98 => Command::Append { drafts: drafts(dice, state) },
        _ => Command::Progress { drafts: drafts(dice, state) },
    }
}

fn report(dice: &mut Dice<'_>, state: &State) -> Command {
    let drafts = drafts(dice, state);
    if state.is_own() { Command::Progress { drafts } } else { Command::Append { drafts } }
}

/// Up to four drafts, each made for the state that the ones before it would leave.
fn drafts(dice: &mut Dice<'_>, state: &State) -> Vec<Draft> {
    let mut state = state.clone();
    let mut drafts = Vec::new();
    for _ in 0..=dice.below(4) {
        let mut payload = draft(dice, &state);
        for _ in 0..3 {
            if judge(&state, &payload).is_ok() || dice.one_in(7) {
                break;
            }
            payload = draft(dice, &state);
        }
        if judge(&state, &payload).is_ok() {
            let mut event = super::story::placed(state.next_sequence, payload.clone());
            event.run_id = state.run_id;
            event.occurred_ms = state.last_ms;
            apply(&mut state, &event);
        }
        drafts.push(payload.into());
    }
    drafts
}

/// Answers of an application to calls, most of which wait for it.
fn answers(dice: &mut Dice<'_>, state: &State) -> Command {
    let mut answers: Vec<CallAnswer> = Vec::new();
    let waited_for: Vec<ForeignId> = state
        .calls
        .iter()
        .filter(|(id, call)| call.is_with_client() || state.approval_pending(id))
        .map(|(id, _)| id.clone())
        .collect();
    for _ in 0..dice.below(4) {
        let id = dice.pick(&waited_for).filter(|_| !dice.one_in(9));
        let id = id.unwrap_or_else(|| call(dice, state, |_| true).0);
        let call = state.calls.get(&id);
        let own = call.is_some_and(Call::is_with_client);
        let resolution = match dice.below(4) {
            0 | 1 if own => CallResolution::Output { output: json("'o'"), text: "o".into() },
            0 => CallResolution::Denied { reason: dice.one_in(2).then(|| "why".into()) },
            1 => CallResolution::Output { output: json("'o'"), text: "o".into() },
            2 if own && !dice.one_in(6) => CallResolution::Output { output: json("[]"), text: String::new() },
            _ => CallResolution::Granted,
        };
        if dice.one_in(8) || answers.iter().all(|answer| answer.tool_call_id != id) {
            answers.push(CallAnswer { tool_call_id: id, resolution });
        }
    }
    let config = dice.one_in(6).then(|| json("{'tools':[]}"));
    Command::AnswerCalls { answers, by: "app".into(), via: "aap".into(), config, lenient: dice.one_in(2) }
}

fn prompt(dice: &mut Dice<'_>, state: &State, kind: PromptKind) -> ForeignId {
    let pending: Vec<ForeignId> =
        state.prompts.keys().filter(|name| name.kind == kind).map(|name| name.id.clone()).collect();
    match dice.pick(&pending) {
        Some(id) if !dice.one_in(8) => id,
        _ => fid(&format!("p{}", dice.below(6))),
    }
}

fn call<'a>(
    dice: &mut Dice<'_>,
    state: &'a State,
    wanted: impl Fn(&Call) -> bool,
) -> (ForeignId, Option<&'a Call>) {
    let fitting: Vec<ForeignId> =
        state.calls.iter().filter(|(_, call)| wanted(call)).map(|(id, _)| id.clone()).collect();
    let id = match dice.pick(&fitting) {
        Some(id) if !dice.one_in(12) => id,
        _ if dice.one_in(2) => fid(&format!("c{}", dice.below(8))),
        _ => fid(&format!("c{}", state.calls_seen)),
    };
    let call = state.calls.get(&id);
    (id, call)
}

fn is_invoked(call: &Call) -> bool {
    matches!(call.stage, CallStage::Invoked(_))
}

fn tool(dice: &mut Dice<'_>, call: Option<&Call>) -> String {
    match call.and_then(|call| call.tool_name.as_deref()) {
        Some(name) if !dice.one_in(20) => name.to_owned(),
        _ => ["read", "shell", "read", "shell", "ask_user"][dice.below(5)].to_owned(),
    }
}

/// The index of the open turn, or nearly.
fn turn(dice: &mut Dice<'_>, state: &State) -> u64 {
    match state.open_turn() {
        Some(index) if !dice.one_in(20) => index,
        _ => dice.below(3) as u64,
    }
}

/// Any event.
pub(super) fn draft(dice: &mut Dice<'_>, state: &State) -> Payload {
    if !state.has_started() && !dice.one_in(5) {
        return payload("run.started", "{}");
    }
    if state.is_ended() && !dice.one_in(3) {
        return rest(dice, state);
    }
    let may_wait = state.is_own() && state.turns.open.is_none() && !state.waits_for().is_empty();
    if state.phase == Phase::Running && may_wait && dice.one_in(3) {
        return waiting(dice, state);
    }
    if matches!(state.phase, Phase::Waiting | Phase::Regrouping) && !dice.one_in(4) {
        return while_waiting(dice, state);
    }
    let only_asks = state.turns.open.is_none()
        && !state.prompts.is_empty()
        && state.calls.values().all(|call| call.stage == CallStage::Announced);
    if only_asks && !state.is_own() && dice.one_in(8) {
        return ending(dice, state);
    }
    let proposed = state.calls.values().any(|call| call.stage == CallStage::Proposed);
    if proposed && state.turns.open.is_some() && dice.one_in(6) {
        return turn_event(dice, state);
    }
    match dice.below(24) {
        0..3 => turn_event(dice, state),
        3..8 => assistant_event(dice, state),
        8..11 => {
            let (id, call) = call(dice, state, |call| call.stage == CallStage::Proposed);
            invoked(dice, state, &id, call)
        }
        11 => {
            let (id, call) = call(dice, state, |call| !is_invoked(call));
            let name = tool(dice, call);
            let data =
                format!("{{'tool_call_id':'{id}','tool_name':'{name}','code':'blocked','message':'no'}}");
            payload("tool.refused", &data)
        }
        12..14 => outcome(dice, state),
        14..17 => shell(dice, state),
        17..19 => prompt_requested(dice, state),
        19 => waiting(dice, state),
        20 => tool_report(dice, state),
        21 => cost(dice, state),
        22 => ending(dice, state),
        _ => rest(dice, state),
    }
}

fn while_waiting(dice: &mut Dice<'_>, state: &State) -> Payload {
    match dice.below(5) {
        0..3 => outcome(dice, state),
        3 => waiting(dice, state),
        _ => rest(dice, state),
    }
}

fn turn_event(dice: &mut Dice<'_>, state: &State) -> Payload {
    let Some(open) = state.turns.open.as_ref().filter(|_| !dice.one_in(20)) else {
        let index = match state.turns.highest {
            Some(highest) if state.turns.may_retry || dice.one_in(10) => highest,
            _ => state.next_turn_index() + dice.below(2) as u64,
        };
        return payload("turn.started", &format!("{{'turn_index':{index}}}"));
    };
    let index = turn(dice, state);
    if dice.one_in(3) {
        let retry = !dice.one_in(3);
        let data = format!("{{'turn_index':{index},'code':'overloaded','message':'m','will_retry':{retry}}}");
        return payload("turn.failed", &data);
    }
    let counted = if dice.one_in(20) { 9 } else { open.proposed };
    let stop = dice.pick(&["end_turn", "tool_use", "max_tokens", "refusal", "error"]).unwrap_or("error");
    let (input, output) = (dice.below(50), dice.below(50));
    payload(
        "turn.completed",
        &format!(
            "{{'turn_index':{index},'stop_reason':'{stop}','input_tokens':{input},'output_tokens':{output},\
             'cost_micros_usd':{output},'tool_calls':{counted}}}"
        ),
    )
}

fn assistant_event(dice: &mut Dice<'_>, state: &State) -> Payload {
    let index = turn(dice, state);
    let open: Vec<(u64, OpenBlock)> = state
        .turns
        .open
        .iter()
        .flat_map(|turn| turn.blocks.iter().map(|(index, block)| (*index, block.clone())))
        .collect();
    match dice.below(12) {
        0..4 => {
            let block = dice.below(4) + state.turns.closed_blocks.len();
            let word = dice.pick(&["thinking", "text", "text", "text"]).unwrap_or("text");
            let piece = dice.pick(&["a", "bc", "", "dé"]).unwrap_or("a");
            let data = format!("{{'turn_index':{index},'block_index':{block},'delta':'{piece}'}}");
            payload(&format!("assistant.{word}_delta"), &data)
        }
        4..8 => {
            let (block, kind, text) = match dice.pick(&open) {
                Some((block, open)) => (block, open.kind, open.text.text()),
                None => (dice.below(9) as u64, BlockKind::Text, "whole".to_owned()),
            };
            let text = if dice.one_in(15) { "other".to_owned() } else { text };
            let data = format!("{{'turn_index':{index},'block_index':{block},'text':'{text}'}}");
            payload(&format!("assistant.{kind}_complete"), &data)
        }
        8..11 => {
            let id = match dice.below(10) {
                9 => fid(&format!("c{}", dice.below(8))),
                _ => fid(&format!("c{}", state.calls_seen)),
            };
            let name = tool(dice, None);
            payload(
                "assistant.tool_call_proposed",
                &format!(
                    "{{'turn_index':{index},'tool_call_id':'{id}','tool_name':'{name}','input':{{'n':1}}}}"
                ),
            )
        }
        _ => payload("assistant.final_answer", &format!("{{'turn_index':{index},'summary':'done'}}")),
    }
}

fn invoked(dice: &mut Dice<'_>, state: &State, id: &ForeignId, call: Option<&Call>) -> Payload {
    let name = tool(dice, call);
    let mut data = format!("{{'tool_call_id':'{id}','tool_name':'{name}'");
    if dice.one_in(3) {
        data += ",'executor':'client'";
    }
    if dice.one_in(8) {
        data += ",'risk_level':'high'";
    }
    if dice.one_in(3) {
        let index = call.and_then(|call| call.turn_index).unwrap_or(turn(dice, state));
        data += &format!(",'turn_index':{index}");
    }
    payload("tool.invoked", &format!("{data}}}"))
}

fn outcome(dice: &mut Dice<'_>, state: &State) -> Payload {
    let waiting = state.phase != Phase::Running;
    let (id, call) = call(dice, state, |call| if waiting { call.is_with_client() } else { is_invoked(call) });
    let name = tool(dice, call);
    let how = dice.pick(&["completed", "completed", "failed", "cancelled", "timed_out"]).unwrap_or("failed");
    payload(&format!("tool.{how}"), &format!("{{'tool_call_id':'{id}','tool_name':'{name}'}}"))
}

fn shell(dice: &mut Dice<'_>, state: &State) -> Payload {
    let (id, call) = call(dice, state, is_invoked);
    let shell = call.and_then(|call| match call.stage {
        CallStage::Invoked(invoked) => invoked.shell,
        _ => None,
    });
    let Some(shell) = shell.filter(|_| !dice.one_in(12)) else {
        return payload("tool.shell.command", &format!("{{'tool_call_id':'{id}','argv':['ls'],'cwd':'/'}}"));
    };
    if dice.below(3) < 2 {
        let stream = dice.pick(Stream::ALL).unwrap_or(Stream::Stdout);
        let sent = if stream == Stream::Stdout { shell.stdout } else { shell.stderr };
        let at = if dice.one_in(12) { sent + 1 } else { sent };
        let data =
            dice.pick(&["abc", "é", "AAEC','encoding':'base64", "AA','encoding':'base64"]).unwrap_or("");
        let data =
            format!("{{'tool_call_id':'{id}','stream':'{stream}','byte_offset':{at},'data':'{data}'}}");
        return payload("tool.shell.output_chunk", &data);
    }
    let truncated = dice.one_in(3);
    let more = if truncated || dice.one_in(9) { dice.below(3) as u64 } else { 0 };
    payload(
        "tool.shell.exited",
        &format!(
            "{{'tool_call_id':'{id}','exit_code':0,'signal':null,'stdout_bytes':{},'stderr_bytes':{},\
             'truncated':{truncated}}}",
            shell.stdout + more,
            shell.stderr
        ),
    )
}

fn prompt_requested(dice: &mut Dice<'_>, state: &State) -> Payload {
    let fresh = state.prompts_seen;
    let prompt = if dice.one_in(12) { dice.below(4) as u64 } else { fresh };
    let timeout = match dice.below(3) {
        0 => String::new(),
        1 => format!(",'timeout_seconds':{}", dice.below(20)),
        _ => ",'expires_at':'2026-05-03T10:23:55.000Z'".to_owned(),
    };
    match dice.below(8) {
        0..5 => {
            let (id, call) = call(dice, state, |call| call.stage == CallStage::Proposed);
            let mut more = timeout;
            more += dice
                .pick(&["", ",'default_decision':'approve'", ",'default_decision':'reject'"])
                .unwrap_or("");
            more += dice.pick(&["", "", "", ",'risk_level':'high'"]).unwrap_or("");
            if let (Some(input), true) = (call.and_then(|call| call.input.as_ref()), dice.one_in(2)) {
                let name = tool(dice, call);
                more += &format!(",'call_digest':'{}'", call_digest(&name, input.text()));
            }
            let data = format!(
                "{{'approval_id':'p{prompt}','tool_call_id':'{id}','kind':'tool','summary':'may I'{more}}}"
            );
            payload("approval.requested", &data)
        }
        what => {
            let (id, _) = call(dice, state, |_| true);
            let about = if dice.one_in(4) { String::new() } else { format!(",'tool_call_id':'{id}'") };
            if what == 7 {
                let data = format!(
                    "{{'handoff_id':'p{prompt}','reason':'stuck','target_kind':'human'{about}{timeout}}}"
                );
                return payload("handoff.requested", &data);
            }
            let default = if dice.one_in(2) { ",'default_response':{'d':1}" } else { "" };
            let data =
                format!("{{'clarification_id':'p{prompt}','question':'which?'{about}{default}{timeout}}}");
            payload("clarification.requested", &data)
        }
    }
}

fn waiting(dice: &mut Dice<'_>, state: &State) -> Payload {
    if state.phase == Phase::Waiting || dice.one_in(12) {
        return payload("run.continued", "{'by':'app'}");
    }
    let mut items: Vec<String> = state
        .waits_for()
        .iter()
        .map(|item| format!("{{'kind':'{}','id':'{}'}}", item.kind, item.id))
        .collect();
    if dice.one_in(12) {
        items.pop();
    }
    payload("run.waiting", &format!("{{'for':[{}]}}", items.join(",")))
}

fn tool_report(dice: &mut Dice<'_>, state: &State) -> Payload {
    let (id, call) = call(dice, state, is_invoked);
    let name = tool(dice, call);
    match dice.below(7) {
        0 => payload("tool.started", &format!("{{'tool_call_id':'{id}','tool_name':'{name}'}}")),
        1 => payload(
            "tool.todo_write.updated",
            &format!("{{'tool_call_id':'{id}','todos':[],'tool_name':'{name}'}}"),
        ),
        2 => payload("tool.edit.applied", "{'patch_artifact_id':'art_1'}"),
        3 => payload("tool.edit.applied", &format!("{{'patch_artifact_id':'art_1','tool_call_id':'{id}'}}")),
        4 => payload("tool.edit.reverted", &format!("{{'patch_artifact_id':'art_1','tool_call_id':'{id}'}}")),
        5 => payload("tool.http.requested", &format!("{{'tool_call_id':'{id}'}}")),
        _ => payload("artifact.created", "{'artifact_id':'art_1','kind':'patch'}"),
    }
}

fn cost(dice: &mut Dice<'_>, state: &State) -> Payload {
    match dice.below(12) {
        0..9 => {
            let mut totals = state.totals();
            if dice.one_in(8) || !state.is_own() {
                totals.input_tokens = (totals.input_tokens + dice.below(9) as u64).saturating_sub(2);
            }
            let remaining = 20_u64.saturating_sub(totals.cost_micros_usd) + u64::from(dice.one_in(10));
            let data = format!(
                "{{'cumulative_input_tokens':{},'cumulative_output_tokens':{},'cumulative_cost_micros_usd':{},\
                 'task_budget_micros_usd':20,'task_budget_remaining_micros_usd':{remaining}}}",
                totals.input_tokens, totals.output_tokens, totals.cost_micros_usd
            );
            payload("cost.tick", &data)
        }
        9..11 => {
            let threshold = 70 + 10 * dice.below(3);
            let data = format!(
                "{{'threshold_pct':{threshold},'cumulative_cost_micros_usd':8,'task_budget_micros_usd':9}}"
            );
            payload("cost.budget_warning", &data)
        }
        _ => payload(
            "cost.budget_exceeded",
            "{'cumulative_cost_micros_usd':9,'task_budget_micros_usd':9,'action':'halted'}",
        ),
    }
}

fn ending(dice: &mut Dice<'_>, state: &State) -> Payload {
    match dice.below(6) {
        0..3 => {
            let turns = state.turns.completed + u64::from(dice.one_in(8));
            payload("run.finished", &format!("{{'final_status':'completed','turns':{turns}}}"))
        }
        3 => payload("run.failed", "{'code':'model_failed','message':'m','retriable':true}"),
        _ => payload("run.cancelled", "{'by':'operator','reason':'r'}"),
    }
}

fn rest(dice: &mut Dice<'_>, state: &State) -> Payload {
    let (kind, id) = match dice.below(3) {
        0 => ("approval", prompt(dice, state, PromptKind::Approval)),
        1 => ("clarification", prompt(dice, state, PromptKind::Clarification)),
        _ => ("handoff", prompt(dice, state, PromptKind::Handoff)),
    };
    match dice.below(12) {
        0 => payload("run.started", "{'worker_id':'w3'}"),
        1 => payload(
            "gap.run_disconnected",
            "{'since_sequence':1,'since_at':'2026-05-03T10:23:45.000Z','reason':'lost'}",
        ),
        2 | 9 if state.is_ended() => payload(
            "gap.events_pruned",
            &format!(
                "{{'first_pruned_sequence':0,'last_pruned_sequence':{},'pruned_at':'x','reason':'r'}}",
                state.next_sequence - 1
            ),
        ),
        2 => payload(
            "gap.events_pruned",
            &format!(
                "{{'first_pruned_sequence':0,'last_pruned_sequence':{},'pruned_at':'x','reason':'r'}}",
                dice.below(40)
            ),
        ),
        3 => payload("ext.acme.note", "{'n':1}"),
        4 => payload("future.thing", "{}"),
        5 => payload("user.message", "{'text':'more'}"),
        6 => payload("run.throttled", "{'reason':'full','place':2}"),
        7 => payload("assistant.image_block", "{'turn_index':0,'artifact_id':'art_1'}"),
        what => {
            let by = if kind == "clarification" { "" } else { ",'by':'performer'" };
            let (verb, more) = match (kind, what) {
                ("approval", 8) => ("timed_out", ",'after_seconds':1".to_owned()),
                ("approval", 9) => ("resolved", ",'decision':'approved'".to_owned()),
                ("approval", _) => ("resolved", ",'decision':'cancelled'".to_owned()),
                ("clarification", 8) => ("answered", ",'response':1,'by':'performer'".to_owned()),
                ("clarification", 9) => ("timed_out", ",'applied':'default'".to_owned()),
                ("clarification", _) => ("timed_out", ",'applied':'unavailable'".to_owned()),
                (_, 8) => ("timed_out", ",'after_seconds':1".to_owned()),
                (_, 9) => ("acknowledged", String::new()),
                (_, _) => ("rejected", String::new()),
            };
            payload(&format!("{kind}.{verb}"), &format!("{{'{kind}_id':'{id}'{more}{by}}}"))
        }
    }
}
