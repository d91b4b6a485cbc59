//! What each verb gives.

use serde_json::Value;

use crate::process::scene::client;
use crate::process::story::{self, ASKING, BEGINNING, ENDING};
use crate::process::tamper;
use crate::server::{CommandOutput, Server, recount};

/// Lines without their place and time: the type and what follows.
fn words(lines: &str) -> Vec<String> {
    let words = |line: &str| match line.splitn(3, "  ").collect::<Vec<_>>()[..] {
        [place, _, words] if place.bytes().all(|byte| byte.is_ascii_digit()) => words.to_owned(),
        _ => line.to_owned(),
    };
    lines.lines().map(words).collect()
}

#[tokio::test]
async fn a_run_is_shown_listed_and_checked() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = client(&server);
    let run = story::create(&client, "A story").await;
    story::append(&client, &run, 0, BEGINNING).await;
    story::append(&client, &run, 1, ASKING).await;

    let listed = server.ask(&["ls"]).good();
    assert!(listed.starts_with(&format!("{run}  ")) && listed.contains("  A story  "), "{listed}");
    assert!(listed.contains("needs attention"), "{listed}");
    assert_eq!(listed.lines().count(), 1);
    let listed: Value = serde_json::from_str(&server.ask(&["ls", "--json"]).good()).unwrap();
    assert_eq!(listed["pending_approvals"], serde_json::json!(["appr_1"]));
    assert_eq!(server.ask(&["ls", "--status", "finished"]).good(), "");

    assert_eq!(server.ask(&["approve", "appr_1", "--comment", "go on", "--yes"]).good(), "appr_1 approved\n");
    server.ask(&["deny", "appr_1"]).bad(1, "approval_not_pending");
    story::append(&client, &run, 2, ENDING).await;

    let shown = server.ask(&["show", &run]).good();
    let shown = words(&shown);
    assert!(shown[0].starts_with("Day "), "{shown:?}");
    let shown_line = |word: &str| shown.iter().find(|line| line.starts_with(word)).cloned();
    assert_eq!(
        shown_line("run.queued").unwrap(),
        "run.queued  run of kind external, titled A story, by tester: say hello"
    );
    assert_eq!(shown_line("assistant.text_delta"), None);
    assert_eq!(shown_line("assistant.text_complete").unwrap(), "assistant.text_complete  Hello there");
    assert_eq!(
        shown_line("tool.completed").unwrap(),
        "tool.completed  shell_exec call_1 (312 ms): exited with status 0"
    );
    assert_eq!(shown_line("ext.acme.thing").unwrap(), r#"ext.acme.thing  data {"any":[1,"\u001b[31mred"]}"#);
    assert_eq!(shown.last().unwrap(), "run.finished  completed");
    assert!(words(&server.ask(&["show", "--all", &run]).good()).iter().any(|line| line.contains("_delta")));

    let raw = server.ask(&["show", "--json", &run]).good();
    let page = client.read_run_events(&run, None, None).await.unwrap();
    let envelopes: Vec<&str> = page.data.iter().map(|envelope| envelope.get()).collect();
    assert_eq!(raw.lines().collect::<Vec<_>>(), envelopes);
    assert_eq!(server.ask(&["tail", "--json", &run]).good(), raw);
    assert_eq!(server.ask(&["tail", "--json", "--all"]).good(), raw);
    assert_eq!(server.ask(&["tail", "-f", "--json", &run]).good(), raw, "a run that has ended ends it");
    let last = envelopes.len() - 1;
    assert_eq!(
        server.ask(&["tail", "--json", &run, "--after", &(last - 1).to_string()]).good(),
        format!("{}\n", envelopes[last])
    );
    assert_eq!(server.ask(&["tail", "-f", "--json", &run, "--after", &last.to_string()]).good(), "");

    let digest = server.ask(&["digest", &run]).good();
    let [named, events, head]: [&str; 3] = digest.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((named, events), (run.as_str(), envelopes.len().to_string().as_str()));
    let ok = format!("{run} ok, {events} events, head {head}\n");
    assert_eq!(server.ask(&["verify", &run]).good(), ok);
    assert_eq!(server.ask(&["verify", "--all"]).good(), ok);
    drop(server);
    let offline = || {
        let mut command = recount();
        command.arg("verify").arg("--data").arg(data.path());
        command
    };
    assert_eq!(CommandOutput::of(&mut offline()).good(), ok);
    let report: Value = serde_json::from_str(&CommandOutput::of(offline().arg("--json")).good()).unwrap();
    assert_eq!((&report["ok"], &report["head"]), (&Value::Bool(true), &Value::from(head)));
}

