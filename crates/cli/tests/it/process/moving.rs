//! Runs that move from one server to another, by a file or a pipe.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use recount_client::export::Header;
use recount_client::request::CreateTask;
use recount_server::export::ExportDigest;
use serde_json::{Value, json};

use crate::process::between::{Between, Then};
use crate::process::scene::client;
use crate::process::story::{self, ASKING, BEGINNING};
use crate::process::tamper;
use crate::server::{CommandOutput, PATIENCE, Server, recount};

/// Runs a verb with this as its standard input.
fn ask_with(arguments: &[&str], input: &[u8]) -> CommandOutput {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(input).unwrap();
    let input = std::fs::File::open(file.path()).unwrap();
    CommandOutput::of(recount().args(arguments).stdin(Stdio::from(input)))
}

fn files_of(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The runs of an export, without its last line.
fn without_end(export: &str) -> &str {
    let (runs, end) = export.trim_end().rsplit_once('\n').unwrap();
    assert!(end.starts_with(r#"{"object":"end","runs":"#), "{end}");
    &export[..=runs.len()]
}

/// Lines of a run that has this header in place of the right one.
fn with_header(header: &Header, lines: &str) -> String {
    let (_, events) = lines.split_once('\n').unwrap();
    format!("{}\n{events}", header.line())
}

#[tokio::test]
async fn everything_moves_to_a_fresh_server() {
    let (old, new, files) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let there = Server::start(old.path());
    let task = CreateTask {
        title: Some("A task".to_owned()),
        kind: Some("external".to_owned()),
        ..CreateTask::default()
    };
    let of_task = client(&there).create_task(&task).await.unwrap().latest_run_id.unwrap();
    let ended = story::whole(&client(&there), "one").await;
    let open = story::create(&client(&there), "two").await;
    story::append(&client(&there), &open, 0, BEGINNING).await;
    story::append(&client(&there), &open, 1, ASKING).await;

    let file = files.path().join("all.jsonl");
    let name = file.to_str().unwrap();
    let exported = there.ask(&["export", "--all", "-o", name]);
    assert!(exported.words.contains("3 runs exported, "), "{exported:?}");
    let digests: Vec<String> =
        [&of_task, &ended, &open].iter().map(|run| there.ask(&["digest", run]).good()).collect();
    let export_lines: String = digests
        .iter()
        .map(|digest| {
            let [run, events, head]: [&str; 3] =
                digest.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
            let noun = if events == "1" { "event" } else { "events" };
            format!("{run} exported, {events} {noun}, head {head}\n")
        })
        .collect();
    assert_eq!(exported.good(), export_lines);
    assert_eq!(files_of(files.path()), ["all.jsonl"]);
    let whole = std::fs::read_to_string(&file).unwrap();
    assert_eq!(there.ask(&["export", "--all"]).good(), whole);
    let parts = [&of_task, &ended, &open].map(|run| there.ask(&["export", run]).good());
    let runs: String = parts.iter().map(|part| without_end(part)).collect();
    assert_eq!(runs, without_end(&whole));
    assert_eq!(there.ask(&["export", &of_task, &ended, &open, "-o", "-"]).good(), whole);
    let listed = there.ask(&["ls", "--json"]).good();
    let tasks: Value = serde_json::from_str(&there.ask(&["ls", "--tasks", "--json"]).good()).unwrap();
    drop(there);

    // The same without a server.
    let folder = old.path().to_str().unwrap();
    let offline = CommandOutput::of(recount().args(["export", "--all", "--data", folder]));
    assert_eq!(offline.good(), whole);
    assert_eq!(CommandOutput::of(recount().args(["export", &ended, "--data", folder])).good(), parts[1]);

    let here = Server::start(new.path());
    let imported = here.ask(&["import", name]);
    assert!(imported.words.contains("3 imported, 0 already present, 0 refused"), "{imported:?}");
    assert_eq!(imported.good(), export_lines.replace(" exported", " imported"));
    for (run, digest) in [&of_task, &ended, &open].into_iter().zip(&digests) {
        assert_eq!(&here.ask(&["digest", run]).good(), digest);
    }
    here.ask(&["verify", "--all"]).good();
    assert_eq!(here.ask(&["ls", "--json"]).good(), listed);
    // No run holds the title of its task.
    let task: Value = serde_json::from_str(&here.ask(&["ls", "--tasks", "--json"]).good()).unwrap();
    for name in ["id", "latest_run_id", "runs", "status", "title"] {
        assert_eq!(task[name], tasks[name], "{name}");
    }
    assert_eq!(here.ask(&["export", "--all"]).good(), whole);
    assert_eq!(here.ask(&["import", name]).good(), export_lines.replace(" exported", " already present"));
    // It goes on here.
    assert_eq!(here.ask(&["approve", "appr_1", "--yes"]).good(), "appr_1 approved\n");
    let answer = here.ask(&["import", name]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.data.contains(&format!("{open} refused: ")), "{answer:?}");
    assert!(answer.data.contains("(run_exists)"), "{answer:?}");
    assert!(answer.words.contains("0 imported, 2 already present, 1 refused"), "{answer:?}");
}

#[tokio::test]
async fn a_folder_can_be_filled_without_a_server() {
    let (old, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let there = Server::start(old.path());
    let run = story::whole(&client(&there), "one").await;
    let lines = there.ask(&["export", "--all"]).good();
    let data = place.path().join("data");
    let folder = data.to_str().unwrap();
    let imported = ask_with(&["import", "-", "--data", folder, "--json"], lines.as_bytes()).good();
    let imported: Value = serde_json::from_str(&imported).unwrap();
    let digest: Value = serde_json::from_str(&there.ask(&["digest", &run, "--json"]).good()).unwrap();
    let expected = json!({
        "run_id": run, "ok": true, "imported": true, "events": digest["events"], "head": digest["head"],
    });
    assert_eq!(imported, expected);
    // No server is contacted, so none has to run, and a bad address does no harm.
    let verified = CommandOutput::of(recount().args(["verify", "--data", folder]));
    assert!(verified.good().starts_with(&format!("{run} ok, ")));
    let again = ask_with(&["import", "-", "--data", folder, "--url", "nonsense"], lines.as_bytes()).good();
    assert!(again.starts_with(&format!("{run} already present, ")), "{again}");
    let here = Server::start(&data);
    assert_eq!(here.ask(&["export", &run]).good(), lines);
    ask_with(&["import", "-", "--data", folder], lines.as_bytes()).bad(5, "another folder");
    CommandOutput::of(recount().args(["export", "--all", "--data", folder])).bad(5, "another folder");
}

#[tokio::test]
async fn a_run_that_is_refused_does_not_stop_those_behind_it() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (there, here) = (Server::start(old.path()), Server::start(new.path()));
    let mut runs = Vec::new();
    for title in ["one", "two", "three", "four"] {
        runs.push(story::whole(&client(&there), title).await);
    }
    let lines: Vec<String> =
        runs.iter().map(|run| without_end(&there.ask(&["export", run]).good()).to_owned()).collect();
    let cut = lines[0].trim_end().rsplit_once('\n').unwrap().0;
    let changed = lines[1].replacen("say hello", "say jello", 1);
    let headless = lines[2].split_once('\n').unwrap().1;
    let broken = format!("{{\"object\":\"run\"}}\n{headless}");
    let file = format!("stray\n{cut}\n{changed}{broken}{}", lines[3]);
    let url = here.url();
    let answer = ask_with(&["import", "-", "--url", &url], file.as_bytes());
    assert_eq!(answer.status, 1, "{answer:?}");
    let at = 1 + 1 + cut.lines().count() + changed.lines().count();
    let begins = [
        "line 1 refused: ".to_owned(),
        format!("{} refused: ", runs[0]),
        format!("{} refused: ", runs[1]),
        format!("line {at} refused: "),
        format!("{} imported, ", runs[3]),
    ];
    let digest_lines: Vec<&str> = answer.data.lines().collect();
    assert_eq!(digest_lines.len(), begins.len(), "{answer:?}");
    for ((line, begin), end) in digest_lines.iter().zip(&begins).zip([
        "(body_malformed)",
        "(export_altered)",
        "(export_altered)",
        "(body_malformed)",
        "",
    ]) {
        assert!(line.starts_with(begin) && line.ends_with(end), "{line:?} is not {begin:?} and {end:?}");
    }
    assert!(answer.words.contains("1 imported, 0 already present, 4 refused"), "{answer:?}");
    assert_eq!(here.ask(&["ls", "--json"]).good().lines().count(), 1);
    here.ask(&["verify", "--all"]).good();
}

#[tokio::test]
async fn an_export_that_was_cut_between_two_runs_is_noticed() {
    let old = tempfile::tempdir().unwrap();
    let there = Server::start(old.path());
    let mut runs = Vec::new();
    for title in ["one", "two", "three"] {
        runs.push(story::whole(&client(&there), title).await);
    }
    let whole = there.ask(&["export", "--all"]).good();
    let second = whole.match_indices("{\"object\":\"run\"").nth(1).unwrap().0;
    let import = |input: &str| {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        ask_with(&["import", "-", "--data", data.to_str().unwrap()], input.as_bytes())
    };
    let missing = "the input has no final line with the number of runs";

    let complete = import(&whole);
    assert!(!complete.words.contains(missing), "{complete:?}");
    complete.good();
    // Joined by `cat`.
    let parts: String = runs.iter().map(|run| there.ask(&["export", run]).good()).collect();
    let joined = import(&parts);
    assert!(joined.words.contains("3 imported") && !joined.words.contains(missing), "{joined:?}");
    joined.good();
    // Cut between two runs; and as older releases exported it.
    for input in [&whole[..second], without_end(&whole)] {
        let cut = import(input);
        assert!(cut.words.contains(missing), "{cut:?}");
        assert!(cut.good().contains(&format!("{} imported", runs[0])));
    }
    // Without its first run.
    let rest = import(&whole[second..]);
    assert!(rest.words.contains("2 imported, 0 already present, 1 refused"), "{rest:?}");
    assert!(rest.data.contains("3 runs with ") && rest.data.contains("(export_altered)"), "{rest:?}");
    assert_eq!(rest.status, 1);
    // Cut in the middle of its last line.
    let torn = import(whole.trim_end().strip_suffix('}').unwrap());
    assert!(torn.status == 1 && torn.data.contains("(body_malformed)"), "{torn:?}");
}

/// The last position that the store's high-water mark names.
fn high_water(data: &Path) -> u64 {
    let bytes = std::fs::read(data.join("high-water")).unwrap_or_default();
    let slots = [0, 512].into_iter().filter_map(|at| bytes.get(at + 16..at + 24)?.first_chunk().copied());
    slots.map(u64::from_be_bytes).max().unwrap_or(0)
}

/// The output of `export --all --data` for a damaged copy of a store, on which no server starts.
fn export_damaged(data: &Path, damage: impl Fn(&Path)) -> CommandOutput {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("blobs")).unwrap();
    for name in ["recount.db", "recount.db-wal", "high-water"] {
        if data.join(name).exists() {
            std::fs::copy(data.join(name), place.path().join(name)).unwrap();
        }
    }
    damage(place.path());
    let mut serve = recount();
    let refused =
        CommandOutput::of(serve.args(["serve", "--bind", "127.0.0.1:0", "--data"]).arg(place.path()));
    assert_eq!(refused.status, 5, "{refused:?}");
    let export = || CommandOutput::of(recount().args(["export", "--all", "--data"]).arg(place.path()));
    let exported = export();
    assert_eq!(export().data, exported.data, "the folder stays as it is");
    exported
}

#[tokio::test]
async fn a_folder_that_the_server_refuses_is_exported_as_far_as_it_is_whole() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let mut runs = Vec::new();
    for number in 0..30 {
        runs.push(story::whole(&client(&server), &format!("run {number}")).await);
    }
    let before = server.ask(&["export", "--all"]).good();
    server.stop();

    // A page of events is missing.
    let of_run = |all: &str, run: &str| -> Vec<String> {
        all.lines().filter(|line| line.contains(run)).map(str::to_owned).collect()
    };
    let event: Value = serde_json::from_str(&of_run(&before, &runs[7])[3]).unwrap();
    let event = event["event_id"].as_str().unwrap().as_bytes();
    let exported = export_damaged(data.path(), |folder| {
        let path = folder.join("recount.db");
        let mut bytes = std::fs::read(&path).unwrap();
        let page = bytes.windows(event.len()).position(|window| window == event).unwrap() / 4096;
        bytes[page * 4096..(page + 1) * 4096].fill(0);
        std::fs::write(&path, bytes).unwrap();
    });
    assert_eq!(exported.status, 1, "{exported:?}");
    let named = |run: &str| exported.words.contains(&format!("{run} is damaged and was skipped"));
    let mut left_out = 0;
    for run in &runs {
        let found = of_run(&exported.data, run);
        assert!(found.is_empty() == named(run), "{run} is named ({}) or exported: {found:?}", named(run));
        assert!(found.is_empty() || found == of_run(&before, run), "{run} is exported as it was");
        left_out += usize::from(found.is_empty());
    }
    assert!(named(&runs[7]) && left_out < runs.len(), "{exported:?}");
    let end: Value = serde_json::from_str(exported.data.lines().last().unwrap()).unwrap();
    assert_eq!((&end["object"], &end["left_out"]), (&json!("end"), &json!(left_out)));

    // The write-ahead log is missing, and with it a run that nothing names any more.
    let mut server = Server::start(data.path());
    let late = story::whole(&client(&server), "late").await;
    let all = server.ask(&["export", "--all"]).good();
    let events = all.lines().filter(|line| !line.starts_with("{\"object\":")).count() as u64;
    while high_water(data.path()) != events {
        crate::server::wait_to_look();
    }
    server.kill();
    let exported = export_damaged(data.path(), |folder| {
        std::fs::remove_file(folder.join("recount.db-wal")).unwrap();
    });
    assert!(all.contains(&late) && exported.data == before, "{exported:?}");
    assert!(exported.words.contains("the newest commits may be missing"), "{exported:?}");
    assert_eq!(exported.status, 1, "{exported:?}");
}

/// The server starts beside damage like this, so the folder is no damaged one to `export`.
#[tokio::test]
async fn an_export_leaves_out_a_run_that_is_damaged_where_it_is_sealed() {
    let (data, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = Server::start(data.path());
    let first = story::whole(&client(&server), "one").await;
    let bad = story::create(&client(&server), "two").await;
    story::append(&client(&server), &bad, 0, BEGINNING).await;
    story::append(&client(&server), &bad, 1, &[("ext.mark.made", r#"{"text":"the only mark"}"#)]).await;
    let last = story::whole(&client(&server), "three").await;
    let before = server.ask(&["export", &first, &last]).good();
    server.stop();
    recount_server::verify::seal(data.path()).await.unwrap();
    let database = data.path().join("recount.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let mark = b"the only mark";
    let places: Vec<usize> =
        (0..bytes.len() - mark.len()).filter(|at| bytes[*at..].starts_with(mark)).collect();
    assert!(!places.is_empty(), "the event is in the database");
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    std::fs::write(&database, &bytes).unwrap();

    let file = files.path().join("out.jsonl");
    let (name, partial) = (file.to_str().unwrap(), files.path().join("out.jsonl.partial"));
    let check = |ask: &dyn Fn(&[&str]) -> CommandOutput| {
        let all = ask(&["export", "--all"]);
        assert_eq!((all.status, without_end(&all.data)), (1, without_end(&before)), "{all:?}");
        let end: Value = serde_json::from_str(all.data.lines().last().unwrap()).unwrap();
        assert_eq!((&end["runs"], &end["left_out"]), (&json!(2), &json!(1)));
        let named = all.words.lines().find(|line| line.starts_with(&bad)).unwrap();
        assert!(named.contains(" is damaged and was skipped ("), "{all:?}");
        assert!(named.contains(" sequence ") || named.contains(" event"), "which events: {all:?}");

        // What lacks a run does not take the place of what may have it.
        for before in [None, Some("an export from before")] {
            if let Some(before) = before {
                std::fs::write(&file, before).unwrap();
            }
            let filed = ask(&["export", "--all", "-o", name]);
            assert_eq!((filed.status, filed.data.lines().count()), (1, 2), "{filed:?}");
            assert!(filed.words.contains("out.jsonl.partial; "), "{filed:?}");
            assert_eq!(std::fs::read_to_string(&partial).unwrap(), all.data);
            assert_eq!(std::fs::read_to_string(&file).ok().as_deref(), before);
        }
        std::fs::remove_file(&partial).unwrap();
        std::fs::remove_file(&file).unwrap();

        // Named alone it is refused, and nothing of it is written.
        let alone = ask(&["export", &bad]);
        assert_eq!((alone.status, alone.data.as_str()), (1, ""), "{alone:?}");
        assert!(alone.words.contains(&bad) && alone.words.contains("damaged"), "{alone:?}");
        ask(&["export", &bad, "-o", name]).bad(1, &bad);
        assert_eq!(files_of(files.path()), Vec::<String>::new());
    };
    check(&|arguments| CommandOutput::of(recount().args(arguments).arg("--data").arg(data.path())));
    let server = Server::start(data.path());
    check(&|arguments| server.ask(arguments));
}

/// Erased, or changed behind the server's back, after the runs were listed.
#[tokio::test]
async fn an_export_of_all_goes_on_after_a_run_that_went_or_does_not_add_up() {
    let (data, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path());
    let first = story::whole(&client(&server), "one").await;
    let task = CreateTask { kind: Some("external".to_owned()), ..CreateTask::default() };
    let task = client(&server).create_task(&task).await.unwrap();
    let erased = task.latest_run_id.unwrap();
    let changed = story::whole(&client(&server), "two").await;
    let last = story::whole(&client(&server), "three").await;
    drop(server);
    tamper::change_first_event(data.path(), &changed).await;
    let server = Server::start(data.path());
    let file = files.path().join("out.jsonl");
    let name = file.to_str().unwrap();
    let (url, task) = (server.url(), task.id);
    let erase = move || {
        CommandOutput::of(recount().args(["--url", &url, "delete", &task, "--yes"])).good();
    };
    let between = Between::at(&server, &format!("{erased}/digest"), Then::First(Box::new(erase)));
    let all = between.ask(&["export", "--all", "-o", name]);
    assert_eq!(all.status, 1, "{all:?}");
    let named = |run: &str, words: &str| {
        let line = all.words.lines().find(|line| line.starts_with(run));
        assert!(line.is_some_and(|line| line.contains(words)), "{run}: {all:?}");
    };
    named(&erased, "was erased during the export and was skipped");
    named(&changed, "is damaged and was skipped");
    assert_eq!(files_of(files.path()), ["out.jsonl.partial"]);
    let written = std::fs::read_to_string(files.path().join("out.jsonl.partial")).unwrap();
    let whole = server.ask(&["export", &first, &last]).good();
    assert_eq!(without_end(&written), without_end(&whole));
    let end: Value = serde_json::from_str(written.lines().last().unwrap()).unwrap();
    assert_eq!((&end["runs"], &end["left_out"]), (&json!(2), &json!(2)));
}

#[tokio::test]
async fn a_damaged_run_leaves_no_file() {
    let (data, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path());
    let good = story::whole(&client(&server), "one").await;
    let bad = story::whole(&client(&server), "two").await;
    let file = files.path().join("out.jsonl");
    let name = file.to_str().unwrap();
    server.ask(&["export", &good, "-o", name]).good();
    let before = std::fs::read_to_string(&file).unwrap();
    drop(server);
    tamper::change_first_event(data.path(), &bad).await;
    let folder = data.path().to_str().unwrap();
    let offline = CommandOutput::of(recount().args(["export", &good, &bad, "--data", folder, "-o", name]));
    let server = Server::start(data.path());
    let online = server.ask(&["export", &good, &bad, "-o", name]);
    for answer in [offline, online] {
        assert_eq!((answer.status, answer.data.as_str()), (1, ""), "{answer:?}");
        assert!(answer.words.contains(&bad), "{answer:?}");
    }
    assert_eq!(files_of(files.path()), ["out.jsonl"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "the file from before stays");
    server.ask(&["export", "run_01KQPNV2ZVNJX2AM9103W0PNQW", "-o", name]).bad(1, "run_not_found");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    server.ask(&["export", &good, "-o", "/nonexistent/x"]).bad(2, "cannot write");
    server.ask(&["export", &bad]).bad(1, &bad);
}

#[tokio::test]
async fn an_artifact_that_does_not_fit_on_the_disk_leaves_no_file() {
    let (data, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path());
    let bytes = "a line of the artifact\n".repeat(20_000).into_bytes();
    let sent =
        client(&server).upload_artifact(bytes.clone(), "text/plain", Some("file"), None).await.unwrap();
    let get = |limit: &str| {
        // A file that grows beyond the limit is refused as on a full disk.
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$@\"");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script, "sh"]).arg(recount().get_program());
        shell.args(["--url", &server.url(), "artifact", "get", &sent.id, "-o"]).arg(files.path().join("out"));
        CommandOutput::of(&mut shell)
    };
    get("8").bad(5, "cannot write");
    assert_eq!(files_of(files.path()), Vec::<String>::new());
    get("unlimited").good();
    assert_eq!(std::fs::read(files.path().join("out")).unwrap(), bytes);
}

#[tokio::test]
async fn every_story_can_be_brought_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/runs");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut file = String::new();
    for path in &paths {
        let text = std::fs::read_to_string(path).unwrap();
        let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let run = first["run_id"].as_str().unwrap();
        let header = headed(run, &text);
        file.push_str(&with_header(&header, &format!("\n{text}")));
    }
    let server = Server::fresh();
    let answer = ask_with(&["import", "-", "--url", &server.url()], file.as_bytes());
    assert!(
        answer.words.contains(&format!("{} imported, 0 already present, 0 refused", paths.len())),
        "{answer:?}"
    );
    answer.good();
    server.ask(&["verify", "--all"]).good();
}

/// The header that fits some lines.
fn headed(run: &str, lines: &str) -> Header {
    let events = lines.lines().count() as u64;
    let mut sum = ExportDigest::new(run);
    lines.lines().for_each(|line| sum.event(line.as_bytes()).unwrap());
    Header::new(run, events, &sum.head())
}

#[test]
fn invalid_exports_are_rejected() {
    let ask = |arguments: &[&str]| CommandOutput::of(recount().args(arguments));
    ask(&["export"]).bad(2, "Usage");
    ask(&["export", "run_1", "--all"]).bad(2, "--all");
    ask(&["import"]).bad(2, "Usage");
    ask(&["import", "/nonexistent/x"]).bad(2, "cannot read");
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap();
    ask(&["export", "--all", "--data", name]).bad(2, "contains no store");
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let nothing = ask_with(&["import", "-", "--data", data], b"");
    assert!(nothing.words.contains("0 imported"), "{nothing:?}");
    nothing.good();
    let end = "{\"object\":\"end\",\"runs\":0,\"events\":0}\n";
    assert_eq!(ask(&["export", "--all", "--data", data]).good(), end);
    ask(&["export", "run_1", "--data", data]).bad(1, "run_not_found");
}

#[tokio::test]
async fn an_export_goes_on_when_the_server_was_started_again() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let run = story::create(&client(&server), "long").await;
    story::append(&client(&server), &run, 0, BEGINNING).await;
    // More than is held before the first line is written, so that most is read while it is written.
    let filling = format!(r#"{{"text":"{}"}}"#, "x".repeat(3_500));
    let filling: &'static str = Box::leak(filling.into_boxed_str());
    for seq in 1..=10 {
        story::append(&client(&server), &run, seq, &[("ext.acme.filling", filling); 300]).await;
    }
    let whole = server.ask(&["export", &run]).good();

    let mut export = recount();
    export.args(["--url", &server.url(), "export", &run]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut export = export.spawn().unwrap();
    let mut lines = BufReader::new(export.stdout.take().unwrap());
    let mut words = BufReader::new(export.stderr.take().unwrap()).lines();
    let mut exported = String::new();
    lines.read_line(&mut exported).unwrap();
    // The pipe holds less than a hundredth of the run, so most of it was not asked for again yet.
    server.kill();
    let (send, rest) = std::sync::mpsc::channel();
    recount_world::thread("exported", move || {
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        send.send(rest).unwrap();
    });
    let retry_note = words.next().unwrap().unwrap();
    assert!(retry_note.contains("no response from") && retry_note.contains("retrying in"), "{retry_note}");
    let _again = Server::start_at(data.path(), &server.address);
    exported.push_str(&rest.recv_timeout(PATIENCE).unwrap());
    assert!(export.wait().unwrap().success());
    assert!(exported == whole, "{} bytes of {}", exported.len(), whole.len());

    // A server that never answered is not waited for.
    let unused = "http://127.0.0.1:9";
    CommandOutput::of(recount().args(["--url", unused, "export", &run])).bad(3, "no response from");
}
