//! Runs in which the model does nothing but speak, and what may cut it off.

use recount_run::Status;

use super::teller::Story;

pub(crate) fn all() -> Vec<(Story, Status)> {
    let failed = failed_mid_text();
    let resumed = resumed_run(&failed);
    vec![
        (plain_answer(), Status::Finished),
        (stop("stop-end-turn", "end_turn", "The budget is checked before each turn."), Status::Finished),
        (
            stop("stop-max-tokens", "max_tokens", "The budget is checked before each turn, and then the"),
            Status::Finished,
        ),
        (stop("stop-refusal", "refusal", "I will not help to get around a budget."), Status::Finished),
        (stop_error(), Status::Failed),
        (failed, Status::Failed),
        (resumed, Status::Finished),
        (budget_exceeded(), Status::Failed),
        (compacted(), Status::Finished),
        (trimmed(), Status::Finished),
        (never_started(), Status::Cancelled),
        (experimental(), Status::Finished),
    ]
}

const IN_SESSION: &str = r#"{"kind":"agent_loop","agent":{"name":"recount","version":"0.1.0"},"requested_by":"operator",
    "model":"claude-sonnet-4-5","provider":"anthropic","request_text":"When is the budget checked?",
    "config":{"tools":[],"options":{"max_tokens":1024}}}"#;