#[tokio::test]
async fn rows_that_contradict_the_log_are_found_and_a_lost_catalogue_comes_back() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let run = story::whole(&client(&server), "one").await;
    drop(server);
    let check = || CommandOutput::of(recount().arg("verify").arg("--data").arg(data.path()));
    assert_eq!(check().status, 0);

    let edit = |sql: &str| {
        let store = rusqlite::Connection::open(data.path().join("recount.db")).unwrap();
        assert!(store.execute(sql, []).unwrap() > 0, "{sql}");
    };
    edit(
        r#"UPDATE "rows" SET value = CAST(replace(CAST(value AS TEXT), 'finished', 'failed') AS BLOB)
           WHERE space = 'catalogue.runs'"#,
    );
    let answer = check();
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(
        answer.data.contains(&format!("catalogue.runs/default/{run} does not match its checksum")),
        "{answer:?}"
    );

    edit(r#"DELETE FROM "rows" WHERE space LIKE 'catalogue.%'"#);
    let answer = check();
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.data.contains("is missing"), "{answer:?}");
    let server = Server::start(data.path());
    assert!(server.ask(&["ls"]).good().contains(&run));
    drop(server);
    assert_eq!(check().status, 0);
}

#[tokio::test]
async fn one_changed_byte_is_found() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let untouched = story::whole(&client(&server), "one").await;
    let touched = story::whole(&client(&server), "two").await;
    server.ask(&["verify", "--all"]).good();
    drop(server);

    tamper::change_first_event(data.path(), &touched).await;

    let answer = CommandOutput::of(recount().arg("verify").arg("--data").arg(data.path()));
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.data.contains(&format!("{untouched} ok, ")), "{answer:?}");
    assert!(answer.data.contains(&format!("{touched} wrong: ")), "{answer:?}");
    assert!(answer.words.contains("2 runs checked, "), "{answer:?}");

    let server = Server::start(data.path());
    let answer = server.ask(&["verify", &touched]);
    assert_eq!(answer.status, 1, "{answer:?}");
    server.ask(&["verify", &untouched]).good();
}

#[tokio::test]
async fn following_survives_the_server() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let (run, bystander) = {
        let client = client(&server);
        (story::create(&client, "followed").await, story::create(&client, "bystander").await)
    };
    let following = server.follow(&["tail", "-f", "--json", &run]);
    let feed = server.follow(&["tail", "-f", "--json", "--all"]);
    let mut shown_line = vec![following.line()];
    let mut fed = vec![feed.line(), feed.line()];
    story::append(&client(&server), &run, 0, BEGINNING).await;
    for _ in BEGINNING {
        shown_line.push(following.line());
        fed.push(feed.line());
    }
    let address = server.address.clone();
    server.kill();
    following.words("connection lost");
    let server = Server::start_at(data.path(), &address);
    story::append(&client(&server), &run, 1, ASKING).await;
    server.ask(&["cancel", &run, "--reason", "enough"]).good();

    let (rest, status) = following.end();
    shown_line.extend(rest);
    assert_eq!(status, 0);
    let stored = |run: String| {
        let server = &server;
        async move { client(server).read_run_events(&run, None, None).await.unwrap().data }
    };
    let stored_run = stored(run).await;
    assert_eq!(shown_line, stored_run.iter().map(|envelope| envelope.get()).collect::<Vec<_>>());
    let total = stored_run.len() + stored(bystander).await.len();
    while fed.len() < total {
        fed.push(feed.line());
    }
    let whole = client(&server).read_feed(None, None).await.unwrap().data;
    assert_eq!(fed, whole.iter().map(|envelope| envelope.get()).collect::<Vec<_>>());
}

#[tokio::test]
async fn tasks_and_cancelling() {
    let server = Server::fresh();
    let client = client(&server);
    let request = recount_client::request::CreateTask {
        title: Some("A task\u{1b}[2J".to_owned()),
        kind: Some("external".to_owned()),
        ..recount_client::request::CreateTask::default()
    };
    let task = client.create_task(&request).await.unwrap();
    let listed = server.ask(&["ls", "--tasks"]).good();
    assert!(listed.starts_with(&task.id) && listed.contains(r"  A task\u{1b}[2J  "), "{listed}");
    let run = task.latest_run_id.unwrap();
    assert_eq!(server.ask(&["cancel", &run, "--reason", "enough"]).good(), format!("{run} cancelled\n"));
    server.ask(&["cancel", &run]).bad(1, "run_ended");
    assert!(server.ask(&["show", &run]).good().contains("run.cancelled  by operator"));
}

#[tokio::test]
async fn a_reader_that_leaves_is_no_failure() {
    use std::io::Read as _;
    let server = Server::fresh();
    let client = client(&server);
    let run = story::create(&client, "long").await;
    story::append(&client, &run, 0, &[("run.started", "{}")]).await;
    // More than a pipe holds, so that the writer must notice.
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(200_000));
    let events = [("user.message", long.leak() as &'static str); 3];
    story::append(&client, &run, 1, &events).await;
    for arguments in [["show", &run, "--url", &server.url()], ["tail", &run, "--url", &server.url()]] {
        let mut child = recount().args(arguments).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut one = [0];
        child.stdout.take().unwrap().read_exact(&mut one).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}
