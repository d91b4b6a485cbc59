//! Runs that are stopped or lost on the way.

use recount_run::Status;

use super::teller::Story;

pub(crate) fn all() -> Vec<(Story, Status)> {
    vec![
        (cancelled_mid_tool(), Status::Cancelled),
        (cancelled_while_waiting(), Status::Cancelled),
        (crash_and_takeover(), Status::Finished),
    ]
}

fn started_run(name: &'static str) -> Story {
    let mut story = Story::of_task(name);
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"agent_loop","title":"Test the budget","requested_by":"operator","request_text":"Run the tests of the budget.","model":"claude-sonnet-4-5","provider":"anthropic"}"#,
    );
    story.emit(7, "run.started", r#"{"worker_id":"worker-1","lease_until":"@at.30007"}"#);
    story.turn(10, 0);
    story
}

fn cancelled_mid_tool() -> Story {
    let mut story = started_run("cancelled-mid-tool");
    story.propose(500, "tests", "shell_exec", r#"{"command":"go test ./..."}"#);
    story.propose(560, "lint", "shell_exec", r#"{"command":"go vet ./..."}"#);
    story.turn_done(566, "tool_use", [703, 66, 3099]);
    story.tool(570, "tool.invoked", "tests", r#""kind":"shell","executor":"server""#);
    story.tool_event(571, "tool.shell.command", "tests", r#""argv":["sh","-c","go test ./..."],"cwd":"/srv/recount/workspaces/budget","env_keys":["PATH","HOME"],"sandbox_layer":"bwrap""#);
    story.tool_event(
        900,
        "tool.shell.output_chunk",
        "tests",
        r#""stream":"stdout","data":"ok  \tinternal/keys\t0.101s\n","byte_offset":0"#,
    );
    story.tool(2_780, "tool.cancelled", "tests", r#""code":"cancelled","error":"wrong branch""#);
    story.tool(2_780, "tool.refused", "lint", r#""code":"cancelled","message":"wrong branch""#);
    story.cancelled(2_780, "operator", "wrong branch");
    // The worker was stopped but did not report it; its lease expired after the ending.
    let since = story.events.len() - 1;
    story.emit(
        30_007,
        "gap.run_disconnected",
        &format!(r#"{{"since_sequence":{since},"since_at":"@at.2780","reason":"worker_lease_expired"}}"#),
    );
    story
}

fn cancelled_while_waiting() -> Story {
    let mut story = started_run("cancelled-while-waiting");
    story.propose(500, "push", "shell_exec", r#"{"command":"git push"}"#);
    story.turn_done(506, "tool_use", [703, 31, 2574]);
    story.emit(510, "approval.requested", r#"{"approval_id":"@appr.push","tool_call_id":"@call.push","kind":"shell_exec","summary":"git push","risk_level":"high","default_decision":"reject","timeout_seconds":300,"expires_at":"@at.300510","call_digest":"@digest.push"}"#);
    story.emit(510, "run.waiting", r#"{"for":[{"kind":"approval","id":"@appr.push"}]}"#);
    story.emit(7_000, "approval.resolved", r#"{"approval_id":"@appr.push","decision":"cancelled","by":"system","tool_call_id":"@call.push","comment":"the task was deleted"}"#);
    story.tool(7_000, "tool.refused", "push", r#""code":"cancelled","message":"the task was deleted""#);
    story.cancelled(7_000, "system", "the task was deleted");
    story
}

/// The worker is lost while the model speaks and a tool runs. What we did is not done again by itself.
fn crash_and_takeover() -> Story {
    let mut story = started_run("crash-and-takeover");
    story.text_block(500, 0, &["I'll run the tests."]);
    story.propose(560, "tests", "shell_exec", r#"{"command":"go test ./..."}"#);
    story.tool(564, "tool.invoked", "tests", r#""kind":"shell","executor":"server""#);
    story.tool_event(565, "tool.shell.command", "tests", r#""argv":["sh","-c","go test ./..."],"cwd":"/srv/recount/workspaces/budget","env_keys":["PATH","HOME"],"sandbox_layer":"bwrap""#);
    story.pieces(600, 1, &["Meanwhile I ", "look at"]);
    let since = story.events.len() - 1;
    story.emit(
        30_700,
        "gap.run_disconnected",
        &format!(r#"{{"since_sequence":{since},"since_at":"@at.640","reason":"worker_lease_expired"}}"#),
    );
    story.emit(
        30_700,
        "assistant.text_complete",
        r#"{"turn_index":0,"block_index":1,"text":"Meanwhile I look at","aborted":true}"#,
    );
    story.tool(30_700, "tool.failed", "tests", r#""code":"interrupted","error":"worker_lease_expired""#);
    story.turn_failed(30_700, "interrupted", "worker_lease_expired", true);
    story.emit(30_700, "run.started", r#"{"worker_id":"worker-2","lease_until":"@at.60700"}"#);
    story.turn(30_704, 0);
    story.text_block(31_200, 2, &["The tests were interrupted; ", "once more."]);
    story.propose(31_300, "again", "shell_exec", r#"{"command":"go test ./..."}"#);
    story.turn_done(31_306, "tool_use", [790, 58, 3240]);
    story.tool(31_310, "tool.invoked", "again", r#""kind":"shell","executor":"server""#);
    story.tool(31_311, "tool.started", "again", r#""kind":"shell""#);
    story.process(
        31_312,
        "again",
        r#"["sh","-c","go test ./..."]"#,
        &[(32_900, 'o', b"ok  \tinternal/budget\t0.231s\n"), (33_000, 'o', b"ok  \tinternal/keys\t0.101s\n")],
        (33_010, 0),
    );
    story.tool(33_012, "tool.completed", "again", r#""kind":"shell","duration_ms":1702,"summary":"exited with status 0","output":"ok  \tinternal/budget\t0.231s\nok  \tinternal/keys\t0.101s\n""#);
    story.turn(33_016, 1);
    story.text_block(33_500, 0, &["All tests pass."]);
    story.answer(33_560, "All tests pass.");
    story.turn_done(33_560, "end_turn", [902, 8, 2826]);
    story.finished(33_563);
    story
}
