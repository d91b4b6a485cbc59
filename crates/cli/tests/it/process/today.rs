//! `recount today` and `recount ls --agent`: the runs of several agents, what they cost where that is known, and what
//! waits.

use recount_client::Client;
use recount_client::request::{AgentName, CreateRun};
use serde_json::Value;

use crate::process::story::{self, StoryEvent};
use crate::server::{CommandOutput, Server, recount};

const SOURCE: StoryEvent = (
    "ext.recount.source",
    r#"{"source":"claude-code-hooks","version":"2.1.330","shows":["text"],"does_not_show":["tokens","thinking"]}"#,
);

async fn run_of(client: &Client, agent: &str, version: Option<&str>, events: &[StoryEvent]) -> String {
    let request = CreateRun {
        kind: "external".to_owned(),
        title: Some(format!("What {agent} did")),
        agent: Some(AgentName {
            name: agent.to_owned(),
            version: version.map(str::to_owned),
            ..AgentName::default()
        }),
        ..CreateRun::default()
    };
    let run = client.create_run(&request).await.unwrap().id;
    story::append(client, &run, 0, events).await;
    run
}

#[tokio::test]
async fn a_morning_with_two_agents() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    assert!(server.ask(&["today"]).good().starts_with("No runs since "));
    let client = Client::new(&server.url(), None).unwrap();
    let started: StoryEvent = ("run.started", "{}");
    let opened: StoryEvent = ("turn.started", r#"{"turn_index":0}"#);
    let approval: StoryEvent = (
        "approval.requested",
        r#"{"approval_id":"appr_1","tool_call_id":"c1","kind":"shell","summary":"rm -r old"}"#,
    );
    let proposed: StoryEvent = (
        "assistant.tool_call_proposed",
        r#"{"turn_index":0,"tool_call_id":"c1","tool_name":"Bash","input":{"command":"rm -r old"}}"#,
    );
    let unpriced: StoryEvent = ("turn.completed", r#"{"turn_index":0,"stop_reason":"tool_use"}"#);
    let events = [started, SOURCE, opened, proposed, unpriced, approval];
    let claude = run_of(&client, "claude-code", Some("2.1.330"), &events).await;
    let done: StoryEvent = (
        "turn.completed",
        r#"{"turn_index":0,"stop_reason":"end_turn","input_tokens":1000,"output_tokens":20,"cost_micros_usd":30000}"#,
    );
    let tick: StoryEvent = (
        "cost.tick",
        r#"{"cumulative_input_tokens":1000,"cumulative_output_tokens":20,"cumulative_cost_micros_usd":30000}"#,
    );
    let finished: StoryEvent = ("run.finished", r#"{"final_status":"completed"}"#);
    let codex = run_of(&client, "codex", None, &[started, opened, done, tick, finished]).await;

    let today = server.ask(&["today"]).good();
    assert!(today.lines().all(|line| line.chars().count() <= 80), "{today}");
    for line in [
        "Cost 0.03 USD (unknown for 1 run).",
        "1 request waits for you.",
        "  rm -r old",
        "  To answer: recount approve appr_1",
        "claude-code 2.1.330: 1 run (1 running), cost unknown.",
        "  Recorded from claude-code-hooks.",
        &format!("  running: What claude-code did, {claude}"),
        "codex: 1 run (1 finished), cost 0.03 USD.",
        "  1,000 tokens in, 20 tokens out.",
        &format!("  finished: What codex did, {codex}"),
    ] {
        assert!(today.lines().any(|row| row == line), "{line:?} is missing:\n{today}");
    }
    let json: Value =
        serde_json::from_str(&server.ask(&["today", "--json", "--agent", "CLAUDE"]).good()).unwrap();
    assert_eq!(json["runs"], 1);
    assert_eq!(json["cost"]["runs_unknown"], 1);
    assert_eq!(json["agents"][0]["sources"], serde_json::json!(["claude-code-hooks"]));
    assert_eq!(json["waiting"][0]["agent"], "claude-code");
    let json: Value =
        serde_json::from_str(&server.ask(&["today", "--json", "--agent", "codex"]).good()).unwrap();
    assert_eq!(json["waiting"], serde_json::json!([]));
    // An earlier run is in the report while it has not ended; pending prompts are, whenever they were created.
    let json: Value =
        serde_json::from_str(&server.ask(&["today", "--json", "--since", "0s"]).good()).unwrap();
    assert_eq!((&json["runs"], json["waiting"].as_array().map(Vec::len)), (&Value::from(1), Some(1)));
    server.ask(&["today", "--since", "yesterday"]).bad(2, "\"yesterday\"");

    let listed = server.ask(&["ls", "--agent", "claude"]).good();
    assert!(listed.starts_with(&claude) && listed.lines().count() == 1, "{listed}");
    assert!(listed.contains("claude-code 2.1.330 (claude-code-hooks)"), "{listed}");
    let none = server.ask(&["ls", "--agent", "nobody"]);
    assert!(none.words.starts_with("no matching runs"), "{none:?}");
    assert_eq!(none.good(), "");
    let shown = server.ask(&["show", &claude]).good();
    assert!(
        shown.contains("recorded from claude-code-hooks 2.1.330; this source does not show tokens, thinking"),
        "{shown}"
    );

    // Pruning takes the event that names the source, and the list follows the log.
    server.ask(&["deny", "appr_1", "--yes"]).good();
    let refused: StoryEvent =
        ("tool.refused", r#"{"tool_call_id":"c1","tool_name":"Bash","code":"denied","message":"not this"}"#);
    let failed: StoryEvent = ("run.failed", r#"{"code":"stopped","message":"","retriable":false}"#);
    story::append(&client, &claude, 1, &[refused, failed]).await;
    server.ask(&["prune", &claude]).good();
    let listed = server.ask(&["ls", "--agent", "claude"]).good();
    assert!(listed.ends_with("  claude-code 2.1.330\n"), "{listed}");
    drop(server);
    let checked = CommandOutput::of(recount().arg("verify").arg("--data").arg(data.path())).good();
    assert_eq!(checked.lines().count(), 2, "{checked}");
}
