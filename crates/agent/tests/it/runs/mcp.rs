//! Runs whose model calls tools of MCP servers: real processes, and a real HTTP server.

use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use recount_agent::sandbox::{Mode, Sandbox, SandboxContext, SandboxSettings};
use recount_engine::RunConfig;
use recount_event::family::tool::Ended;
use recount_event::{Event, Payload};
use serde_json::Value;

use crate::runs::scene::{Scene, Setup, count, course, first, refusals};

/// A scene whose model calls these tools of the server `toy`, one in each turn, and then ends.
async fn playing(era: &str, more: &str, calls: &[(&str, &str)]) -> Scene {
    let server = format!("command = ['{}', '{era}']\n{more}", env!("CARGO_BIN_EXE_recount-toy-mcp"));
    scene(&server, calls).await
}

async fn scene(server: &str, calls: &[(&str, &str)]) -> Scene {
    Scene::with_setup(setup(server, calls)).await
}

fn setup(server: &str, calls: &[(&str, &str)]) -> Setup {
    let turn = |(name, input): &(&str, &str)| {
        format!("[[turn]]\ncall = [{{ name = \"{name}\", input = {{ {input} }} }}]\n")
    };
    let script: String = calls.iter().map(turn).chain(["[[turn]]\ntext = \"Done.\"\n".to_owned()]).collect();
    Setup { script, mcp: format!("[servers.toy]\n{server}\n"), ..Setup::default() }
}

const AUTO: &str = "approval = 'auto'";

/// The outcomes of calls, in order.
fn outcomes(events: &[Event]) -> Vec<&Ended> {
    fn ended(event: &Event) -> Option<&Ended> {
        match event.payload() {
            Payload::ToolCompleted(end)
            | Payload::ToolFailed(end)
            | Payload::ToolTimedOut(end)
            | Payload::ToolCancelled(end) => Some(end),
            _ => None,
        }
    }
    events.iter().filter_map(ended).collect()
}

fn output(ended: &Ended) -> String {
    let output: Value = serde_json::from_str(ended.output.as_ref().unwrap().text()).unwrap();
    output.as_str().unwrap().to_owned()
}

/// The fields of an outcome that are about the server.
fn about(ended: &Ended) -> [Option<&str>; 4] {
    [ended.kind.as_deref(), ended.mcp_server.as_deref(), ended.mcp_tool.as_deref(), ended.result.as_deref()]
}

#[tokio::test]
async fn a_server_tool_is_called_and_the_log_names_the_server() {
    for era in ["old", "strict", "new"] {
        let scene = playing(era, AUTO, &[("mcp__toy__echo", "text = \"one\""), ("mcp__toy__fail", "")]).await;
        let run = scene.start("call").await;
        let events = scene.ended(run).await;
        assert_eq!(
            course(&events),
            [
                // Two of its tools would have the same name.
                "error.tool_unavailable",
                "assistant.tool_call_proposed",
                "turn.completed",
                "tool.invoked",
                "tool.started",
                "tool.completed",
                "assistant.tool_call_proposed",
                "turn.completed",
                "tool.invoked",
                "tool.started",
                "tool.completed",
                "assistant.final_answer",
                "turn.completed",
                "run.finished",
            ],
            "{era}"
        );
        let missing = first!(events, ErrorToolUnavailable);
        assert_eq!(missing.tool_name, "mcp__toy__*");
        assert!(
            missing.reason.starts_with("mcp_left_out: the tools \"twice.a\" and \"twice_a\""),
            "{}",
            missing.reason
        );
        let invoked = first!(events, ToolInvoked);
        assert_eq!(
            (invoked.kind.as_deref(), invoked.mcp_server.as_deref(), invoked.mcp_tool.as_deref()),
            (Some("mcp"), Some("toy"), Some("echo"))
        );
        let [echoed, failed] = outcomes(&events)[..] else { panic!("{:?}", outcomes(&events)) };
        assert_eq!(about(echoed), [Some("mcp"), Some("toy"), Some("echo"), Some("dispatched")]);
        assert_eq!((output(echoed), echoed.tool_name.as_str()), ("one".to_owned(), "mcp__toy__echo"));
        // The call was executed, and its tool reports an error.
        assert_eq!(about(failed), [Some("mcp"), Some("toy"), Some("fail"), Some("tool_error")]);
        assert_eq!(output(failed), "no such page");
    }
}

/// The code, the message and the result of each call.
fn ends(events: &[Event]) -> Vec<(String, String, String)> {
    let end = |end: &&Ended| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        (text(&end.code), text(&end.error), text(&end.result))
    };
    outcomes(events).iter().map(end).collect()
}

