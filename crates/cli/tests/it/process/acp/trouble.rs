//! Bad days: an agent that crashes, floods or writes half a line, a server that goes away, a recorder that is killed.

use recount_client::Client;
use serde_json::{Value, json};

use super::editor::{Setting, events, eventually, of_type, runs};
use super::tool_call;
use crate::process::terminal::Terminal;
use crate::server::{Server, recount};

#[tokio::test]
async fn a_crash_of_the_agent_is_reported_to_the_editor_and_recorded() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    for (step, words) in [(json!(["kill"]), "signal 9"), (json!(["exit", 3]), "status 3")] {
        let (mut editor, session) = Setting::of(&server).with_session();
        let running = tool_call("c", &json!({"status": "in_progress"}));
        let id = editor
            .prompt(&session, &json!([["say", "half"], ["update", running], ["bytes", "{\"half"], step]));
        let (before, answer) = editor.answer(id);
        assert_eq!(before.len(), 2, "half a message is not forwarded: {before:?}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
        let (rest, status, run_events) = editor.end();
        assert!(rest.is_empty() && status == 1, "{status} {run_events:?}");
        assert!(run_events.iter().any(|line| line.contains("middle of a message")), "{run_events:?}");
        let run = runs(&client).await.pop().unwrap();
        assert_eq!((&*run.status, run.ending.as_deref()), ("failed", Some("agent_ended")));
        let run_events = events(&client, &run.id).await;
        assert!(of_type(&run_events, "run.failed")[0]["message"].as_str().unwrap().contains(words));
        assert_eq!(of_type(&run_events, "assistant.text_complete")[0]["text"], "half");
        assert_eq!(of_type(&run_events, "ext.acp.unfinished_message")[0]["raw"]["beginning"], "{\"half");
    }
}

#[tokio::test]
async fn what_happens_while_the_server_is_away_is_recorded_when_it_is_back() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let (mut editor, session) = Setting::of(&server).with_session();
    editor.run(&session, &json!([["say", "before"]]));
    let id = editor.prompt(&session, &json!([["say", "during"], ["wait", "go"], ["say", "and after"]]));
    editor.until(|message| message["params"]["update"]["content"]["text"] == "during");
    let address = server.address.clone();
    server.kill();
    let other = editor.new_session();
    editor.run(&other, &json!([["say", "away"]]));
    editor.words("recording paused; messages are still forwarded");
    let server = Server::start_at(data.path(), &address);
    editor.words("recording resumed after");
    editor.send(&json!({"jsonrpc": "2.0", "id": "go", "result": null}));
    editor.answer(id);
    editor.end();
    let client = Client::new(&server.url(), None).unwrap();
    let mut all = Vec::new();
    for run in runs(&client).await {
        assert_eq!(run.status, "finished", "{run:?}");
        let run_events = events(&client, &run.id).await;
        let texts: String = of_type(&run_events, "assistant.text_delta")
            .iter()
            .map(|data| data["delta"].as_str().unwrap())
            .collect();
        all.push((texts, of_type(&run_events, "ext.recount.gap").len()));
    }
    all.sort();
    let texts: Vec<&str> = all.iter().map(|(text, _)| &**text).collect();
    assert_eq!(texts, ["away", "before", "duringand after"]);
    assert!(all.iter().any(|(_, gaps)| *gaps > 0), "that it came late is said: {all:?}");
}

#[tokio::test]
async fn a_gap_left_by_a_killed_recorder_is_recorded_by_the_next_one() {
    let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let setting = Setting { state: Some(state.path()), ..Setting::of(&server) };
    let (mut editor, session) = setting.with_session();
    let running = tool_call("c", &json!({"status": "in_progress"}));
    editor.prompt(&session, &json!([["say", "seen"], ["update", running], ["hang"]]));
    eventually(async || {
        let run = runs(&client).await.pop()?;
        let run_events = events(&client, &run.id).await;
        of_type(&run_events, "tool.invoked").first().map(|_| ())
    })
    .await;
    editor.kill();
    // One that lives is left alone.
    let (mut living, other) = setting.with_session();
    living.prompt(&other, &json!([["say", "alive"], ["wait", "go"]]));
    let run = eventually(async || runs(&client).await.into_iter().find(|run| run.status == "failed")).await;
    assert_eq!(run.ending.as_deref(), Some("recorder_gone"));
    let run_events = events(&client, &run.id).await;
    assert_eq!(of_type(&run_events, "ext.recount.gap")[0]["reason"], "recorder_gone");
    assert_eq!(of_type(&run_events, "tool.cancelled")[0]["code"], "outcome_unknown");
    server.ask(&["verify", &run.id]).good();
    let (mut third, _) = setting.with_session();
    third.end();
    living.send(&json!({"jsonrpc": "2.0", "id": "go", "result": null}));
    living.until(|message| message["result"]["stopReason"] == "end_turn");
    living.end();
    let statuses: Vec<String> = runs(&client).await.into_iter().map(|run| run.status).collect();
    assert_eq!(statuses, ["failed", "finished"]);
    assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 0, "no file is left");
}

