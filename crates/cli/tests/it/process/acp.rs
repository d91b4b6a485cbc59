//! `recount acp`: a real recorder between an editor of ours and a scripted agent, recording into a real server.

mod editor;
mod permissions;
mod sessions;
mod trouble;

use recount_client::Client;
use serde_json::{Value, json};

use self::editor::{Setting, events, of_type, runs};
use crate::server::Server;

fn tool_call(id: &str, more: &Value) -> Value {
    let mut update = json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "Edit", "kind": "edit"});
    let fields = update.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    update
}

#[tokio::test]
async fn the_texts_and_calls_of_an_agent_are_recorded() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let (mut editor, session) = Setting::of(&server).with_session();
    let diff =
        json!([{"type": "diff", "path": "/home/me/project/a.txt", "oldText": "one\n", "newText": "two\n"}]);
    let steps = json!([
        ["say", "Hel"], ["say", "lo"],
        ["update", {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}],
        ["update", {"sessionUpdate": "plan", "entries": [
            {"content": "look", "priority": "high", "status": "completed"},
            {"content": "write", "priority": "low", "status": "in_progress"}]}],
        ["update", tool_call("call 1", &json!({"status": "pending", "rawInput": {}}))],
        ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "call 1", "status": "in_progress",
            "rawInput": {"path": "a.txt"}}],
        ["request", "r1", "fs/read_text_file", {"path": "/home/me/project/a.txt"}],
        ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "call 1", "status": "completed", "content": diff}],
        ["update", {"sessionUpdate": "usage_update", "used": 5, "size": 100}],
        ["say", "done"],
    ]);
    let prompt = editor.prompt(&session, &steps);
    let (_, read) = editor.until(|message| message["id"] == "r1");
    assert_eq!(read["method"], "fs/read_text_file");
    editor.send(&json!({"jsonrpc": "2.0", "id": "r1", "result": {"content": "one\n"}}));
    let (_, answer) = editor.answer(prompt);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let (_, status, _) = editor.end();
    assert_eq!(status, 0);

    let all = runs(&client).await;
    let [run] = &all[..] else { panic!("one run: {all:?}") };
    assert_eq!((&*run.status, run.ending.as_deref()), ("finished", Some("completed")), "{run:?}");
    let recorded = events(&client, &run.id).await;
    let kinds: Vec<&str> = recorded.iter().map(|(kind, _)| &**kind).collect();
    assert_eq!(
        &kinds[..5],
        ["run.queued", "run.started", "ext.recount.source", "ext.recount.acp_session", "user.message"]
    );
    assert_eq!(recorded[0].1["agent"], json!({"name": "scripted", "version": "1.0"}));
    assert_eq!(recorded[2].1["source"], "acp version 1");
    let texts: Vec<&Value> =
        of_type(&recorded, "assistant.text_complete").iter().map(|data| &data["text"]).collect();
    assert_eq!(texts, ["Hello", "done"]);
    assert_eq!(of_type(&recorded, "ext.acp.agent_thought_chunk")[0]["raw"]["content"]["text"], "hm");
    let todos = &of_type(&recorded, "tool.todo_write.updated")[0]["todos"];
    assert_eq!(todos[1], json!({"content": "write", "status": "in_progress", "priority": "low"}));
    let proposed = of_type(&recorded, "assistant.tool_call_proposed");
    assert_eq!(proposed.len(), 1, "{recorded:?}");
    assert_eq!(
        (&proposed[0]["input"], &proposed[0]["provider_call_id"]),
        (&json!({"path": "a.txt"}), &json!("call 1"))
    );
    let completed = of_type(&recorded, "tool.completed");
    let read = completed.iter().find(|data| data["tool_name"] == "fs/read_text_file").unwrap();
    assert_eq!(read["output"], json!({"content": "one\n"}));
    let patch = of_type(&recorded, "artifact.created")[0];
    assert_eq!(
        (&patch["kind"], &patch["path"], &patch["additions"]),
        (&json!("patch"), &json!("a.txt"), &json!(1))
    );
    let bytes = client.read_artifact(patch["artifact_id"].as_str().unwrap()).await.unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("-one\n+two\n"), "{bytes:?}");
    let chat = client.get_session(run.session_id.as_deref().unwrap()).await.unwrap();
    assert_eq!(chat.title, Some(format!("scripted in /home/me/project · {session}")));
    server.ask(&["verify", &run.id]).good();
}

