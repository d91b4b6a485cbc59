//! Pruning, pins and deletion by the built program, and what every verb reports about deleted data.

use recount_client::{Client, request};
use serde_json::{Value, json};

use crate::process::story::{self, BEGINNING};
use crate::process::terminal::Terminal;
use crate::server::{CommandOutput, Server, recount};

/// A verb that asks no server.
fn alone(arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(recount().args(arguments))
}

#[tokio::test]
async fn a_pruned_run_is_shown_checked_and_exported_as_pruned() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let run = story::whole(&client, "A story").await;
    let digest = server.ask(&["digest", &run]).good();
    let all = client.get_run_digest(&run).await.unwrap().events;

    assert_eq!(server.ask(&["pin", &run]).good(), format!("{run} pinned\n"));
    server.ask(&["prune", &run]).bad(1, "run_pinned");
    assert_eq!(server.ask(&["unpin", &run]).good(), format!("{run} not pinned\n"));
    let pruned = server.ask(&["prune", &run, "--before", "3"]).good();
    assert_eq!(pruned, format!("{run} pruned, 3 events, first event 3\n"));
    let pruned = server.ask(&["prune", &run, "--before", "3"]).good();
    assert_eq!(pruned, format!("{run} has nothing to prune, first event 3\n"));

    for verb in ["show", "tail"] {
        let output = server.ask(&[verb, &run]).good();
        assert!(output.starts_with("events 0 to 2 were pruned\nDay "), "{output}");
        assert!(output.contains("gap.events_pruned  events 0 to 2 were pruned: operator"), "{output}");
        let raw = server.ask(&[verb, "--json", &run]).good();
        assert_eq!(raw.lines().count() as u64, all + 1 - 3);
        assert!(
            raw.lines()
                .all(|line| serde_json::from_str::<Value>(line).unwrap()["sequence"].as_u64() >= Some(3))
        );
    }
    let output = server.ask(&["tail", "-f", &run, "--after", "1"]).good();
    assert!(output.starts_with("event 2 was pruned\n"), "{output}");

    let noted = data.path().join("noted");
    std::fs::write(&noted, &digest).unwrap();
    let noted = noted.to_str().unwrap();
    let ok = format!("{run} ok, {} events, head ", all + 1);
    for verify in [vec!["verify", &run], vec!["verify", "--all"], vec!["verify", "--digests", noted]] {
        assert!(server.ask(&verify).good().starts_with(&ok), "{verify:?}");
    }
    let checked: Value = serde_json::from_str(&server.ask(&["verify", "--json", &run]).good()).unwrap();
    assert_eq!(checked["unseen"], json!(["the events 0 to 2 were pruned"]));
    let early = format!("{run} 2 {}\n", "0".repeat(64));
    std::fs::write(noted, early).unwrap();
    let checked = server.ask(&["verify", "--json", "--digests", noted]).good();
    assert!(
        checked.contains("the recorded digest of its first 2 events can no longer be compared"),
        "{checked}"
    );
    let wrong = format!("{run} 3 {}\n", "0".repeat(64));
    std::fs::write(noted, wrong).unwrap();
    server.ask(&["verify", "--digests", noted]).bad(1, "1 problem");

    let exported = server.ask(&["export", &run]);
    assert!(exported.words.contains("events 0 to 2 were pruned before the export"), "{exported:?}");
    assert_eq!(exported.status, 7, "{exported:?}");
    let exported = exported.data;
    let header: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    assert_eq!((header["first_sequence"].clone(), header["events"].clone()), (json!(3), json!(all + 1)));
    // A header, the events that are left, the last line.
    assert_eq!(exported.lines().count() as u64, 1 + all + 1 - 3 + 1);
    let file = data.path().join("runs.jsonl");
    std::fs::write(&file, &exported).unwrap();
    let refused = server.ask(&["import", file.to_str().unwrap()]);
    assert!(refused.data.contains("(run_pruned)"), "{}", refused.data);
    refused.bad(1, "1 refused");

    server.kill();
    let folder = data.path().to_str().unwrap();
    assert!(alone(&["verify", "--data", folder]).good().starts_with(&ok));
    let offline = alone(&["export", "--all", "--data", folder]);
    assert_eq!((offline.status, offline.data), (7, exported));
}

#[tokio::test]
async fn a_deleted_task_is_missing_for_every_verb() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let new = request::CreateTask {
        title: Some("to go".into()),
        kind: Some("external".into()),
        ..request::CreateTask::default()
    };
    let task = client.create_task(&new).await.unwrap();
    let run = task.latest_run_id.unwrap();
    story::append(&client, &run, 0, BEGINNING).await;
    let stays = story::whole(&client, "stays").await;
    let noted = data.path().join("noted");
    std::fs::write(&noted, server.ask(&["digest", &run]).good()).unwrap();
    server.ask(&["delete", &task.id]).bad(2, "confirm with --yes");
    let deleted: Value =
        serde_json::from_str(&server.ask(&["delete", &task.id, "--yes", "--json"]).good()).unwrap();
    assert_eq!(deleted, json!({"task_id": task.id, "runs": 1}));
    server.ask(&["delete", &task.id, "--yes"]).bad(1, "task_erased");
    for verb in ["show", "tail", "digest", "verify", "export", "cancel", "pin", "prune"] {
        server.ask(&[verb, &run]).bad(1, "run_erased");
    }
    assert_eq!(server.ask(&["ls", "--tasks"]).good(), "");
    let noted = noted.to_str().unwrap();
    assert!(server.ask(&["verify", "--digests", noted]).good().starts_with(&format!("{run} ok")));
    server.kill();
    let folder = data.path().to_str().unwrap();
    let checked = alone(&["verify", "--data", folder, "--digests", noted]).good();
    assert!(
        checked.contains(&format!("{run} ok, ")) && checked.contains(&format!("{stays} ok, ")),
        "{checked}"
    );
    let exported = alone(&["export", "--all", "--data", folder]).good();
    assert!(exported.contains(&stays) && !exported.contains(&run));
}