#[tokio::test]
async fn a_recorder_that_was_killed_while_its_run_was_created_leaves_no_open_run() {
    let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let setting = Setting { state: Some(state.path()), ..Setting::of(&server) };
    let (mut editor, session) = setting.with_session();
    editor.run(&session, &json!([["say", "recorded"]]));
    eventually(async || runs(&client).await.pop()?.ended_at).await;
    server.pause();
    editor.prompt(&session, &json!([["say", "asked for"], ["hang"]]));
    // The request is sent and has no response yet.
    let is_creating = |entry: std::fs::DirEntry| {
        let journal = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let last = journal.lines().last().unwrap_or_default();
        last.contains("creating") && last.contains("asked for")
    };
    eventually(async || std::fs::read_dir(state.path()).unwrap().flatten().any(is_creating).then_some(()))
        .await;
    editor.kill();
    server.go_on();
    setting.with_session().0.end();
    let all = runs(&client).await;
    assert_eq!(all.len(), 2, "created once: {all:?}");
    assert_eq!((&*all[1].status, all[1].ending.as_deref()), ("failed", Some("recorder_gone")));
    server.ask(&["verify", &all[1].id]).good();
    assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 0, "no file is left");
}

/// The text up to some offset, from whichever source.
fn joined(texts: &[&Value]) -> String {
    texts.iter().filter_map(|data| data["delta"].as_str()).collect()
}

const KILLS: u64 = 100;

#[tokio::test]
#[ignore = "full: a course of kills"]
async fn after_any_kill_the_record_has_what_the_editor_saw() {
    let (data, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = Server::start(data.path());
    let address = server.address.clone();
    for seed in 0..KILLS {
        let setting = Setting { state: Some(state.path()), ..Setting::of(&server) };
        let (mut editor, session) = setting.with_session();
        let pieces = 5 + seed * 7 % 40;
        let mut steps: Vec<Value> = (0..pieces).map(|n| json!(["say", format!("{seed}.{n};")])).collect();
        steps.push(if seed % 3 == 0 { json!(["kill"]) } else { json!(["wait", "go"]) });
        let prompt = editor.prompt(&session, &json!(steps));
        // Up to a place that differs each time.
        let mut seen = String::new();
        for _ in 0..pieces - seed % 5 {
            let message = editor.message();
            seen.push_str(message["params"]["update"]["content"]["text"].as_str().unwrap());
        }
        match seed % 3 {
            // The agent kills itself.
            0 => {}
            1 => {
                server.kill();
                server = Server::start_at(data.path(), &address);
                editor.send(&json!({"jsonrpc": "2.0", "id": "go", "result": null}));
            }
            _ => {
                editor.kill();
                setting.with_session().0.end();
            }
        }
        // A new one, without connections to a server that was killed.
        let client = Client::new(&server.url(), None).unwrap();
        if seed % 3 < 2 {
            let (before, _) = editor.answer(prompt);
            seen.extend(
                before.iter().filter_map(|message| message["params"]["update"]["content"]["text"].as_str()),
            );
            editor.end();
        }
        let begin = format!("{seed}.0;");
        let run = eventually(async || {
            let run = runs(&client)
                .await
                .into_iter()
                .rfind(|run| run.title.as_deref().is_some_and(|title| title.contains(&begin)));
            // One that was killed before it recorded anything has no run.
            if seed % 3 == 2 && run.is_none() {
                return Some(None);
            }
            run.filter(|run| run.ended_at.is_some()).map(Some)
        })
        .await;
        let Some(run) = run else { continue };
        let run_events = events(&client, &run.id).await;
        let recorded = joined(&of_type(&run_events, "assistant.text_delta"));
        match seed % 3 {
            0 => assert_eq!((&recorded, run.ending.as_deref()), (&seen, Some("agent_ended"))),
            1 => assert_eq!((&recorded, &*run.status), (&seen, "finished")),
            _ => assert!(
                run.ending.as_deref() == Some("recorder_gone")
                    && (recorded.starts_with(&seen) || seen.starts_with(&recorded))
            ),
        }
        server.ask(&["verify", &run.id]).good();
    }
}

#[tokio::test]
async fn a_signal_ends_the_agent_and_the_record() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let (mut editor, session) = Setting::of(&server).with_session();
    let prompt = editor.prompt(&session, &json!([["say", "working"], ["hang"]]));
    editor.until(|message| message["params"]["update"]["content"]["text"] == "working");
    let kill = std::process::Command::new("kill").args(["-TERM", &editor.pid().to_string()]).status();
    assert!(kill.unwrap().success());
    let (_, answer) = editor.answer(prompt);
    assert!(answer["error"]["message"].as_str().unwrap().contains("signal 15"), "{answer}");
    let (_, status, _) = editor.end();
    assert_eq!(status, 1);
    let run = &runs(&client).await[0];
    assert_eq!(run.ending.as_deref(), Some("agent_ended"));
}