/// The names of tools, as the server process recorded each call.
fn calls(events: &[Event]) -> String {
    let path = first!(events, RunQueued).workspace_path.unwrap();
    std::fs::read_to_string(format!("{path}/calls")).unwrap_or_default()
}

#[tokio::test]
async fn calls_need_approval_by_default() {
    let mut scene = playing("old", "", &[("mcp__toy__echo", "text = \"one\"")]).await;
    let run = scene.start("call").await;
    let events = scene.until(run, "run.waiting").await;
    let request = first!(events, ApprovalRequested);
    assert_eq!(request.policy_reason.as_deref(), Some("calls of the MCP server toy need approval"));
    assert_eq!(request.action.as_deref(), Some("Call the tool echo of the MCP server toy."));
    assert_eq!(calls(&events), "", "nothing is called before the yes");
    // The worker that requested it no longer exists, and neither does its server.
    scene.restart().await;
    scene.decide(run, &events, true).await;
    let events = scene.ended(run).await;
    assert_eq!(output(outcomes(&events)[0]), "one");
    assert_eq!(calls(&events), "echo\n");

    let scene = playing("old", "", &[("mcp__toy__echo", "text = \"one\"")]).await;
    let run = scene.start("call").await;
    let events = scene.until(run, "run.waiting").await;
    scene.decide(run, &events, false).await;
    let events = scene.ended(run).await;
    assert_eq!((calls(&events).as_str(), events.last().unwrap().type_name()), ("", "run.finished"));
}

#[tokio::test]
async fn a_blocked_tool_is_not_called() {
    let more = "approval = 'auto'\ntools = { echo = 'block', whoami = 'require_approval' }";
    let scene = playing("old", more, &[("mcp__toy__echo", "text = \"one\""), ("mcp__toy__dot", "")]).await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    let blocked = first!(events, PolicyToolBlocked);
    assert_eq!(
        [blocked.kind, blocked.mcp_server, blocked.mcp_tool, blocked.result, blocked.policy_id]
            .map(Option::unwrap),
        ["mcp", "toy", "echo", "blocked", "mcp.servers.toy"]
    );
    assert_eq!(first!(events, ToolRefused).code.as_str(), "blocked");
    assert_eq!(calls(&events), "dot\n");
}

#[tokio::test]
async fn the_policy_decides_about_automatic_calls() {
    let calls_of = [("mcp__toy__echo", "text = \"one\""), ("mcp__toy__drop_all", "text = \"all\"")];
    let mut scene = playing("old", AUTO, &calls_of).await;
    let run = scene.start("call").await;
    // The server declares that the tool is destructive, which makes the call grave.
    let events = scene.until(run, "run.waiting").await;
    let request = first!(events, ApprovalRequested);
    assert_eq!((request.kind.as_str(), request.irreversible), ("mcp__toy__drop_all", Some(true)));
    scene.decide(run, &events, true).await;
    assert_eq!(calls(&scene.ended(run).await), "echo\ndrop.all\n");

    scene.setup.policy = "[[rules]]\nid = 'no-toys'\ntool = 'mcp__toy__*'\naction = 'block'\n".to_owned();
    scene.restart().await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "policy.tool_blocked"), 2);
    assert_eq!(calls(&events), "");
}

#[tokio::test]
async fn arguments_are_checked_before_a_call() {
    let wrong = [("mcp__toy__echo", "txt = \"one\""), ("mcp__toy__echo", "text = 7"), ("mcp__toy__ecko", "")];
    let scene = playing("old", AUTO, &wrong).await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    let refused = refusals(&events);
    assert_eq!(
        refused.iter().map(|(code, _)| code.as_str()).collect::<Vec<_>>(),
        ["invalid_input", "invalid_input", "unknown_tool"]
    );
    assert!(refused[0].1.contains("`text`") && refused[1].1.contains("must be a string"), "{refused:?}");
    assert!(refused[2].1.contains("did you mean `mcp__toy__echo`?"), "{refused:?}");
    assert_eq!(calls(&events), "");
}