#[tokio::test]
async fn each_ending_of_a_prompt_is_an_ending_of_its_run() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let (mut editor, session) = Setting::of(&server).with_session();
    let cases = [
        (json!([["say", "a"]]), "finished", Some("completed")),
        (json!([["say", "a"], ["stop", "max_tokens"]]), "finished", Some("max_tokens")),
        (json!([["say", "a"], ["stop", "refusal"]]), "finished", Some("refusal")),
        (json!([["say", "a"], ["stop", "cancelled"]]), "cancelled", Some("system")),
        (
            json!([
                ["update", tool_call("c", &json!({"status": "in_progress"}))],
                ["fail", -32000, "no key"]
            ]),
            "failed",
            Some("acp_error_-32000"),
        ),
    ];
    for (steps, _, _) in &cases {
        editor.run(&session, steps);
    }
    editor.end();
    let all = runs(&client).await;
    let found: Vec<(&str, Option<&str>)> =
        all.iter().map(|run| (&*run.status, run.ending.as_deref())).collect();
    let expected: Vec<(&str, Option<&str>)> =
        cases.iter().map(|(_, status, ending)| (*status, *ending)).collect();
    assert_eq!(found, expected);
    let sessions: std::collections::BTreeSet<_> = all.iter().map(|run| run.session_id.clone()).collect();
    assert_eq!(sessions.len(), 1, "prompts of one session are runs of one session");
    let reasons = async |index: usize| {
        of_type(&events(&client, &all[index].id).await, "turn.completed")[0]["stop_reason"].clone()
    };
    assert_eq!((reasons(1).await, reasons(2).await), (json!("max_tokens"), json!("refusal")));
    let failed = events(&client, &all[4].id).await;
    assert_eq!(of_type(&failed, "run.failed")[0]["message"], "no key");
    assert_eq!(of_type(&failed, "tool.cancelled")[0]["code"], "outcome_unknown");
}

