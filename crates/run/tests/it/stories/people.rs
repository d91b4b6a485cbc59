//! Runs that wait for people, with and without their answers.

use recount_run::Status;

use super::teller::Story;

pub(crate) fn all() -> Vec<(Story, Status)> {
    vec![
        (approval_granted(), Status::Finished),
        (approval_denied(), Status::Finished),
        (approval_timed_out(), Status::Finished),
        (approval_extended(), Status::Finished),
        (allowed_always(), Status::Finished),
        (partial_answers(), Status::Finished),
        (clarification(), Status::Finished),
        (clarification_timed_out(), Status::Finished),
        (clarification_extended(), Status::Finished),
        (handoff(), Status::Finished),
        (handoff_rejected(), Status::Cancelled),
        (handoff_timed_out(), Status::Failed),
        (handoff_extended(), Status::Finished),
    ]
}

fn started_run(name: &'static str, request: &str) -> Story {
    let mut story = Story::of_task(name);
    story.emit(
        0,
        "run.queued",
        &format!(
            r#"{{"kind":"agent_loop","title":"{request}","requested_by":"operator","request_text":"{request}","model":"claude-sonnet-4-5","provider":"anthropic",
                "config":{{"tools":[{{"name":"shell_exec","executor":"server","trust":"ask"}},{{"name":"ask_user","executor":"server"}},{{"name":"hand_off","executor":"server"}}]}}}}"#
        ),
    );
    story.emit(7, "run.started", r#"{"worker_id":"worker-1"}"#);
    story.turn(10, 0);
    story
}

const RISK: &str = r#""risk_level":"high","irreversible":true,"args_summary":"rm -rf node_modules""#;

/// The run has proposed to delete a folder and waits for a yes.
fn asks_to_delete(name: &'static str) -> Story {
    let mut story = started_run(name, "Free some space.");
    story.text_block(500, 0, &["The installed packages ", "take most of it."]);
    story.propose(640, "rm", "shell_exec", r#"{"command":"rm -rf node_modules"}"#);
    story.turn_done(646, "tool_use", [703, 77, 3264]);
    wants_to_delete(&mut story, 650);
    story.emit(650, "run.waiting", r#"{"for":[{"kind":"approval","id":"@appr.rm"}]}"#);
    story
}

fn wants_to_delete(story: &mut Story, at: u64) {
    let expires = at + 300_000;
    story.emit(
        at,
        "approval.requested",
        &format!(
            r#"{{"approval_id":"@appr.rm","tool_call_id":"@call.rm","kind":"shell_exec","summary":"rm -rf node_modules",
                "policy_reason":"shell_exec asks by policy all_tools","action":"Delete the folder node_modules.",
                "consequence":"The installed packages are gone until they are installed again.","risk_level":"high",
                "reversibility":"irreversible","irreversible":true,"timeout_seconds":300,"expires_at":"@at.{expires}",
                "default_decision":"reject","call_digest":"@digest.rm"}}"#
        ),
    );
}

fn closes(story: &mut Story, at: u64, turn: u64, text: &str) {
    story.turn(at, turn);
    story.text_block(at + 500, 0, &[text]);
    story.answer(at + 560, text);
    story.turn_done(at + 560, "end_turn", [812, 9, 2571]);
    story.finished(at + 563);
}