#[tokio::test]
async fn a_run_uses_only_the_servers_that_it_names() {
    let scene = playing("old", AUTO, &[("mcp__toy__echo", "text = \"one\""), ("mcp__toy__whoami", "")]).await;
    let of = |tools: &[&str]| {
        let tools = Some(tools.iter().map(|tool| (*tool).to_owned()).collect());
        RunConfig { tools, ..RunConfig::default() }
    };
    let run = scene.start_with("call", of(&["mcp__toy__echo"]), None, None).await;
    let events = scene.ended(run).await;
    assert_eq!(calls(&events), "echo\n");
    assert_eq!(first!(events, ToolRefused).code.as_str(), "unavailable");
    let run = scene.start_with("call", of(&["mcp__toy__*"]), None, None).await;
    assert_eq!(calls(&scene.ended(run).await), "echo\nwhoami\n");
    let run = scene.start_with("call", of(&["read_file"]), None, None).await;
    let events = scene.ended(run).await;
    assert_eq!((refusals(&events)[0].0.as_str(), calls(&events).as_str()), ("unknown_tool", ""));
    let unknown =
        scene.try_queue(crate::runs::scene::model_run("call"), of(&["mcp__other__*"]), None, None).await;
    let why = unknown.unwrap_err().to_string();
    assert!(why.contains("configured MCP servers: toy"), "{why}");
}

#[tokio::test]
async fn a_server_process_gets_the_folder_of_the_run_and_the_named_variables() {
    let more = "approval = 'auto'\nenv = { TOY_SAID = 'said' }\nenv_from = ['TOY_PASSED']";
    let scene = playing("old", more, &[("mcp__toy__whoami", "")]).await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    let text = output(outcomes(&events)[0]);
    let path = first!(events, RunQueued).workspace_path.unwrap();
    assert_eq!(text.lines().next(), Some(path.as_str()));
    assert!(text.contains("TOY_SAID=said") && text.contains("TOY_PASSED=passed on"), "{text}");
    assert!(!text.contains("CARGO"), "the server's own variables stay its own: {text}");
}

#[tokio::test]
async fn a_crashed_server_is_restarted_a_limited_number_of_times() {
    let dies = ("mcp__toy__die", "");
    let echo = ("mcp__toy__echo", "text = \"one\"");
    let scene = playing("old", AUTO, &[dies, echo, dies, dies, dies, dies, echo]).await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    let ends = ends(&events);
    assert_eq!((ends[0].0.as_str(), ends[0].2.as_str()), ("mcp_server_ended", "failed"));
    assert_eq!(ends[0].1, "the server exited with code 7; its stderr: the toy breaks");
    assert_eq!(ends[1].2, "dispatched", "{ends:?}");
    assert_eq!(ends.len(), 6, "{ends:?}");
    // It is not restarted after the fifth time, and the last call finds no such tool.
    assert_eq!(calls(&events), "die\necho\ndie\ndie\ndie\ndie\n");
    let reasons = events.iter().filter_map(|event| match event.payload() {
        Payload::ErrorToolUnavailable(unavailable) => Some(unavailable.reason.clone()),
        _ => None,
    });
    assert!(
        reasons.clone().any(|reason| reason.contains("5 connections to the server failed in this run")),
        "{:?}",
        reasons.collect::<Vec<_>>()
    );
    assert_eq!(first!(events, ToolRefused).code.as_str(), "unknown_tool");
}

#[tokio::test]
async fn a_hanging_server_times_out_and_is_cancelled() {
    let more = "approval = 'auto'\ncall_timeout_ms = 300";
    let scene = playing("old", more, &[("mcp__toy__hang", ""), ("mcp__toy__echo", "text = \"one\"")]).await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    let timed_out = first!(events, ToolTimedOut);
    assert_eq!(
        (timed_out.code.as_deref(), timed_out.result.as_deref()),
        (Some("mcp_timeout"), Some("failed"))
    );
    assert!(timed_out.error.unwrap().contains("did not respond within 300 ms"));
    assert_eq!(ends(&events)[1].2, "dispatched");
    let path = first!(events, RunQueued).workspace_path.unwrap();
    let notification: Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{path}/cancelled")).unwrap()).unwrap();
    assert_eq!(notification["reason"], "no response within 300 ms");
    assert!(notification["requestId"].is_u64());
}