#[tokio::test]
async fn floods_and_long_lines_pass_whole_and_what_was_not_recorded_is_counted() {
    let (data, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let (mut editor, session) = Setting { log: Some(log.path()), ..Setting::of(&server) }.with_session();
    let (_, answer) = editor.run(&session, &json!([["big", 64 << 20], ["say", "after"]]));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    // So much at once that a recorder which does nothing else does not keep up.
    server.pause();
    editor.run(&session, &json!([["flood", 20_000, 100], ["flood", 100, 1_000_000]]));
    #[cfg(target_os = "linux")]
    {
        let held = crate::server::peak_mib(editor.pid());
        assert!(held < 400, "{held} MiB are held");
    }
    server.go_on();
    // Dropped messages are reported once the queue has space again.
    eventually(async || {
        let id = editor.request("_ping", &json!({}));
        editor.answer(id);
        let all = runs(&client).await;
        let run_events = events(&client, &all.get(1)?.id).await;
        of_type(&run_events, "ext.recount.gap")
            .iter()
            .find(|gap| gap["reason"] == "recorder_too_slow")
            .map(|_| ())
    })
    .await;
    editor.run(&session, &json!([["say", "the end"]]));
    let (_, status, words) = editor.end();
    assert_eq!(status, 0, "{words:?}");
    assert!(editor.read == std::fs::read(log.path().join("out")).unwrap(), "all of it went through");
    let all = runs(&client).await;
    assert_eq!(all.len(), 3, "{words:?}");
    let run_events = events(&client, &all[0].id).await;
    assert_eq!(of_type(&run_events, "ext.acp.message_too_long").len(), 1);
    assert_eq!(of_type(&run_events, "assistant.text_complete")[0]["text"], "after");
    let flooded = events(&client, &all[1].id).await;
    let gaps: Vec<&Value> = of_type(&flooded, "ext.recount.gap");
    assert!(gaps.iter().any(|gap| gap["reason"] == "recorder_too_slow"), "{gaps:?}");
    assert_eq!(all[2].status, "finished");
}

#[test]
fn a_command_that_cannot_start_and_a_server_that_refuses() {
    let mut command = recount();
    command.args(["acp", "--", "/nonexistent/agent"]);
    crate::server::CommandOutput::of(&mut command).bad(2, "check the command after --");

    let data = tempfile::tempdir().unwrap();
    let mut command = recount();
    command
        .args(["serve", "--bind", "127.0.0.1:0", "--require-token", "--log", "warn", "--data"])
        .arg(data.path());
    recount().args(["token", "add", "boss", "--scope", "admin", "--data"]).arg(data.path()).output().unwrap();
    let server = Server::of(&mut command).listening();
    let (mut editor, session) = Setting::of(&server).with_session();
    editor.run(&session, &json!([["say", "hello"]]));
    let (_, status, words) = editor.end();
    assert_eq!(status, 0, "the agent works on");
    assert!(
        words.iter().any(|line| line.contains("recording stopped; messages are still forwarded")),
        "{words:?}"
    );
}

#[test]
fn a_terminal_gets_no_control_characters_of_a_child() {
    let server = Server::fresh();
    let folder = tempfile::tempdir().unwrap();
    let url = server.url();
    let child = ["sh", "-c", r"printf '\033]0;title\007one\n\033[2Jtwo\n'"];
    for command in ["acp", "mcp"] {
        let arguments: Vec<&str> = ["--url", &url, command, "--"].into_iter().chain(child).collect();
        let mut terminal = Terminal::start(folder.path(), &arguments, &[]);
        let shown = terminal.wait_for("two");
        assert!(shown.contains(r"\u{1b}]0;title\u{7}one"), "{command}: {shown:?}");
        assert!(shown.contains(r"\u{1b}[2Jtwo"), "{command}: {shown:?}");
    }
}
