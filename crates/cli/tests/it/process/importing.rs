//! `recount import --from`: transcripts of other agents become runs, each line once, also as they grow.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::server::Server;

const CLAUDE: &str = include_str!(
    "../../../../../testdata/transcripts/claude-code/7a1d2c3e-1111-4a22-8b33-0123456789ab.jsonl"
);
const CODEX: &str = include_str!(
    "../../../../../testdata/transcripts/codex/rollout-2026-11-20T09-00-00-0199aaaa-1111-7222-8333-444455556666.jsonl"
);
const CODEX_ITEMS: &str = include_str!(
    "../../../../../testdata/transcripts/codex/rollout-2026-11-27T10-00-00-0199bbbb-1111-7222-8333-444455556666.jsonl"
);
const CLAUDE_COSTS: &str = include_str!(
    "../../../../../testdata/transcripts/claude-code/2efd1f5f-2222-4a22-8b33-0123456789ab.jsonl"
);
const SESSION: &str = "7a1d2c3e-1111-4a22-8b33-0123456789ab";

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn import(server: &Server, from: &str, path: &Path) -> Vec<Value> {
    let report = server.ask(&["import", "--json", "--from", from, path.to_str().unwrap()]).good();
    report.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn runs(server: &Server) -> Vec<Value> {
    let report = server.ask(&["ls", "--json"]).good();
    report.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn tally(report: &Value) -> [u64; 4] {
    ["lines", "imported", "already_present", "runs_created"]
        .map(|name| report["tally"][name].as_u64().unwrap())
}

/// Lines `from..to` of a text, with their ends.
fn lines(text: &str, from: usize, to: usize) -> String {
    text.lines().skip(from).take(to - from).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_folder_is_imported_once() {
    let server = Server::fresh();
    let projects = tempfile::tempdir().unwrap();
    write(projects.path(), &format!("-home-ann-shop/{SESSION}.jsonl"), CLAUDE);
    write(projects.path(), "-home-ann-shop/notes.txt", "not a transcript");
    let count = CLAUDE.lines().count() as u64;
    let report = import(&server, "claude-transcripts", projects.path());
    assert_eq!(report.len(), 1, "{report:?}");
    assert_eq!(tally(&report[0]), [count, count, 0, 2], "{report:?}");
    assert_eq!(report[0]["tally"]["unknown"]["a-type-of-tomorrow"], 1);
    assert_eq!(report[0]["run_open"], false);
    let report = import(&server, "claude-transcripts", projects.path());
    assert_eq!(tally(&report[0]), [count, 0, count, 0], "{report:?}");

    let listed = runs(&server);
    assert_eq!(listed.len(), 2);
    let first = &listed[1];
    assert_eq!(first["title"], "Fix the failing test of the basket.");
    assert_eq!([&first["agent_name"], &first["agent_version"]], ["claude-code", "2.1.197"]);
    assert_eq!([&first["source"], &first["status"]], ["claude-transcripts", "finished"]);
    assert_eq!([&first["input_tokens"], &first["output_tokens"], &first["turns"]], [3719, 129, 3]);
    assert_eq!(first["unpriced_turns"], 3);
    assert_eq!(listed[0]["status"], "cancelled");
    let task = report[0]["task_id"].as_str().unwrap();
    let tasks = server.ask(&["ls", "--tasks", "--json"]).good();
    let listed: Value = serde_json::from_str(&tasks).unwrap();
    assert_eq!([&listed["id"], &listed["runs"]], [&Value::from(task), &Value::from(2)]);
    assert_eq!(listed["title"], format!("claude-code in /home/ann/shop, session {SESSION}"));
    let today = server.ask(&["today"]).good();
    assert!(today.contains("  Imported: 2 runs; the work may be from an earlier day.\n"), "{today}");
    server.ask(&["verify", "--all"]).good();

    let run = first["id"].as_str().unwrap();
    let shown = server.ask(&["show", "--json", run]).good();
    let events: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let raw = events.iter().find(|event| event["type"] == "ext.claude.user").unwrap();
    let line = raw["data"]["raw_text"].as_str().unwrap();
    assert!(CLAUDE.lines().any(|of_file| of_file == line), "{line}");
    let message = events.iter().find(|event| event["type"] == "user.message").unwrap();
    let original: Value =
        serde_json::from_str(CLAUDE.lines().find(|line| line.contains("Fix the failing")).unwrap()).unwrap();
    assert_eq!(message["data"]["source_time"], original["timestamp"]);
}

#[test]
fn a_transcript_that_grew_adds_only_the_rest() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let folder = tempfile::tempdir().unwrap();
    let name = format!("{SESSION}.jsonl");
    // In the middle of a turn, with half a line.
    let half = lines(CLAUDE, 7, 8);
    let half = &half[..half.len() / 2];
    let path = write(folder.path(), &name, &format!("{}{half}", lines(CLAUDE, 0, 7)));
    let report = &import(&server, "claude-transcripts", &path)[0];
    assert_eq!(
        (tally(report), &report["last_line_incomplete"]),
        ([7, 7, 0, 1], &Value::from(true)),
        "{report}"
    );
    assert_eq!(report["run_open"], true);
    assert_eq!(runs(&server)[0]["status"], "running");
    // The server and the importer are others now.
    drop(server);
    let server = Server::start(data.path());
    write(folder.path(), &name, &lines(CLAUDE, 0, 12));
    let report = &import(&server, "claude-transcripts", &path)[0];
    assert_eq!(tally(report), [12, 5, 7, 0], "{report}");
    assert_eq!(report["run_open"], false, "its turn is over: {report}");
    let whole = CLAUDE.lines().count() as u64;
    write(folder.path(), &name, CLAUDE);
    let report = &import(&server, "claude-transcripts", &path)[0];
    assert_eq!(tally(report), [whole, whole - 12, 12, 1], "{report}");
    let listed = runs(&server);
    assert_eq!([&listed[1]["input_tokens"], &listed[1]["turns"]], [3719, 3]);
    server.ask(&["verify", "--all"]).good();
}

#[test]
fn unreadable_lines_are_reported_and_the_rest_is_imported() {
    let server = Server::fresh();
    let folder = tempfile::tempdir().unwrap();
    let name = "rollout-2026-11-20T09-00-00-0199aaaa-1111-7222-8333-444455556666.jsonl";
    let mut bytes = lines(CODEX, 0, 4).into_bytes();
    bytes.extend_from_slice(b"{\"type\":\xff}\n{\"type\":\n\n{\"type\":\"of_tomorrow\",\"payload\":{}}\n");
    bytes.extend_from_slice(lines(CODEX, 4, 99).as_bytes());
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    fs::write(folder.path().join("other.jsonl"), "{}\n").unwrap();
    let report = import(&server, "codex-rollouts", folder.path());
    assert_eq!(report.len(), 1, "only rollouts: {report:?}");
    let count = CODEX.lines().count() as u64 + 3;
    assert_eq!(tally(&report[0]), [count, count, 0, 2], "{report:?}");
    assert_eq!([&report[0]["tally"]["invalid"], &report[0]["tally"]["unknown"]["of_tomorrow"]], [2, 1]);
    let listed = runs(&server);
    // The last count of each request, not the sum of the counts.
    assert_eq!([&listed[1]["input_tokens"], &listed[1]["output_tokens"]], [400, 40]);
    let shown = server.ask(&["show", listed[1]["id"].as_str().unwrap()]).good();
    assert!(
        shown.contains("not recorded: line 5 of the transcript cannot be read: it is not UTF-8"),
        "{shown}"
    );

    server.ask(&["import", "--from", "codex-rollouts", "/nowhere"]).bad(2, "cannot read /nowhere");
    server.ask(&["import", "--follow", "x"]).bad(2, "--from");
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().to_str().unwrap();
    server.ask(&["import", "--from", "codex-rollouts", path]).bad(2, "no transcripts");
    // After pruning it is not known any more which lines were imported.
    server.ask(&["prune", listed[1]["id"].as_str().unwrap()]).good();
    let again = server.ask(&["import", "--from", "codex-rollouts", folder.path().to_str().unwrap()]);
    assert_eq!(again.status, 1, "{again:?}");
    assert!(again.data.contains("were pruned"), "{again:?}");
    assert_eq!(runs(&server).len(), 2);
}

#[test]
fn a_followed_transcript_is_imported_as_it_grows() {
    let server = Server::fresh();
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &format!("{SESSION}.jsonl"), &lines(CLAUDE, 0, 7));
    let arguments =
        ["import", "--json", "--follow", "--from", "claude-transcripts", folder.path().to_str().unwrap()];
    let following = server.follow(&arguments);
    let first: Value = serde_json::from_str(&following.line()).unwrap();
    assert_eq!(tally(&first), [7, 7, 0, 1]);
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(lines(CLAUDE, 7, 12).as_bytes()).unwrap();
    let more: Value = serde_json::from_str(&following.line()).unwrap();
    assert_eq!(more["tally"]["imported"], 12, "{more}");
    // A turn that is over ends its run when nothing follows.
    let run = runs(&server)[0]["id"].as_str().unwrap().to_owned();
    let all = server.ask(&["tail", "-f", "--json", &run]).good();
    assert!(all.lines().last().unwrap().contains("\"type\":\"run.finished\""), "{all}");
    // Another session begins meanwhile.
    write(folder.path(), "second.jsonl", &lines(CLAUDE, 0, 12));
    let second: Value = serde_json::from_str(&following.line()).unwrap();
    assert_eq!(second["tally"]["imported"], 12, "{second}");
    assert!(second["file"].as_str().unwrap().ends_with("second.jsonl"));
}

/// Reading one of these would wait for a writer, or never end.
#[test]
fn a_pipe_with_a_name_and_a_link_to_a_device_are_refused() {
    let server = Server::fresh();
    let folder = tempfile::tempdir().unwrap();
    let (pipe, zero) = (folder.path().join("pipe.jsonl"), folder.path().join("zero.jsonl"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
    for path in [&pipe, &zero] {
        let path = path.to_str().unwrap();
        server.ask(&["import", path]).bad(2, "it is not a regular file");
        let answer = server.ask(&["import", "--from", "claude-transcripts", path]);
        assert!(answer.status == 1 && answer.data.contains("it is not a regular file"), "{answer:?}");
    }
}

#[test]
fn a_rollout_with_items_is_imported_with_its_prompt_and_unknown_types_are_named() {
    let server = Server::fresh();
    let folder = tempfile::tempdir().unwrap();
    let name = "rollout-2026-11-27T10-00-00-0199bbbb-1111-7222-8333-444455556666.jsonl";
    let path = write(folder.path(), name, CODEX_ITEMS);
    let report = server.ask(&["import", "--from", "codex-rollouts", path.to_str().unwrap()]);
    for remark in [
        "1 line of unknown type item_completed HologramView, stored as raw text only",
        "1 line of unknown type event_msg of_tomorrow, stored as raw text only",
        "1 run without a prompt; each records this as a gap event",
    ] {
        assert!(report.words.contains(remark), "{remark}: {report:?}");
    }
    let listed = runs(&server);
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert_eq!(
        [&listed[1]["title"], &listed[1]["agent_version"]],
        ["run the tests of the basket", "0.171.0"]
    );
    assert_eq!([&listed[1]["input_tokens"], &listed[1]["output_tokens"]], [400, 40]);
    let shown = server.ask(&["show", listed[0]["id"].as_str().unwrap()]).good();
    assert!(shown.contains("not recorded: the message that started this run"), "{shown}");
    server.ask(&["verify", "--all"]).good();
}

#[test]
fn today_adds_up_what_an_agent_reports_of_its_cost() {
    let server = Server::fresh();
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "2efd1f5f-2222-4a22-8b33-0123456789ab.jsonl", CLAUDE_COSTS);
    let report = import(&server, "claude-transcripts", &path);
    assert_eq!(tally(&report[0])[3], 2, "{report:?}");
    let costs: Vec<Value> = runs(&server).iter().map(|run| run["cost_micros_usd"].clone()).collect();
    assert_eq!(costs, [10_000, 31_925]);
    // The change that a completed call made is a patch with its place.
    let first = runs(&server)[1]["id"].as_str().unwrap().to_owned();
    let shown = server.ask(&["show", "--json", &first]).good();
    let created: Vec<Value> = shown
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["type"] == "artifact.created")
        .collect();
    assert_eq!(created.len(), 1, "{shown}");
    let patch = &created[0]["data"];
    assert_eq!([&patch["kind"], &patch["path"], &patch["tool_call_id"]], ["patch", "basket.py", "toolu_02A"]);
    let listed: Value = serde_json::from_str(
        server.ask(&["artifact", "ls", "--json", "--run", &first]).good().lines().next().unwrap(),
    )
    .unwrap();
    assert_eq!(listed["status"], "applied", "{listed}");
    let text = server.ask(&["artifact", "get", patch["artifact_id"].as_str().unwrap()]).good();
    assert!(text.contains("@@ -2,3 +2,3 @@\n b\n-total = 0\n+total = 1\n c\n"), "{text}");
    let today = server.ask(&["today"]).good();
    assert!(today.contains("claude-code 2.1.332: 2 runs (2 finished), cost 0.041925 USD."), "{today}");
    server.ask(&["verify", "--all"]).good();
}

/// Hooks record the session while the agent works; the import of its transcript belongs to the same session and prompts.
#[tokio::test]
async fn an_import_of_a_recorded_session_is_joined_with_it() {
    let server = Server::fresh();
    let folder = tempfile::tempdir().unwrap();
    let session = "2efd1f5f-2222-4a22-8b33-0123456789ab";
    let http = recount_client::connections(&server.url()).unwrap();
    for (event, more) in [
        (
            "UserPromptSubmit",
            serde_json::json!({"prompt_id": "p-1", "prompt": "Correct the total of the basket."}),
        ),
        (
            "Stop",
            serde_json::json!({"prompt_id": "p-1", "last_assistant_message": "The total is right now."}),
        ),
    ] {
        let mut body =
            serde_json::json!({"session_id": session, "cwd": "/home/ann/shop", "hook_event_name": event});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let address = format!("{}/hooks/claude/{event}", server.url());
        let request = http.post(address).header("content-type", "application/json").body(body.to_string());
        assert!(request.send().await.unwrap().status().is_success());
    }
    let live = runs(&server);
    assert_eq!(live.len(), 1);
    let path = write(folder.path(), &format!("{session}.jsonl"), CLAUDE_COSTS);
    import(&server, "claude-transcripts", &path);
    let all = runs(&server);
    assert_eq!(all.len(), 3, "{all:?}");
    let names: std::collections::BTreeSet<&str> =
        all.iter().map(|run| run["agent_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["claude-code"].into(), "one name, however it was recorded");
    assert!(all.iter().all(|run| run["session_id"] == live[0]["session_id"]), "one session: {all:?}");
    let shown = server.ask(&["show", "--json", all[1]["id"].as_str().unwrap()]).good();
    let link = shown
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|event| event["type"] == "ext.recount.recorded_as")
        .expect("the imported run names the recorded one");
    assert_eq!(link["data"]["raw"]["run_id"], live[0]["id"]);
    let today = server.ask(&["today"]).good();
    assert!(today.contains("claude-code 2.1.332: 2 runs (2 finished), cost 0.041925 USD."), "{today}");
}
