//! Runs in which tools run: one after the other, side by side, as a program of their own, from outside.

use recount_run::Status;

use super::teller::Story;

pub(crate) fn all() -> Vec<(Story, Status)> {
    vec![
        (two_tools(), Status::Finished),
        (parallel_tools(), Status::Finished),
        (todo_and_search(), Status::Finished),
        (http_and_web(), Status::Finished),
        (mcp_and_refusals(), Status::Finished),
        (client_tool(), Status::Finished),
        (shell(), Status::Finished),
        (git(), Status::Finished),
        (file(), Status::Finished),
        (file_revert(), Status::Finished),
        (external_producer(), Status::Finished),
    ]
}

fn started_run(name: &'static str, request: &str) -> Story {
    let mut story = Story::of_task(name);
    story.emit(
        0,
        "run.queued",
        &format!(
            r#"{{"kind":"agent_loop","title":"{request}","agent":{{"name":"recount","version":"0.1.0"}},"requested_by":"operator","request_text":"{request}",
                "model":"claude-sonnet-4-5","provider":"anthropic","workspace_path":"/srv/recount/workspaces/budget","workspace_mode":"clone",
                "config":{{"tools":[{{"name":"read_file","executor":"server","trust":"always"}},{{"name":"shell_exec","executor":"server","trust":"ask"}}],"provider_key":{{"secret":"anthropic"}}}}}}"#
        ),
    );
    story.emit(7, "run.started", r#"{"worker_id":"worker-1","lease_until":"@at.30007"}"#);
    story
}