fn approval_granted() -> Story {
    let mut story = asks_to_delete("approval-granted");
    story.emit(18_200, "approval.resolved", r#"{"approval_id":"@appr.rm","decision":"approved","by":"operator","tool_call_id":"@call.rm","comment":"go ahead","scope":"once"}"#);
    story.emit(18_200, "run.continued", r#"{"by":"operator"}"#);
    story.tool(18_200, "tool.invoked", "rm", &format!(r#""executor":"server",{RISK}"#));
    story.tool(18_206, "tool.started", "rm", r#""kind":"shell""#);
    story.process(18_207, "rm", r#"["sh","-c","rm -rf node_modules"]"#, &[], (19_400, 0));
    story.tool(
        19_402,
        "tool.completed",
        "rm",
        r#""kind":"shell","duration_ms":1196,"summary":"exited with status 0","output":"""#,
    );
    closes(&mut story, 19_406, 1, "The packages are gone.");
    story
}

/// The deadline was extended by ten minutes, twice, and the answer came in the last of them.
fn approval_extended() -> Story {
    let mut story = asks_to_delete("approval-extended");
    let extended = |until: u64| {
        format!(
            r#"{{"approval_id":"@appr.rm","expires_at":"@at.{until}","seconds":600,"by":"operator","tool_call_id":"@call.rm"}}"#
        )
    };
    story.emit(240_100, "approval.extended", &extended(900_650));
    story.emit(880_000, "approval.extended", &extended(1_500_650));
    story.emit(1_400_000, "approval.resolved", r#"{"approval_id":"@appr.rm","decision":"rejected","by":"operator","tool_call_id":"@call.rm","comment":"too much"}"#);
    story.emit(1_400_000, "run.continued", r#"{"by":"operator"}"#);
    story.tool(
        1_400_000,
        "tool.refused",
        "rm",
        r#""code":"denied","message":"operator rejected the call: too much""#,
    );
    closes(&mut story, 1_400_006, 1, "The packages stay.");
    story
}

/// The same call twice: approved once, and allowed for the rest of the run.
fn allowed_always() -> Story {
    const EXITED: &str = r#""kind":"shell","duration_ms":1196,"summary":"exited with status 0","output":"""#;
    const RISK: &str =
        r#""executor":"server","kind":"shell","risk_level":"medium","args_summary":"make test""#;
    let mut story = started_run("allowed-always", "Make the tests pass.");
    story.propose(640, "once", "shell_exec", r#"{"command":"make test"}"#);
    story.turn_done(646, "tool_use", [703, 77, 3264]);
    story.emit(
        650,
        "approval.requested",
        r#"{"approval_id":"@appr.once","tool_call_id":"@call.once","kind":"shell_exec","summary":"make test",
            "action":"Run make test.","risk_level":"medium","reversibility":"partially_reversible","irreversible":false,
            "timeout_seconds":3600,"expires_at":"@at.3600650","default_decision":"reject","call_digest":"@digest.once",
            "preview":"make test","preview_kind":"command",
            "allowance_digest":"blake3:7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c"}"#,
    );
    story.emit(650, "run.waiting", r#"{"for":[{"kind":"approval","id":"@appr.once"}]}"#);
    story.emit(8_200, "approval.resolved", r#"{"approval_id":"@appr.once","decision":"approved","by":"operator","tool_call_id":"@call.once","scope":"run","allowance_id":"@allow.once"}"#);
    story.emit(8_200, "run.continued", r#"{"by":"operator"}"#);
    story.tool(8_200, "tool.invoked", "once", RISK);
    story.tool(8_206, "tool.started", "once", r#""kind":"shell""#);
    story.process(8_207, "once", r#"["sh","-c","make test"]"#, &[], (9_400, 0));
    story.tool(9_402, "tool.completed", "once", EXITED);
    story.turn(9_406, 1);
    story.propose(9_900, "again", "shell_exec", r#"{"command":"make test"}"#);
    story.turn_done(9_906, "tool_use", [780, 20, 2100]);
    let allowed = r#","allowance_id":"@allow.once","allowance_scope":"run","allowed_by":"operator""#;
    story.tool(9_910, "tool.invoked", "again", &format!("{RISK}{allowed}"));
    story.tool(9_910, "tool.started", "again", r#""kind":"shell""#);
    story.process(9_912, "again", r#"["sh","-c","make test"]"#, &[], (11_105, 0));
    story.tool(11_108, "tool.completed", "again", EXITED);
    closes(&mut story, 11_110, 2, "They pass.");
    story
}

fn approval_denied() -> Story {
    let mut story = asks_to_delete("approval-denied");
    story.emit(9_300, "approval.resolved", r#"{"approval_id":"@appr.rm","decision":"rejected","by":"operator","tool_call_id":"@call.rm","comment":"not on this machine","scope":"once"}"#);
    story.emit(9_300, "run.continued", r#"{"by":"operator"}"#);
    story.tool(
        9_300,
        "tool.refused",
        "rm",
        r#""code":"denied","message":"operator refused this call: not on this machine""#,
    );
    closes(&mut story, 9_306, 1, "Then I leave them where they are.");
    story
}

fn approval_timed_out() -> Story {
    let mut story = asks_to_delete("approval-timed-out");
    story.emit(300_650, "approval.timed_out", r#"{"approval_id":"@appr.rm","after_seconds":300,"tool_call_id":"@call.rm","decision":"rejected","by":"timeout"}"#);
    story.emit(300_650, "run.continued", r#"{"by":"timeout"}"#);
    story.tool(
        300_650,
        "tool.refused",
        "rm",
        r#""code":"timed_out","message":"the approval request for this call timed out""#,
    );
    closes(&mut story, 300_656, 1, "Nobody said yes, so nothing was deleted.");
    story
}

/// An application answers one of two: the run goes on for no longer than it takes to wait again.
fn partial_answers() -> Story {
    let mut story = started_run("partial-answers", "Free some space, and show it in a colour I like.");
    story.propose(500, "rm", "shell_exec", r#"{"command":"rm -rf node_modules"}"#);
    story.propose(560, "pick", "pick_color", r#"{"for":"bar"}"#);
    story.turn_done(566, "tool_use", [703, 91, 3474]);
    story.tool(570, "tool.invoked", "pick", r#""kind":"client","executor":"client""#);
    wants_to_delete(&mut story, 570);
    story.emit(
        570,
        "run.waiting",
        r#"{"for":[{"kind":"approval","id":"@appr.rm"},{"kind":"client_tool","id":"@call.pick"}]}"#,
    );
    story.tool(2_000, "tool.completed", "pick", r#""output":"teal""#);
    story.emit(2_000, "run.continued", r#"{"by":"application"}"#);
    story.emit(2_000, "run.waiting", r#"{"for":[{"kind":"approval","id":"@appr.rm"}]}"#);
    story.emit(
        5_000,
        "approval.resolved",
        r#"{"approval_id":"@appr.rm","decision":"approved","by":"operator","tool_call_id":"@call.rm"}"#,
    );
    story.emit(5_000, "run.continued", r#"{"by":"operator"}"#);
    story.tool(5_000, "tool.invoked", "rm", &format!(r#""executor":"server",{RISK}"#));
    story.process(5_004, "rm", r#"["sh","-c","rm -rf node_modules"]"#, &[], (5_900, 0));
    story.tool(
        5_902,
        "tool.completed",
        "rm",
        r#""kind":"shell","duration_ms":898,"summary":"exited with status 0","output":"""#,
    );
    closes(&mut story, 5_906, 1, "Free, and teal.");
    story
}

/// The run requests the version and waits for an answer.
fn asks_which(name: &'static str) -> Story {
    let mut story = started_run(name, "Make the budget generic.");
    story.propose(
        500,
        "ask",
        "ask_user",
        r#"{"question":"Which Go version should the module need?","choices":["1.18","1.22"]}"#,
    );
    story.turn_done(506, "tool_use", [703, 52, 2889]);
    story.emit(
        510,
        "clarification.requested",
        r#"{"clarification_id":"@clar.ask","question":"Which Go version should the module need?","tool_call_id":"@call.ask",
            "context":"Generics need 1.18; go.mod says 1.17.","accepted_response_kinds":["choice","text"],
            "choices":[{"id":"1.18","label":"Go 1.18"},{"id":"1.22","label":"Go 1.22"}],
            "default_response":{"choice":"1.18"},"timeout_seconds":600,"expires_at":"@at.600510"}"#,
    );
    story.emit(510, "run.waiting", r#"{"for":[{"kind":"clarification","id":"@clar.ask"}]}"#);
    story
}

fn clarification() -> Story {
    let mut story = asks_which("clarification");
    story.emit(22_040, "clarification.answered", r#"{"clarification_id":"@clar.ask","response":{"choice":"1.22"},"by":"operator","tool_call_id":"@call.ask"}"#);
    story.emit(22_040, "run.continued", r#"{"by":"operator"}"#);
    story.tool(22_040, "tool.invoked", "ask", r#""executor":"server""#);
    story.tool(22_040, "tool.completed", "ask", r#""output":{"choice":"1.22"}"#);
    closes(&mut story, 22_046, 1, "Go 1.22, then.");
    story
}

fn clarification_timed_out() -> Story {
    let mut story = asks_which("clarification-timed-out");
    story.emit(600_510, "clarification.timed_out", r#"{"clarification_id":"@clar.ask","applied":"default","tool_call_id":"@call.ask","response":{"choice":"1.18"},"after_seconds":600,"by":"timeout"}"#);
    story.emit(600_510, "run.continued", r#"{"by":"timeout"}"#);
    story.tool(600_510, "tool.invoked", "ask", r#""executor":"server""#);
    story.tool(600_510, "tool.completed", "ask", r#""output":{"choice":"1.18"}"#);
    closes(&mut story, 600_516, 1, "Go 1.18 it is, as nobody objected.");
    story
}

fn clarification_extended() -> Story {
    let mut story = asks_which("clarification-extended");
    story.emit(590_000, "clarification.extended", r#"{"clarification_id":"@clar.ask","expires_at":"@at.900510","seconds":300,"by":"operator","tool_call_id":"@call.ask"}"#);
    story.emit(890_000, "clarification.answered", r#"{"clarification_id":"@clar.ask","response":{"choice":"1.22"},"by":"operator","tool_call_id":"@call.ask"}"#);
    story.emit(890_000, "run.continued", r#"{"by":"operator"}"#);
    story.tool(890_000, "tool.invoked", "ask", r#""executor":"server""#);
    story.tool(890_000, "tool.completed", "ask", r#""output":{"choice":"1.22"}"#);
    closes(&mut story, 890_006, 1, "Go 1.22, then.");
    story
}

/// The run has given up and waits for a takeover.
fn hands_off(name: &'static str) -> Story {
    let mut story = started_run(name, "Merge the budgets of two customers.");
    story.text_block(500, 0, &["This is not for me ", "to decide."]);
    story.propose(640, "off", "hand_off", r#"{"reason":"The change touches billing rules that need an owner.","target_kind":"escalation_queue"}"#);
    story.turn_done(646, "tool_use", [703, 61, 3024]);
    story.emit(
        650,
        "handoff.requested",
        r#"{"handoff_id":"@hand.off","reason":"The change touches billing rules that need an owner.","target_kind":"escalation_queue","tool_call_id":"@call.off",
            "target_uri":"queue://billing/owners","packaged_context":{"user_request_summary":"Merge the budgets of two customers.","tools_invoked":[],"outstanding_question":"May two customers share a budget?"},
            "urgency_for_handoff":"medium","summary_terse":"Handing off to the billing owners.","summary_normal":"This needs a decision by the billing owners. I am handing it over.",
            "timeout_seconds":86400,"expires_at":"@at.86400650"}"#,
    );
    story.emit(650, "run.waiting", r#"{"for":[{"kind":"handoff","id":"@hand.off"}]}"#);
    story
}

fn handoff() -> Story {
    let mut story = hands_off("handoff");
    story.emit(
        61_300,
        "handoff.acknowledged",
        r#"{"handoff_id":"@hand.off","by":"dana","tool_call_id":"@call.off","comment":"I have it."}"#,
    );
    story.emit(61_300, "run.continued", r#"{"by":"dana"}"#);
    story.tool(61_300, "tool.invoked", "off", r#""executor":"server""#);
    story.tool(61_300, "tool.completed", "off", r#""summary":"dana took over""#);
    story.finished_as(61_300, "handed_off");
    story
}

fn handoff_extended() -> Story {
    let mut story = hands_off("handoff-extended");
    story.emit(
        61_300,
        "handoff.extended",
        r#"{"handoff_id":"@hand.off","expires_at":"@at.90000650","seconds":3600,"by":"dana","tool_call_id":"@call.off"}"#,
    );
    let at = 89_000_000;
    story.emit(
        at,
        "handoff.acknowledged",
        r#"{"handoff_id":"@hand.off","by":"dana","tool_call_id":"@call.off"}"#,
    );
    story.emit(at, "run.continued", r#"{"by":"dana"}"#);
    story.tool(at, "tool.invoked", "off", r#""executor":"server""#);
    story.tool(at, "tool.completed", "off", r#""summary":"dana took over""#);
    story.finished_as(at, "handed_off");
    story
}

fn handoff_rejected() -> Story {
    let mut story = hands_off("handoff-rejected");
    story.emit(61_300, "handoff.rejected", r#"{"handoff_id":"@hand.off","by":"dana","tool_call_id":"@call.off","reason":"not a billing matter"}"#);
    story.emit(61_300, "run.continued", r#"{"by":"dana"}"#);
    story.tool(61_300, "tool.invoked", "off", r#""executor":"server""#);
    story.tool(61_300, "tool.failed", "off", r#""code":"handoff_rejected","error":"dana did not take over""#);
    story.cancelled(61_300, "operator", "dana did not take over: not a billing matter");
    story
}

fn handoff_timed_out() -> Story {
    let mut story = hands_off("handoff-timed-out");
    let at = 86_400_650;
    story.emit(
        at,
        "handoff.timed_out",
        r#"{"handoff_id":"@hand.off","after_seconds":86400,"tool_call_id":"@call.off"}"#,
    );
    story.emit(at, "run.continued", r#"{"by":"timeout"}"#);
    story.tool(at, "tool.invoked", "off", r#""executor":"server""#);
    story.tool(at, "tool.timed_out", "off", r#""code":"handoff_timed_out","error":"the handoff timed out""#);
    story.failed(at, "handoff_timed_out", "the handoff timed out", false);
    story
}