#[tokio::test]
async fn cancelling_a_run_cancels_its_call() {
    let scene = playing("old", AUTO, &[("mcp__toy__hang", "")]).await;
    let run = scene.start("call").await;
    let events = scene.until(run, "tool.started").await;
    // The call is active once the server has recorded it.
    while calls(&events).is_empty() {
        tokio::task::yield_now().await;
    }
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    assert_eq!(events.last().unwrap().type_name(), "run.cancelled");
    let path = first!(events, RunQueued).workspace_path.unwrap();
    while !std::fs::exists(format!("{path}/cancelled")).unwrap() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_server_that_floods_or_sends_garbage_is_closed() {
    let scene = playing(
        "old",
        AUTO,
        &[("mcp__toy__flood", ""), ("mcp__toy__garble", ""), ("mcp__toy__echo", "text = \"one\"")],
    )
    .await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    let ends = ends(&events);
    let codes: Vec<&str> = ends.iter().map(|(code, ..)| code.as_str()).collect();
    assert_eq!(codes, ["mcp_flooded", "mcp_garbled", ""], "{ends:?}");
    assert!(ends[0].1.contains("the connection was closed"), "{ends:?}");
    assert!(ends[1].1.contains("this is no message"), "{ends:?}");
}

#[tokio::test]
async fn a_removed_tool_is_refused_and_its_new_name_is_offered() {
    let scene = playing(
        "old",
        AUTO,
        &[
            ("mcp__toy__rename", ""),
            ("mcp__toy__echo", "text = \"one\""),
            ("mcp__toy__echo_anew", "text = \"two\""),
        ],
    )
    .await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    let [(code, words)] = &refusals(&events)[..] else { panic!("{:?}", refusals(&events)) };
    assert!(code == "unknown_tool" && words.contains(" mcp__toy__echo_anew,"), "{words}");
    assert_eq!(output(outcomes(&events)[1]), "two");
    assert_eq!(calls(&events), "rename\necho_anew\n");
}

#[tokio::test]
async fn requests_of_a_server_are_declined() {
    let scene = playing("old", AUTO, &[("mcp__toy__asks", "")]).await;
    let run = scene.start("call").await;
    let text = output(outcomes(&scene.ended(run).await)[0]);
    assert_eq!(
        text,
        "\"ping\": {}\n\"roots/list\": -32601\n\"sampling/createMessage\": -32601\n\"elicitation/create\": -32601"
    );
}

#[tokio::test]
async fn a_call_of_several_rounds_completes() {
    let scene = playing("new", AUTO, &[("mcp__toy__rounds", "")]).await;
    let run = scene.start("call").await;
    let text = output(outcomes(&scene.ended(run).await)[0]);
    assert_eq!(text, r#"{"folders":{"roots":[]},"name":{"action":"decline"}}"#);
}

#[tokio::test]
async fn images_and_long_results_are_stored() {
    let scene = playing("old", AUTO, &[("mcp__toy__dot", ""), ("mcp__toy__big", "")]).await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    let [dot, big] = outcomes(&events)[..] else { panic!("{:?}", outcomes(&events)) };
    assert_eq!(output(dot), "a dot\n[dot.png: file:///dot.png]");
    assert_eq!(first!(events, ArtifactCreated).kind, "image");
    assert!(output(big).ends_with("more bytes omitted]") && big.result_artifact_id.is_some());
}

#[tokio::test]
async fn a_call_interrupted_by_a_crash_is_not_repeated() {
    let mut scene = playing("old", AUTO, &[("mcp__toy__hang", "")]).await;
    let run = scene.start("call").await;
    let events = scene.until(run, "tool.started").await;
    while calls(&events).is_empty() {
        tokio::task::yield_now().await;
    }
    scene.restart().await;
    let events = scene.ended(run).await;
    let failed = first!(events, ToolFailed);
    assert_eq!(failed.code.as_deref(), Some("interrupted"));
    assert_eq!(calls(&events), "hang\n");
}

#[tokio::test]
async fn an_unreachable_server_removes_its_tools_and_the_run_continues() {
    let server = "command = ['/no/such/program']\napproval = 'auto'";
    let scene = scene(server, &[("mcp__toy__echo", "text = \"one\"")]).await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    let missing = first!(events, ErrorToolUnavailable);
    assert!(
        missing.reason.starts_with("mcp_unreachable: the server cannot be started"),
        "{}",
        missing.reason
    );
    assert_eq!(first!(events, ToolRefused).code.as_str(), "unknown_tool");
    assert_eq!(events.last().unwrap().type_name(), "run.finished");

    let scene = playing("mute", "start_timeout_ms = 300", &[("mcp__toy__echo", "text = \"one\"")]).await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    let missing = first!(events, ErrorToolUnavailable);
    assert!(missing.reason.starts_with("mcp_timeout: the server did not respond"), "{}", missing.reason);
}

#[tokio::test]
async fn server_processes_run_in_the_sandbox() {
    let toy = Path::new(env!("CARGO_BIN_EXE_recount-toy-mcp"));
    for mode in [Mode::Bubblewrap, Mode::Landlock] {
        let readable = vec![toy.parent().unwrap().to_owned()];
        let settings = SandboxSettings { mode, readable, ..SandboxSettings::default() };
        let helper = Some(env!("CARGO_BIN_EXE_recount-warden").into());
        let around = SandboxContext { helper, ..SandboxContext::default() };
        let sandbox = Arc::new(Sandbox::probe(settings, around).await.unwrap());
        let server = format!("command = ['{}', 'old']\n{AUTO}", toy.display());
        let setup = setup(
            &server,
            &[("mcp__toy__whoami", ""), ("mcp__toy__die", ""), ("mcp__toy__echo", "text = \"one\"")],
        );
        let scene = Scene::with_setup(Setup { mcp_sandbox: Some(sandbox), ..setup }).await;
        let run = scene.start("call").await;
        let events = scene.ended(run).await;
        let ended_calls = outcomes(&events);
        let path = first!(events, RunQueued).workspace_path.unwrap();
        assert_eq!(output(ended_calls[0]).lines().next(), Some(path.as_str()), "{mode:?}");
        assert_eq!(
            ends(&events)[1].1,
            "the server exited with code 7; its stderr: the toy breaks",
            "{mode:?}"
        );
        assert_eq!(output(ended_calls[2]), "one", "{mode:?}");
        assert_eq!(calls(&events), "whoami\ndie\necho\n");
    }
}

/// An HTTP server that ends with the test.
struct Served(Child, u16);

impl Served {
    fn start(era: &str, deleted: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_recount-toy-mcp"));
        command.args([era, "http"]).current_dir(deleted.parent().unwrap()).env("TOY_DELETED", deleted);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Served(child, port.trim().parse().unwrap())
    }

    fn settings(&self, more: &str) -> String {
        format!("url = 'http://127.0.0.1:{}/mcp'\n{AUTO}\n{more}", self.1)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

const TOKEN: &str = "headers = { Authorization = 'Bearer toy' }";

#[tokio::test]
async fn an_http_server_is_called_in_both_protocol_eras() {
    for era in ["old", "new"] {
        let folder = tempfile::tempdir().unwrap();
        let deleted = folder.path().join("deleted");
        let served = Served::start(era, &deleted);
        let list = [
            ("mcp__toy__echo", "text = \"one\""),
            ("mcp__toy__whoami", ""),
            ("mcp__toy__drop_all", "text = \"two\""),
        ];
        let scene = scene(&served.settings(TOKEN), &list).await;
        let run = scene.start("call").await;
        let events = scene.approve_all(run).await;
        let ended_calls = outcomes(&events);
        assert_eq!(
            ended_calls.iter().map(|end| end.result.as_deref().unwrap()).collect::<Vec<_>>(),
            ["dispatched"; 3],
            "{era}"
        );
        assert_eq!((output(ended_calls[0]), output(ended_calls[2])), ("one".to_owned(), "two".to_owned()));
        // Each was called once, even if the session was lost before.
        assert_eq!(std::fs::read_to_string(folder.path().join("calls")).unwrap(), "echo\nwhoami\ndrop.all\n");
        // It gets a request that ends its session.
        while era == "old" && !deleted.exists() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn failures_of_an_http_server_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start("new", &folder.path().join("deleted"));
    // Enough for the calls that end, on a busy machine too.
    let more = format!("{TOKEN}\ncall_timeout_ms = 3000");
    let list = [
        ("mcp__toy__fail", ""),
        ("mcp__toy__hang", ""),
        ("mcp__toy__rounds", ""),
        ("mcp__toy__die", ""),
        ("mcp__toy__echo", "text = \"one\""),
    ];
    let scene = scene(&served.settings(&more), &list).await;
    let run = scene.start("call").await;
    let events = scene.ended(run).await;
    let ends = ends(&events);
    let codes: Vec<&str> = ends.iter().map(|(code, ..)| code.as_str()).collect();
    assert_eq!(codes, ["mcp_server_ended", "mcp_timeout", "", "mcp_unreachable"], "{ends:?}");
    assert!(
        ends[0].1.contains("response ended before the result") || ends[0].1.contains("cut off"),
        "{ends:?}"
    );
    assert_eq!(output(outcomes(&events)[2]), r#"{"folders":{"roots":[]},"name":{"action":"decline"}}"#);
    // It stays unavailable, and the run continues.
    assert_eq!(first!(events, ToolRefused).code.as_str(), "unknown_tool");
    assert_eq!(events.last().unwrap().type_name(), "run.finished");
}

#[tokio::test]
async fn a_refused_token_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start("old", &folder.path().join("deleted"));
    let scene = scene(&served.settings(""), &[("mcp__toy__echo", "text = \"one\"")]).await;
    let run = scene.start("call").await;
    let missing = first!(scene.ended(run).await, ErrorToolUnavailable);
    assert_eq!(missing.reason, "mcp_unreachable: the server returned status 401: who are you?");
}