#[tokio::test]
async fn what_an_agent_reports_of_its_usage_is_counted_for_each_prompt() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let (mut editor, session) = Setting::of(&server).with_session();
    let cost = |amount: f64| {
        json!(["update", {"sessionUpdate": "usage_update", "used": 5, "size": 100,
            "cost": {"amount": amount, "currency": "USD"}}])
    };
    let request = json!({"inputTokens": 40, "outputTokens": 4, "totalTokens": 44});
    let in_parts = json!(["update", {"sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "b"}, "_meta": {"usage": request, "durationMs": 7}}]);
    let usage = json!({"inputTokens": 100, "outputTokens": 20, "cachedReadTokens": 40, "totalTokens": 160});
    editor.run(&session, &json!([["big", 1], cost(0.1), ["result", {"usage": usage}]]));
    editor.run(&session, &json!([in_parts, in_parts, cost(0.25)]));
    editor.run(&session, &json!([["big", 1]]));
    editor.end();
    let all = runs(&client).await;
    let figures: Vec<[Option<u64>; 3]> = all
        .iter()
        .map(|run| [Some(run.input_tokens), Some(run.output_tokens), Some(run.cost_micros_usd)])
        .collect();
    assert_eq!(figures, [[140, 20, 100_000], [80, 8, 150_000], [0, 0, 0]].map(|row| row.map(Some)));
    let source = async |index: usize| {
        of_type(&events(&client, &all[index].id).await, "ext.recount.source").last().unwrap()["shows"].clone()
    };
    for fact in ["tokens", "cost"] {
        assert!(source(0).await.as_array().unwrap().contains(&json!(fact)));
        assert!(!source(2).await.as_array().unwrap().contains(&json!(fact)), "the last prompt had none");
    }
    let today = server.ask(&["today"]).good();
    assert!(
        today.contains("scripted 1.0: 3 runs (3 finished), cost 0.25 USD (unknown for 1 run)."),
        "{today}"
    );
    assert!(today.contains("  220 tokens in, 28 tokens out.\n"), "{today}");
}

/// Draws numbers that are the same each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// A line as no serializer would write it.
    fn line(&mut self, session: &str) -> String {
        let text =
            ["plain", "\\u00e9\\n", "\u{1f600}", "a\\\"b", "\\/"][usize::try_from(self.below(5)).unwrap()];
        let space = ["", " ", "\t", "  "][usize::try_from(self.below(4)).unwrap()];
        let number =
            ["1.0", "1e3", "-0", "12345678901234567890", "0.10"][usize::try_from(self.below(5)).unwrap()];
        match self.below(7) {
            0 => format!("not json {text}"),
            1 => String::new(),
            2 => format!("[{number},{space}\"{text}\"]"),
            3 => format!(
                "{{\"jsonrpc\":\"2.0\",{space}\"method\":\"_x/{text}\",\"params\":{{\"n\":{number}}}}}"
            ),
            4 => format!(
                "{{\"params\":{{\"update\":{{\"content\":{{\"text\":\"{text}\",{space}\"type\":\"text\"}},\
                 \"sessionUpdate\":\"agent_message_chunk\",\"_later\":{number}}},\"sessionId\":\"{session}\"}},\
                 \"method\":\"session/update\"}}"
            ),
            5 => format!("{{\"id\":{number},{space}\"result\":null}}\r"),
            _ => format!("{{\"jsonrpc\":\"2.0\",\"method\":\"_y\",\"params\":\"{}\"}}", text.repeat(3_000)),
        }
    }
}

#[tokio::test]
async fn what_goes_through_is_the_same_byte_for_byte_whatever_it_is() {
    let (data, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let (mut editor, session) = Setting { log: Some(log.path()), ..Setting::of(&server) }.with_session();
    let mut messages = Vec::new();
    for seed in 0..40 {
        let mut draw = Draw(seed);
        let lines: Vec<String> = (0..draw.below(12)).map(|_| draw.line(&session)).collect();
        for _ in 0..draw.below(4) {
            let line = format!("{}\n", draw.line(&session));
            editor.write(line.as_bytes());
        }
        let steps: Vec<Value> = lines.iter().map(|line| json!(["raw", line])).collect();
        editor.run(&session, &json!(steps));
        let text = |line: &String| {
            Some(
                serde_json::from_str::<Value>(line).ok()?["params"]["update"]["content"]["text"]
                    .as_str()?
                    .to_owned(),
            )
        };
        messages.push(lines.iter().filter_map(text).collect::<String>());
    }
    let (_, status, words) = editor.end();
    assert_eq!(status, 0, "{words:?}");
    assert!(
        editor.sent == std::fs::read(log.path().join("in")).unwrap(),
        "what the agent read is what was sent"
    );
    assert!(
        editor.read == std::fs::read(log.path().join("out")).unwrap(),
        "what the editor read is what was said"
    );
    let all = runs(&client).await;
    assert_eq!(all.len(), messages.len(), "{words:?}");
    for (run, messages) in all.iter().zip(&messages) {
        assert_eq!(run.status, "finished", "{run:?}");
        let recorded = events(&client, &run.id).await;
        let joined: String = of_type(&recorded, "assistant.text_delta")
            .iter()
            .map(|data| data["delta"].as_str().unwrap())
            .collect();
        assert_eq!(joined, *messages);
    }
}

/// Not a bar: the machine that runs the tests is busy. The figure is printed.
#[test]
fn the_time_that_forwarding_adds_is_shown() {
    let server = Server::fresh();
    let (mut editor, _) = Setting::of(&server).with_session();
    let mut through: Vec<_> = (0..1_000)
        .map(|_| {
            let before = recount_world::moment();
            let id = editor.request("_ping", &json!({}));
            editor.answer(id);
            before.elapsed()
        })
        .collect();
    through.sort();
    println!(
        "a request and its answer through the recorder and the agent: p50 {:?}, p99 {:?}",
        through[500], through[990]
    );
}