fn session_run(name: &'static str) -> Story {
    let mut story = Story::of_session(name);
    story.emit(0, "run.queued", IN_SESSION);
    story.emit(
        0,
        "user.message",
        r#"{"text":"When is the budget checked?","message_id":"@msg.question","blocks":[{"type":"text","text":"When is the budget checked?"}]}"#,
    );
    story.emit(6, "run.started", r#"{"worker_id":"worker-1","lease_until":"@at.30006"}"#);
    story
}

fn plain_answer() -> Story {
    let mut story = session_run("plain-answer");
    story.turn(9, 0);
    story.text_block(
        640,
        0,
        &[
            "The budget is checked ",
            "twice: before a turn, ",
            "and again – with the real figures – ",
            "after it. ✔",
        ],
    );
    story.answer(820, "The budget is checked before and after each turn.");
    story.turn_done(820, "end_turn", [412, 38, 1806]);
    story.finished(824);
    story
}

fn stop(name: &'static str, reason: &str, text: &str) -> Story {
    let mut story = session_run(name);
    story.turn(9, 0);
    let half = text.char_indices().nth(20).map_or(text.len(), |(at, _)| at);
    story.text_block(512, 0, &[&text[..half], &text[half..]]);
    story.turn_done(700, reason, [408, 14, 1434]);
    story.finished(703);
    story
}

fn stop_error() -> Story {
    let mut story = session_run("stop-error");
    story.turn(9, 0);
    story.text_block(512, 0, &["The budget "]);
    story.turn_done(700, "error", [408, 3, 1269]);
    story.failed(703, "model_error", "the model stopped with an error", true);
    story
}

fn failed_mid_text() -> Story {
    let mut story = Story::of_task("failed-mid-text");
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"agent_loop","title":"Describe the budget","requested_by":"operator","request_text":"Describe how the budget works.",
            "model":"claude-sonnet-4-5","provider":"anthropic","workspace_path":"/srv/recount/workspaces/budget","workspace_mode":"clone"}"#,
    );
    story.emit(8, "run.started", r#"{"worker_id":"worker-1"}"#);
    story.turn(11, 0);
    story.propose(900, "read", "read_file", r#"{"path":"internal/budget/governor.go"}"#);
    story.turn_done(910, "tool_use", [603, 41, 2424]);
    story.tool(915, "tool.invoked", "read", r#""kind":"file","executor":"server""#);
    story.tool_event(
        921,
        "tool.file_read.completed",
        "read",
        r#""path":"internal/budget/governor.go","size_bytes":8124,"lines":312,"truncated":false"#,
    );
    story.tool(
        921,
        "tool.completed",
        "read",
        r#""kind":"file","duration_ms":6,"summary":"312 lines","output":"package budget\n""#,
    );
    story.emit(930, "run.checkpoint_saved", r#"{"checkpoint_id":"@ckpt.one"}"#);
    story.turn(934, 1);
    story.pieces(1500, 0, &["A governor ", "holds one "]);
    let upstream = |attempt: u64| {
        format!(
            r#"{{"provider":"anthropic","message":"the provider answered overloaded_error","retriable":true,"status":529,"attempt":{attempt},"max_attempts":2}}"#
        )
    };
    story.emit(1800, "error.upstream", &upstream(1));
    story.emit(
        1800,
        "assistant.text_complete",
        r#"{"turn_index":1,"block_index":0,"text":"A governor holds one ","aborted":true}"#,
    );
    story.turn_failed(1800, "model_overloaded", "the provider answered 529", true);
    story.turn(3800, 1);
    story.pieces(4400, 1, &["A governor holds"]);
    story.emit(5100, "error.upstream", &upstream(2));
    story.emit(
        5100,
        "assistant.text_complete",
        r#"{"turn_index":1,"block_index":1,"text":"A governor holds","aborted":true}"#,
    );
    story.turn_failed(5100, "model_overloaded", "the provider answered 529 twice", false);
    story.failed(5102, "model_unreachable", "the provider answered 529 twice", true);
    story
}

fn resumed_run(failed: &Story) -> Story {
    let mut story = Story::after("resumed-run", failed);
    let from_sequence = failed.place("run.checkpoint_saved");
    story.emit(
        0,
        "run.resumed_from_event",
        &format!(r#"{{"from_run_id":"@run.failed-mid-text","from_sequence":{from_sequence},"prior_cost_micros_usd":2424}}"#),
    );
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"agent_loop","title":"Describe the budget","requested_by":"operator","request_text":"Describe how the budget works.",
            "model":"claude-sonnet-4-5","provider":"anthropic","workspace_path":"/srv/recount/workspaces/budget","workspace_mode":"clone",
            "prior_run_id":"@run.failed-mid-text","prior_cost_micros_usd":2424,"prior_input_tokens":603,"prior_output_tokens":41,"budget_warned":false}"#,
    );
    story.emit(7, "run.started", r#"{"worker_id":"worker-2"}"#);
    story.turn(10, 0);
    story.text_block(700, 0, &["A governor holds one ", "budget for each key."]);
    story.answer(790, "A governor holds one budget for each key.");
    story.turn_done(790, "end_turn", [911, 52, 3513]);
    story.finished(793);
    story
}

fn budget_exceeded() -> Story {
    let mut story = Story::of_task("budget-exceeded").with_budget(6000);
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"agent_loop","title":"Describe every package","request_text":"Describe every package.","model":"claude-sonnet-4-5",
            "provider":"anthropic","task_budget_micros_usd":6000}"#,
    );
    story.emit(8, "run.started", r#"{"worker_id":"worker-1"}"#);
    story.turn(11, 0);
    story.propose(800, "list", "glob", r#"{"pattern":"internal/*"}"#);
    story.turn_done(805, "tool_use", [1204, 83, 4857]);
    story.emit(
        805,
        "cost.budget_warning",
        r#"{"threshold_pct":80,"cumulative_cost_micros_usd":4857,"task_budget_micros_usd":6000}"#,
    );
    story.tool(809, "tool.invoked", "list", r#""kind":"file","executor":"server""#);
    story.tool_event(812, "tool.glob.completed", "list", r#""pattern":"internal/*","matches":["internal/budget","internal/keys"],"match_count":2,"truncated":false"#);
    story.tool(
        812,
        "tool.completed",
        "list",
        r#""kind":"file","duration_ms":3,"summary":"2 matches","output":"internal/budget\ninternal/keys""#,
    );
    story.turn(816, 1);
    story.propose(1500, "read", "read_file", r#"{"path":"internal/budget/governor.go"}"#);
    story.turn_done(1506, "tool_use", [1311, 40, 4533]);
    story.emit(
        1506,
        "cost.budget_exceeded",
        r#"{"cumulative_cost_micros_usd":9390,"task_budget_micros_usd":6000,"action":"halted"}"#,
    );
    story.tool(
        1506,
        "tool.refused",
        "read",
        r#""code":"budget","message":"The budget of the task is used up.""#,
    );
    story.failed(1506, "budget_exceeded", "the task's budget of 6000 micro-dollars is used up", false);
    story
}

fn compacted() -> Story {
    let mut story = session_run("long-conversation");
    story.emit(
        9,
        "context.compacted",
        r#"{"through_run_id":"@run.plain-answer","through_sequence":9,"summary":"The budget is checked before and after each turn.","tokens_before":91200,"tokens_after":2140}"#,
    );
    story.emit(10, "policy.model_rewrote", r#"{"from_model":"claude-opus-4-5","to_model":"claude-sonnet-4-5","reason":"rewrite rule: cost-cap"}"#);
    story.emit(
        10,
        "error.model_capability_missing",
        r#"{"model":"claude-sonnet-4-5","missing_capability":"audio_input","fallback_strategy":"transcript"}"#,
    );
    story.turn(11, 0);
    story.emit(
        690,
        "assistant.text_complete",
        r#"{"turn_index":0,"block_index":0,"text":"As before: twice."}"#,
    );
    story.turn_done(700, "end_turn", [2290, 6, 6960]);
    story.finished(703);
    story
}

/// A long run whose older results the model sees in part only.
fn trimmed() -> Story {
    let mut story = session_run("long-run");
    story.turn(11, 0);
    story.propose(800, "search", "grep", r#"{"pattern":"budget"}"#);
    story.turn_done(805, "tool_use", [1204, 83, 4857]);
    story.tool(809, "tool.invoked", "search", r#""kind":"search","executor":"server""#);
    story.tool(
        812,
        "tool.completed",
        "search",
        r#""kind":"search","duration_ms":3,"summary":"1 match","output":"internal/budget/governor.go:41: // The budget is checked before each turn.""#,
    );
    story.emit(
        814,
        "context.trimmed",
        r#"{"results":[{"tool_call_id":"@call.search","bytes":74,"kept_bytes":20}],"tokens_before":91200,"tokens_after":91186}"#,
    );
    story.turn(816, 1);
    story.emit(
        1490,
        "assistant.text_complete",
        r#"{"turn_index":1,"block_index":0,"text":"Before each turn."}"#,
    );
    story.turn_done(1500, "end_turn", [1311, 6, 4533]);
    story.finished(1503);
    story
}

fn never_started() -> Story {
    let mut story = Story::of_task("cancelled-in-queue");
    story.emit(0, "run.queued", r#"{"kind":"agent_loop","title":"Describe the budget","request_text":"Describe how the budget works."}"#);
    story.emit(3, "run.throttled", r#"{"reason":"runs_active_max","place":2}"#);
    story.emit(2100, "user.attachment", r#"{"kind":"image","mime":"image/png","artifact_id":"@art.sketch"}"#);
    story.emit(61_000, "run.cancelled", r#"{"by":"shutdown","reason":"the server is going down"}"#);
    story
}

fn experimental() -> Story {
    let mut story = session_run("experimental");
    story.emit(
        6,
        "run.branched_from",
        r#"{"from_run_id":"@run.plain-answer","from_sequence":1,"reason":"with thinking"}"#,
    );
    story.turn(9, 0);
    let thinking = |rest: &str| format!(r#"{{"turn_index":0,"block_index":0,{rest}}}"#);
    story.emit(300, "assistant.thinking_delta", &thinking(r#""delta":"Checked where? ""#));
    story.emit(340, "assistant.thinking_delta", &thinking(r#""delta":"In the governor.""#));
    story.emit(340, "assistant.thinking_complete", &thinking(r#""text":"Checked where? In the governor.""#));
    story.emit(
        400,
        "assistant.tool_call_input_delta",
        r#"{"turn_index":0,"tool_call_id":"@call.child","delta":"{\"task\":\"find "}"#,
    );
    story.propose(480, "child", "delegate", r#"{"task":"find the checks"}"#);
    story.turn_done(490, "tool_use", [512, 61, 2451]);
    story.tool(495, "tool.invoked", "child", r#""kind":"agent","executor":"server""#);
    story.tool_event(
        498,
        "child_run.started",
        "child",
        r#""child_run_id":"@run.todo-and-search","summary":"find the checks""#,
    );
    story.tool(4000, "tool.completed", "child", r#""kind":"agent","duration_ms":3505,"summary":"2 places","output":"governor.go:84 and governor.go:131""#);
    story.turn(4005, 1);
    story.emit(4600, "assistant.image_block", r#"{"turn_index":1,"artifact_id":"@art.picture","mime":"image/png","summary":"where the budget is checked"}"#);
    story.text_block(4700, 0, &["In two places."]);
    story.turn_done(4800, "end_turn", [602, 12, 1986]);
    story.finished(4803);
    story
}