fn two_tools() -> Story {
    let mut story = started_run("two-tools", "How is the budget keyed?");
    story.turn(10, 0);
    story.text_block(600, 0, &["I'll start by reading ", "the budget package."]);
    story.propose(760, "read", "read_file", r#"{"path":"internal/budget/governor.go"}"#);
    story.turn_done(766, "tool_use", [803, 71, 3474]);
    story.tool(770, "tool.invoked", "read", r#""kind":"file","executor":"server","risk_level":"low","irreversible":false,"args_summary":"internal/budget/governor.go""#);
    story.tool(771, "tool.started", "read", r#""kind":"file""#);
    story.tool_event(776, "tool.file_read.completed", "read", r#""path":"internal/budget/governor.go","size_bytes":8124,"lines":312,"snippet_artifact_id":"@art.snippet","truncated":true"#);
    story.tool(776, "tool.completed", "read", r#""kind":"file","duration_ms":6,"summary":"312 lines","output":"package budget\n\nfunc budgetKeyForRequest(","result_artifact_id":"@art.snippet""#);
    story.emit(777, "run.checkpoint_saved", r#"{"checkpoint_id":"@ckpt.one"}"#);
    story.turn(780, 1);
    story.propose(1400, "tests", "shell_exec", r#"{"command":"go test ./internal/budget/..."}"#);
    story.turn_done(1404, "tool_use", [1104, 33, 3807]);
    story.tool(1408, "tool.invoked", "tests", r#""kind":"shell","executor":"server","risk_level":"medium","irreversible":false,"args_summary":"go test ./internal/budget/...""#);
    story.tool(1409, "tool.started", "tests", r#""kind":"shell""#);
    story.process(
        1410,
        "tests",
        r#"["sh","-c","go test ./internal/budget/..."]"#,
        &[(2900, 'o', b"ok  \tgithub.com/acme/gateway/internal/budget\t0.231s\n")],
        (2910, 0),
    );
    story.tool(2912, "tool.completed", "tests", r#""kind":"shell","duration_ms":1504,"summary":"exited with status 0","output":"ok  \tgithub.com/acme/gateway/internal/budget\t0.231s\n""#);
    story.turn(2915, 2);
    story.text_block(3500, 0, &["The key is made of the scope alone; ", "the tests pass."]);
    story.answer(3600, "The key is made of the scope alone; the tests pass.");
    story.turn_done(3600, "end_turn", [1199, 30, 4047]);
    story.finished(3603);
    story
}

fn parallel_tools() -> Story {
    let mut story = started_run("parallel-tools", "Where is the budget used?");
    story.turn(10, 0);
    story.propose(700, "list", "glob", r#"{"pattern":"internal/**/*.go"}"#);
    story.propose(760, "grep", "grep", r#"{"pattern":"budgetKeyForRequest"}"#);
    story.propose(830, "read", "read_file", r#"{"path":"internal/budget/missing.go"}"#);
    story.turn_done(836, "tool_use", [803, 121, 4224]);
    for (label, kind) in [("list", "file"), ("grep", "file"), ("read", "file")] {
        story.tool(840, "tool.invoked", label, &format!(r#""kind":"{kind}","executor":"server""#));
    }
    story.tool(844, "tool.failed", "read", r#""kind":"file","duration_ms":4,"summary":"no such file","error":"internal/budget/missing.go does not exist","code":"not_found","output":"internal/budget/missing.go does not exist""#);
    story.tool_event(861, "tool.grep.completed", "grep", r#""pattern":"budgetKeyForRequest","files_searched":312,"matches":[{"path":"internal/budget/governor.go","line":84,"text":"func budgetKeyForRequest(scope types.RequestScope) string {"},{"path":"internal/budget/governor.go","line":131,"text":"\tkey := budgetKeyForRequest(scope)"}],"match_count":2,"truncated":false"#);
    story.tool_event(866, "tool.glob.completed", "list", r#""pattern":"internal/**/*.go","matches":["internal/budget/governor.go","internal/keys/keys.go"],"match_count":47,"truncated":true"#);
    story.tool(866, "tool.completed", "list", r#""kind":"file","duration_ms":26,"summary":"47 matches","output":"internal/budget/governor.go\ninternal/keys/keys.go""#);
    story.tool(870, "tool.completed", "grep", r#""kind":"file","duration_ms":30,"summary":"2 matches","output":"internal/budget/governor.go:84\ninternal/budget/governor.go:131""#);
    story.turn(874, 1);
    story.text_block(1300, 0, &["In ", "governor.go, ", "twice."]);
    story.answer(1400, "In governor.go, twice.");
    story.turn_done(1400, "end_turn", [1310, 9, 4065]);
    story.finished(1404);
    story
}

fn todo_and_search() -> Story {
    let mut story = started_run("todo-and-search", "Make the budget key generic.");
    let list = |done: usize| {
        let todo = |(place, content): (usize, &str)| {
            let status = match place.cmp(&done) {
                std::cmp::Ordering::Less => "completed",
                std::cmp::Ordering::Equal => "in_progress",
                std::cmp::Ordering::Greater => "pending",
            };
            format!(r#"{{"content":"{content}","status":"{status}"}}"#)
        };
        let todos: Vec<String> =
            ["Find the key", "Find its tests", "Report"].into_iter().enumerate().map(todo).collect();
        format!("[{}]", todos.join(","))
    };
    for (turn, labels) in (0_u64..).zip([["todo-0", "grep"], ["todo-1", "glob"]]) {
        let [todo, search] = labels;
        let at = 10 + turn * 1000;
        let done = usize::try_from(turn).unwrap();
        story.turn(at, turn);
        story.propose(at + 500, todo, "todo_write", &format!(r#"{{"todos":{}}}"#, list(done)));
        let pattern = if search == "grep" { "budgetKeyForRequest" } else { "**/*_test.go" };
        story.propose(at + 560, search, search, &format!(r#"{{"pattern":"{pattern}"}}"#));
        story.turn_done(at + 566, "tool_use", [700 + 300 * turn, 92, 3480 + 900 * turn]);
        story.tool(at + 570, "tool.invoked", todo, r#""kind":"todo","executor":"server""#);
        story.tool(at + 570, "tool.invoked", search, r#""kind":"file","executor":"server""#);
        story.tool_event(
            at + 571,
            "tool.todo_write.updated",
            todo,
            &format!(r#""todos":{},"tool_name":"todo_write""#, list(done)),
        );
        story.tool(
            at + 571,
            "tool.completed",
            todo,
            r#""kind":"todo","duration_ms":1,"summary":"3 things to do","output":"ok""#,
        );
        if search == "grep" {
            story.tool_event(at + 590, "tool.grep.completed", search, r#""pattern":"budgetKeyForRequest","files_searched":312,"matches":[{"path":"internal/budget/governor.go","line":84,"text":"func budgetKeyForRequest("}],"match_count":1,"truncated":false"#);
        } else {
            story.tool_event(
                at + 590,
                "tool.glob.completed",
                search,
                r#""pattern":"**/*_test.go","matches":[],"match_count":0,"truncated":false"#,
            );
        }
        story.tool(
            at + 590,
            "tool.completed",
            search,
            r#""kind":"file","duration_ms":20,"summary":"done","output":"internal/budget/governor.go:84""#,
        );
    }
    story.turn(2010, 2);
    story.propose(2400, "todo-2", "todo_write", r#"{"todos":[]}"#);
    story.turn_done(2406, "tool_use", [1400, 20, 4500]);
    story.tool(2410, "tool.invoked", "todo-2", r#""kind":"todo","executor":"server""#);
    story.tool_event(2411, "tool.todo_write.updated", "todo-2", r#""todos":[]"#);
    story.tool(
        2411,
        "tool.completed",
        "todo-2",
        r#""kind":"todo","duration_ms":1,"summary":"nothing left to do","output":"ok""#,
    );
    story.turn(2415, 3);
    story.text_block(2900, 0, &["One function, ", "no tests."]);
    story.answer(3000, "One function, no tests.");
    story.turn_done(3000, "end_turn", [1450, 11, 4515]);
    story.finished(3003);
    story
}

fn http_and_web() -> Story {
    let mut story = started_run("http-and-web", "What do others say of generic keys?");
    story.turn(10, 0);
    story.propose(500, "search", "web_search", r#"{"query":"go generics comparable map key"}"#);
    story.propose(
        560,
        "status",
        "http_request",
        r#"{"method":"GET","url":"https://api.example.com/v1/status"}"#,
    );
    story.turn_done(566, "tool_use", [803, 96, 3849]);
    story.tool(570, "tool.invoked", "search", r#""kind":"web","executor":"server""#);
    story.tool(570, "tool.invoked", "status", r#""kind":"http","executor":"server""#);
    story.tool_event(
        571,
        "tool.web_search.requested",
        "search",
        r#""query":"go generics comparable map key""#,
    );
    story.tool_event(571, "tool.http.requested", "status", r#""method":"GET","url":"https://api.example.com/v1/status","header_keys":["Authorization","Accept"]"#);
    story.tool_event(
        903,
        "tool.http.response",
        "status",
        r#""status":503,"duration_ms":332,"body_artifact_id":"@art.body","body_truncated":false"#,
    );
    story.emit(903, "artifact.created", r#"{"artifact_id":"@art.body","kind":"fetched_resource","size_bytes":41,"summary":"GET https://api.example.com/v1/status","mime":"application/json","tool_call_id":"@call.status"}"#);
    story.tool(903, "tool.failed", "status", r#""kind":"http","duration_ms":333,"summary":"answered 503","error":"the server answered 503","code":"http_status","output":"503 Service Unavailable""#);
    story.tool_event(1400, "tool.web_search.response", "search", r#""duration_ms":829,"hits":[{"title":"Tutorial: Getting started with generics","url":"https://go.dev/doc/tutorial/generics"}]"#);
    story.tool(
        1400,
        "tool.completed",
        "search",
        r#""kind":"web","duration_ms":830,"summary":"1 hit","output":"https://go.dev/doc/tutorial/generics""#,
    );
    story.turn(1404, 1);
    story.propose(1900, "fetch", "web_fetch", r#"{"url":"https://go.dev/doc/tutorial/generics"}"#);
    story.turn_done(1906, "tool_use", [1007, 44, 3681]);
    story.tool(1910, "tool.invoked", "fetch", r#""kind":"web","executor":"server""#);
    story.tool_event(
        1911,
        "tool.web_fetch.requested",
        "fetch",
        r#""method":"GET","url":"https://go.dev/doc/tutorial/generics","header_keys":["Accept"]"#,
    );
    story.tool_event(2544, "tool.web_fetch.response", "fetch", r#""status":200,"duration_ms":633,"body_artifact_id":"@art.page","body_truncated":true,"extracted_text_artifact_id":"@art.text""#);
    story.emit(2544, "artifact.created", r#"{"artifact_id":"@art.page","kind":"fetched_resource","size_bytes":1048576,"summary":"GET https://go.dev/doc/tutorial/generics","mime":"text/html","tool_call_id":"@call.fetch"}"#);
    story.emit(2544, "artifact.referenced", r#"{"artifact_id":"@art.page","relation":"consumed"}"#);
    story.tool(2544, "tool.completed", "fetch", r#""kind":"web","duration_ms":634,"summary":"200, text extracted","output":[{"type":"text","text":"Tutorial: Getting started with generics"}],"result_artifact_id":"@art.text""#);
    story.turn(2548, 2);
    story.text_block(3100, 0, &["A map key must be ", "comparable."]);
    story.answer(3200, "A map key must be comparable.");
    story.turn_done(3200, "end_turn", [1410, 14, 4440]);
    story.finished(3203);
    story
}

fn mcp_and_refusals() -> Story {
    let mut story = started_run("refusals", "Clean up the repository.");
    story.turn(10, 0);
    story.propose(500, "read", "mcp__filesystem__read_text_file", r#"{"path":"README.md"}"#);
    story.propose(560, "delete", "mcp__github__delete_repo", r#"{"repo":"acme/gateway"}"#);
    story.propose(620, "search", "web_search", r#"{"query":"how to tidy"}"#);
    story.propose(680, "dance", "dance", r#"{}"#);
    story.propose(740, "grep", "grep", r#"{"pattern":7}"#);
    story.turn_done(746, "tool_use", [803, 160, 4809]);
    story.tool(
        750,
        "tool.invoked",
        "read",
        r#""kind":"mcp","executor":"server","mcp_server":"filesystem","mcp_tool":"read_text_file""#,
    );
    story.emit(750, "policy.tool_blocked", r#"{"tool_name":"mcp__github__delete_repo","reason":"approval_policy=block","tool_call_id":"@call.delete","policy_id":"default-mcp","kind":"mcp","mcp_server":"github","mcp_tool":"delete_repo","result":"blocked"}"#);
    story.tool(
        750,
        "tool.refused",
        "delete",
        r#""code":"blocked","message":"The policy does not allow to delete repositories.""#,
    );
    story.emit(
        750,
        "error.tool_unavailable",
        r#"{"tool_name":"web_search","reason":"no_provider_configured","tool_call_id":"@call.search"}"#,
    );
    story.tool(
        750,
        "tool.refused",
        "search",
        r#""code":"unavailable","message":"No search provider is configured.""#,
    );
    story.tool(
        750,
        "tool.refused",
        "dance",
        r#""code":"unknown_tool","message":"There is no tool called dance.""#,
    );
    story.tool(
        750,
        "tool.refused",
        "grep",
        r#""code":"invalid_input","message":"pattern must be a string.""#,
    );
    story.tool(838, "tool.completed", "read", r#""kind":"mcp","duration_ms":88,"summary":"2 lines","output":[{"type":"text","text":"Gateway\n"}],"mcp_server":"filesystem","mcp_tool":"read_text_file","result":"dispatched""#);
    story.turn(842, 1);
    story.propose(1400, "slow", "shell_exec", r#"{"command":"sleep 600"}"#);
    story.turn_done(1406, "tool_use", [1107, 24, 3681]);
    story.tool(1410, "tool.invoked", "slow", r#""kind":"shell","executor":"server""#);
    story.tool_event(1411, "tool.shell.command", "slow", r#""argv":["sh","-c","sleep 600"],"cwd":"/srv/recount/workspaces/budget","env_keys":["PATH"],"sandbox_layer":"bwrap""#);
    story.tool_event(
        121_411,
        "tool.shell.exited",
        "slow",
        r#""exit_code":null,"signal":"SIGKILL","stdout_bytes":0,"stderr_bytes":0,"truncated":false"#,
    );
    story.tool(121_412, "tool.timed_out", "slow", r#""kind":"shell","duration_ms":120000,"summary":"stopped after 120 s","error":"the wall clock limit of 120 s was reached","code":"wall_clock","output":"The command ran longer than 120 s and was stopped.""#);
    story.turn(121_416, 2);
    story.text_block(121_900, 0, &["There is little I may do here."]);
    story.answer(121_960, "There is little I may do here.");
    story.turn_done(121_960, "end_turn", [1231, 12, 3873]);
    story.finished(121_963);
    story
}

/// The turn stops for a tool that an application carries out.
fn client_tool() -> Story {
    let mut story = Story::of_session("stop-tool-use");
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"agent_loop","request_text":"Pick a colour for the title.","model":"claude-sonnet-4-5","provider":"anthropic",
            "config":{"tools":[{"name":"pick_color","executor":"client"}]}}"#,
    );
    story.emit(0, "user.message", r#"{"text":"Pick a colour for the title.","message_id":"@msg.one"}"#);
    story.emit(7, "run.started", r#"{"worker_id":"worker-1"}"#);
    story.turn(10, 0);
    story.text_block(500, 0, &["Let me ask ", "your palette."]);
    story.propose(640, "pick", "pick_color", r#"{"for":"title"}"#);
    story.turn_done(646, "tool_use", [503, 48, 2229]);
    story.tool(650, "tool.invoked", "pick", r#""kind":"client","executor":"client""#);
    story.emit(650, "run.waiting", r#"{"for":[{"kind":"client_tool","id":"@call.pick"}]}"#);
    story.tool(4120, "tool.completed", "pick", r#""output":"teal""#);
    story.emit(4120, "run.continued", r#"{"by":"application","config":{"options":{"max_tokens":512}}}"#);
    story.turn(4127, 1);
    story.text_block(4700, 0, &["Teal it is."]);
    story.answer(4760, "Teal it is.");
    story.turn_done(4760, "end_turn", [590, 6, 1860]);
    story.finished(4763);
    story
}

fn shell() -> Story {
    let mut story = Story::of_task("shell");
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"shell","title":"make check","requested_by":"operator","request_text":"make check","workspace_path":"/srv/recount/workspaces/budget","workspace_mode":"in_place"}"#,
    );
    story.emit(5, "run.started", r#"{"worker_id":"worker-1"}"#);
    story.command(8, "make", "shell_exec", r#""kind":"shell","executor":"server","risk_level":"medium","irreversible":false,"args_summary":"make check""#);
    story.tool(9, "tool.started", "make", r#""kind":"shell""#);
    story.process(
        10,
        "make",
        r#"["make","check"]"#,
        &[
            (140, 'o', "checking … 1\n".as_bytes()),
            (240, 'e', b"warning: locale is not set\n"),
            (340, 'o', b"latin: caf\xe9\x00\xff\n"),
            (440, 'o', b"checking 2\n"),
            (441, 'e', b"make: *** [check] Error 2\n"),
        ],
        (445, 2),
    );
    story.emit(446, "artifact.created", r#"{"artifact_id":"@art.output","kind":"command_output","size_bytes":93,"summary":"make check","mime":"text/plain","tool_call_id":"@call.make"}"#);
    story.tool(446, "tool.completed", "make", r#""kind":"shell","duration_ms":437,"summary":"exited with status 2","output":"checking … 1\n","result_artifact_id":"@art.output""#);
    story.finished(448);
    story
}

fn git() -> Story {
    let mut story = Story::of_task("git");
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"git","title":"git log","requested_by":"operator","request_text":"git log --oneline -2","workspace_path":"/srv/recount/workspaces/budget"}"#,
    );
    story.emit(5, "run.started", r#"{"worker_id":"worker-1"}"#);
    story.command(8, "log", "git_exec", r#""kind":"git","executor":"server","risk_level":"low","irreversible":false,"args_summary":"log --oneline -2""#);
    story.tool(9, "tool.started", "log", r#""kind":"git""#);
    story.process(
        10,
        "log",
        r#"["git","log","--oneline","-2"]"#,
        &[(31, 'o', b"9f2c1aa Key budgets by scope\n1b7de03 Begin\n")],
        (32, 0),
    );
    story.tool(33, "tool.completed", "log", r#""kind":"git","duration_ms":24,"summary":"exited with status 0","output":"9f2c1aa Key budgets by scope\n1b7de03 Begin\n""#);
    story.finished(35);
    story
}

/// A patch: stored, proposed, applied, reported as applied.
fn patched(story: &mut Story, at: u64, label: &str, tool: &str, path: &str, summary: &str) {
    let patch = format!("@art.{label}");
    story.emit(at, "artifact.created", &format!(r#"{{"artifact_id":"{patch}","kind":"patch","size_bytes":412,"summary":"{path}: {summary}","mime":"text/x-diff","tool_call_id":"@call.{label}"}}"#));
    story.tool_event(
        at,
        &format!("tool.{tool}.proposed"),
        label,
        &format!(r#""path":"{path}","patch_artifact_id":"{patch}","summary":"{summary}","auto_apply":true"#),
    );
    story.tool_event(
        at + 2,
        &format!("tool.{tool}.applied"),
        label,
        &format!(r#""patch_artifact_id":"{patch}","applied_at":"@at.{}","path":"{path}""#, at + 2),
    );
    story.emit(
        at + 2,
        "artifact.updated",
        &format!(
            r#"{{"artifact_id":"{patch}","field":"status","old_value":"proposed","new_value":"applied"}}"#
        ),
    );
}

fn file() -> Story {
    let mut story = started_run("file", "Add the key to the budget.");
    story.turn(10, 0);
    story.propose(700, "patch", "edit_file", r#"{"path":"internal/budget/governor.go","old_text":"scope types.RequestScope)","new_text":"scope types.RequestScope, key string)"}"#);
    story.propose(
        900,
        "new",
        "write_file",
        r#"{"path":"internal/budget/generics.go","text":"package budget\n"}"#,
    );
    story.turn_done(906, "tool_use", [903, 188, 5529]);
    story.tool(910, "tool.invoked", "patch", r#""kind":"file","executor":"server","risk_level":"medium","irreversible":false,"args_summary":"internal/budget/governor.go""#);
    story.tool(910, "tool.invoked", "new", r#""kind":"file","executor":"server","risk_level":"medium","irreversible":false,"args_summary":"internal/budget/generics.go""#);
    patched(&mut story, 914, "patch", "edit", "internal/budget/governor.go", "1 hunk, +1/-1 line");
    story.tool(
        916,
        "tool.completed",
        "patch",
        r#""kind":"file","duration_ms":6,"summary":"1 hunk, +1/-1 line","output":"done""#,
    );
    patched(&mut story, 918, "new", "file_write", "internal/budget/generics.go", "new file, 1 line");
    story.tool(
        920,
        "tool.completed",
        "new",
        r#""kind":"file","duration_ms":10,"summary":"new file, 1 line","output":"done""#,
    );
    story.turn(924, 1);
    story.propose(1500, "both", "multi_edit", r#"{"edits":[{"path":"a.go"},{"path":"b.go"}]}"#);
    story.turn_done(1506, "tool_use", [1203, 88, 4929]);
    story.tool(1510, "tool.invoked", "both", r#""kind":"file","executor":"server","risk_level":"medium","irreversible":false,"args_summary":"a.go, b.go""#);
    for label in ["both-a", "both-b"] {
        story.emit(1513, "artifact.created", &format!(r#"{{"artifact_id":"@art.{label}","kind":"patch","size_bytes":96,"summary":"1 hunk","mime":"text/x-diff","tool_call_id":"@call.both"}}"#));
    }
    story.tool_event(1513, "tool.multi_edit.proposed", "both", r#""patch_artifact_ids":["@art.both-a","@art.both-b"],"paths":["a.go","b.go"],"summary":"2 files, +2/-2 lines","auto_apply":true"#);
    story.tool_event(
        1516,
        "tool.multi_edit.applied",
        "both",
        r#""patch_artifact_ids":["@art.both-a","@art.both-b"],"applied_at":"@at.1516""#,
    );
    story.tool(
        1517,
        "tool.completed",
        "both",
        r#""kind":"file","duration_ms":7,"summary":"2 files, +2/-2 lines","output":"done""#,
    );
    story.turn(1521, 2);
    story.text_block(2000, 0, &["The key is part of the budget now."]);
    story.answer(2060, "The key is part of the budget now.");
    story.turn_done(2060, "end_turn", [1300, 12, 4080]);
    story.finished(2063);
    story
}

/// Taking patches of an ended run back is a short run of its own.
fn file_revert() -> Story {
    let mut story = Story::after("file-revert", &file());
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"file","title":"Take back three changes","requested_by":"operator","prior_run_id":"@run.file","prior_cost_micros_usd":14538,
            "prior_input_tokens":3406,"prior_output_tokens":288,"action":"revert",
            "patch_artifact_ids":["@art.file/patch","@art.file/new","@art.file/both-a","@art.file/both-b"]}"#,
    );
    story.emit(4, "run.started", r#"{"worker_id":"worker-1"}"#);
    story.command(6, "revert", "revert_patch", r#""kind":"file","executor":"server","risk_level":"medium","irreversible":false,"args_summary":"4 patches""#);
    story.tool_event(9, "tool.edit.reverted", "revert", r#""patch_artifact_id":"@art.file/patch","reverted_by":"operator","reason":"tests failed","path":"internal/budget/governor.go""#);
    story.emit(9, "artifact.created", r#"{"artifact_id":"@art.inverse","kind":"patch","size_bytes":412,"summary":"internal/budget/governor.go: 1 hunk, +1/-1 line","mime":"text/x-diff","tool_call_id":"@call.revert"}"#);
    story.emit(
        9,
        "artifact.updated",
        r#"{"artifact_id":"@art.file/patch","field":"reverted_at","old_value":null,"new_value":"@at.9"}"#,
    );
    story.tool_event(11, "tool.file_write.reverted", "revert", r#""patch_artifact_id":"@art.file/new","reverted_by":"operator","reason":"tests failed","path":"internal/budget/generics.go""#);
    story.tool_event(13, "tool.multi_edit.reverted", "revert", r#""patch_artifact_ids":["@art.file/both-a","@art.file/both-b"],"reverted_by":"operator","reason":"tests failed""#);
    story.tool(
        14,
        "tool.completed",
        "revert",
        r#""kind":"file","duration_ms":8,"summary":"4 patches taken back","output":"done""#,
    );
    story.finished(16);
    story
}

/// An agent that is not ours, with its own ids, its own events, and some of a release to come.
fn external_producer() -> Story {
    let mut story = Story::of_task("external-producer");
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"external","driver":"external","title":"Deploy to staging","agent":{"name":"acme-deployer","version":"4.2"},"requested_by":"ci"}"#,
    );
    story.emit(20, "run.started", r#"{"worker_id":"ci-runner-7","region":"eu-1"}"#);
    story.emit(25, "user.message", r#"{"text":"Deploy to staging."}"#);
    story.emit(30, "turn.started", r#"{"turn_index":1,"model":"llama3.1:8b","provider":"ollama"}"#);
    story.emit(700, "assistant.text_delta", r#"{"block_index":0,"turn_index":1,"delta":"Deploying"}"#);
    story.emit(
        760,
        "assistant.audio_delta",
        r#"{"turn_index":1,"block_index":1,"artifact_id":"@art.voice","from_ms":0,"to_ms":480}"#,
    );
    story.emit(780, "assistant.text_complete", r#"{"turn_index":1,"block_index":0,"text":"Deploying"}"#);
    story.emit(800, "assistant.tool_call_proposed", r#"{"turn_index":1,"tool_call_id":"toolu_01","tool_name":"deploy","input":{"to":"staging","share":1.0,"timeout":1e2}}"#);
    story.emit(806, "turn.completed", r#"{"turn_index":1,"stop_reason":"tool_use"}"#);
    story.emit(810, "approval.requested", r#"{"approval_id":"gate:1","tool_call_id":"toolu_01","kind":"deploy","summary":"Deploy to staging","timeout_seconds":900}"#);
    story.emit(
        31_000,
        "approval.resolved",
        r#"{"approval_id":"gate:1","decision":"approved","by":"dana","tool_call_id":"toolu_01"}"#,
    );
    story.emit(
        31_020,
        "tool.invoked",
        r#"{"tool_call_id":"toolu_01","tool_name":"deploy","irreversible":true,"risk_level":"high"}"#,
    );
    story.emit(
        31_030,
        "ext.acme.deploy.started",
        r#"{"target":"staging","percent":1.5e1,"nodes":["a","b"],"note":"caf\u00e9"}"#,
    );
    for (at, type_name, status) in [
        (31_200, "tool.file.patch", "proposed"),
        (31_300, "tool.file.applied", "applied"),
        (31_400, "tool.file.reverted", "reverted"),
    ] {
        story.emit(at, type_name, &format!(r#"{{"tool_call_id":"toolu_01","tool_name":"deploy","kind":"file","operation":"write","path":"deploy.lock","artifact_id":"patch-1","artifact_status":"{status}","bytes_written":12,"diff_bytes":40,"before_existed":false}}"#));
    }
    story.emit(
        33_000,
        "tool.completed",
        r#"{"tool_call_id":"toolu_01","tool_name":"deploy","output":{"ok":true,"took_s":1.970}}"#,
    );
    story.emit(
        33_005,
        "cost.tick",
        r#"{"cumulative_input_tokens":900,"cumulative_output_tokens":12,"cumulative_cost_micros_usd":0}"#,
    );
    story.emit(
        33_010,
        "run.finished",
        r#"{"final_status":"completed","turns":1,"duration_ms":32990,"exit":0}"#,
    );
    story
}