#[tokio::test]
async fn a_server_prunes_by_itself_what_its_configuration_does_not_keep() {
    let data = tempfile::tempdir().unwrap();
    let mut command = recount();
    command.args(["serve", "--bind", "127.0.0.1:0", "--max-events", "0", "--sweep-every", "1s", "--data"]);
    let server = Server::of(command.arg(data.path())).listening();
    let client = Client::new(&server.url(), None).unwrap();
    let run = story::whole(&client, "A story").await;
    let feed = server.follow(&["tail", "-f", "--all"]);
    while !feed.line().contains("gap.events_pruned") {}
    let output = server.ask(&["show", &run]).good();
    assert!(output.contains("were pruned: max_events"), "{output}");
    let swept: Value =
        serde_json::from_str(&server.ask(&["prune", "--max-age", "0s", "--json"]).good()).unwrap();
    assert_eq!(swept, json!({"runs": 0, "events": 0, "has_more": false}));
    for age in ["soon", "3", "90"] {
        alone(&["prune", "--max-age", age]).bad(2, "30d");
        alone(&["serve", "--max-age", age]).bad(2, "30d");
    }
    alone(&["prune", "--max-bytes", "5"]).bad(2, "5GiB");
    for arguments in [&["prune"][..], &["prune", "--dry-run"], &["prune", "--yes"]] {
        alone(arguments).bad(2, "required");
    }
}

#[tokio::test]
async fn a_prune_shows_what_would_be_removed_and_asks_at_a_terminal() {
    let server = Server::fresh();
    let client = Client::new(&server.url(), None).unwrap();
    let first = story::whole(&client, "first").await;
    let second = story::whole(&client, "second").await;
    let events = client.get_run_digest(&first).await.unwrap().events;
    let plan = server.ask(&["prune", "--max-age", "0s", "--dry-run"]).good();
    let sum = format!("2 runs would be pruned, {} events\n", 2 * (events - 1));
    assert_eq!(plan, format!("{first} would be pruned\n{second} would be pruned\n{sum}"));
    let plan = server.ask(&["prune", &first, "--dry-run"]).good();
    assert_eq!(plan, format!("{first} would be pruned, {} events, first event {}\n", events - 1, events - 1));
    let limit = (2 * events - 2).to_string();
    let plan = server.ask(&["prune", "--max-events", &limit, "--dry-run", "--json"]).good();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!((&plan["runs"], &plan["run_ids"]), (&json!(1), &json!([first])));
    assert_eq!(client.get_run_digest(&first).await.unwrap().first_sequence, 0, "nothing was removed");

    let url = server.url();
    let here = tempfile::tempdir().unwrap();
    let at_terminal = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["--url", &url].iter().chain(arguments).copied().collect();
        Terminal::start(here.path(), &arguments, &[])
    };
    let mut terminal = at_terminal(&["prune", &first]);
    terminal.wait_for("permanently? Type y to continue; anything else stops: ");
    terminal.press("\n");
    assert_eq!(terminal.end().1, 1);
    let mut terminal = at_terminal(&["prune", "--max-age", "0s"]);
    terminal.wait_for(&sum);
    terminal.wait_for("anything else stops: ");
    terminal.press("y\n");
    let (output, status) = terminal.end();
    assert!(status == 0 && output.contains("2 runs pruned, "), "{output}");
}

#[tokio::test]
async fn a_run_without_a_task_is_erased_with_its_title() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = Client::new(&server.url(), None).unwrap();
    let run = story::whole(&client, "a private title").await;
    let new = request::CreateTask { kind: Some("external".into()), ..request::CreateTask::default() };
    let of_task = client.create_task(&new).await.unwrap().latest_run_id.unwrap();
    let end = &run[run.len() - 8..];
    let refused = server.ask(&["delete", end]);
    assert!(refused.words.contains("a private title"), "{refused:?}");
    refused.bad(2, "confirm with --yes");
    server.ask(&["delete", &of_task, "--yes"]).bad(1, "run_in_task");
    assert_eq!(server.ask(&["delete", &run, "--yes"]).good(), format!("{run} erased\n"));
    for verb in ["show", "tail", "digest", "verify", "export"] {
        server.ask(&[verb, &run]).bad(1, "run_erased");
    }
    server.ask(&["delete", &run, "--yes"]).bad(1, "run_erased");
    assert!(!server.ask(&["ls", "--json"]).good().contains("a private title"));
    drop(server);
    let store = rusqlite::Connection::open(data.path().join("recount.db")).unwrap();
    let left: i64 = store
        .query_row(r#"SELECT count(*) FROM "rows" WHERE instr(value, 'a private title') > 0"#, [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(left, 0);
}
