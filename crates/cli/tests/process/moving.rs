//! Runs that move from one server to another, by a file or a pipe.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use recount_client::Client;
use recount_client::export::Header;
use recount_client::request::CreateTask;
use recount_server::export::Sum;
use serde_json::{Value, json};

use crate::server::{Answer, PATIENCE, Server, recount};
use crate::story::{self, ASKING, BEGINNING};
use crate::tamper;

fn client(server: &Server) -> Client {
    Client::new(&server.url(), None).unwrap()
}

/// Runs a verb with this as its standard input.
fn ask_with(arguments: &[&str], input: &[u8]) -> Answer {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(input).unwrap();
    let input = std::fs::File::open(file.path()).unwrap();
    Answer::of(recount().args(arguments).stdin(Stdio::from(input)))
}

fn files_of(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
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
    story::tell(&client(&there), &open, 0, BEGINNING).await;
    story::tell(&client(&there), &open, 1, ASKING).await;

    let file = files.path().join("all.jsonl");
    let name = file.to_str().unwrap();
    let exported = there.ask(&["export", "--all", "-o", name]);
    assert!(exported.words.contains("3 runs exported, "), "{exported:?}");
    let digests: Vec<String> =
        [&of_task, &ended, &open].iter().map(|run| there.ask(&["digest", run]).good()).collect();
    let told: String = digests
        .iter()
        .map(|digest| {
            let [run, events, head]: [&str; 3] =
                digest.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
            format!("{run} exported, {events} events, head {head}\n")
        })
        .collect();
    assert_eq!(exported.good(), told);
    assert_eq!(files_of(files.path()), ["all.jsonl"]);
    let whole = std::fs::read_to_string(&file).unwrap();
    assert_eq!(there.ask(&["export", "--all"]).good(), whole);
    let parts = [&of_task, &ended, &open].map(|run| there.ask(&["export", run]).good());
    assert_eq!(parts.concat(), whole);
    assert_eq!(there.ask(&["export", &of_task, &ended, &open, "-o", "-"]).good(), whole);
    let listed = there.ask(&["ls", "--json"]).good();
    let tasks: Value = serde_json::from_str(&there.ask(&["ls", "--tasks", "--json"]).good()).unwrap();
    drop(there);

    // The same without a server.
    let folder = old.path().to_str().unwrap();
    let offline = Answer::of(recount().args(["export", "--all", "--data", folder]));
    assert_eq!(offline.good(), whole);
    assert_eq!(Answer::of(recount().args(["export", &ended, "--data", folder])).good(), parts[1]);

    let here = Server::start(new.path());
    let imported = here.ask(&["import", name]);
    assert!(imported.words.contains("3 imported, 0 here already, 0 refused"), "{imported:?}");
    assert_eq!(imported.good(), told.replace(" exported", " imported"));
    for (run, digest) in [&of_task, &ended, &open].into_iter().zip(&digests) {
        assert_eq!(&here.ask(&["digest", run]).good(), digest);
    }
    here.ask(&["verify", "--all"]).good();
    assert_eq!(here.ask(&["ls", "--json"]).good(), listed);
    // What a task was called stands in no run of it.
    let task: Value = serde_json::from_str(&here.ask(&["ls", "--tasks", "--json"]).good()).unwrap();
    for name in ["id", "latest_run_id", "runs", "status", "title"] {
        assert_eq!(task[name], tasks[name], "{name}");
    }
    assert_eq!(here.ask(&["export", "--all"]).good(), whole);
    assert_eq!(here.ask(&["import", name]).good(), told.replace(" exported", " here already"));
    // It goes on here.
    assert_eq!(here.ask(&["approve", "appr_1"]).good(), "appr_1 approved\n");
    let answer = here.ask(&["import", name]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.data.contains(&format!("{open} refused: ")), "{answer:?}");
    assert!(answer.data.contains("(run_exists)"), "{answer:?}");
    assert!(answer.words.contains("0 imported, 2 here already, 1 refused"), "{answer:?}");
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
    // No server is asked, so that none need be there, and a bad address does no harm.
    let verified = Answer::of(recount().args(["verify", "--data", folder]));
    assert!(verified.good().starts_with(&format!("{run} ok, ")));
    let again = ask_with(&["import", "-", "--data", folder, "--url", "nonsense"], lines.as_bytes()).good();
    assert!(again.starts_with(&format!("{run} here already, ")), "{again}");
    let here = Server::start(&data);
    assert_eq!(here.ask(&["export", &run]).good(), lines);
    ask_with(&["import", "-", "--data", folder], lines.as_bytes()).bad(5, "another folder");
    Answer::of(recount().args(["export", "--all", "--data", folder])).bad(5, "another folder");
}

#[tokio::test]
async fn a_run_that_is_refused_does_not_stop_those_behind_it() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (there, here) = (Server::start(old.path()), Server::start(new.path()));
    let mut runs = Vec::new();
    for title in ["one", "two", "three", "four"] {
        runs.push(story::whole(&client(&there), title).await);
    }
    let lines: Vec<String> = runs.iter().map(|run| there.ask(&["export", run]).good()).collect();
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
    let told: Vec<&str> = answer.data.lines().collect();
    assert_eq!(told.len(), begins.len(), "{answer:?}");
    for ((line, begin), end) in told.iter().zip(&begins).zip([
        "(body_malformed)",
        "(export_altered)",
        "(export_altered)",
        "(body_malformed)",
        "",
    ]) {
        assert!(line.starts_with(begin) && line.ends_with(end), "{line:?} is not {begin:?} and {end:?}");
    }
    assert!(answer.words.contains("1 imported, 0 here already, 4 refused"), "{answer:?}");
    assert_eq!(here.ask(&["ls", "--json"]).good().lines().count(), 1);
    here.ask(&["verify", "--all"]).good();
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
    let offline = Answer::of(recount().args(["export", "--all", "--data", folder, "-o", name]));
    assert_eq!((offline.status, offline.data.as_str()), (1, ""), "{offline:?}");
    let server = Server::start(data.path());
    for arguments in [&["export", "--all", "-o", name][..], &["export", &good, &bad, "-o", name]] {
        let answer = server.ask(arguments);
        assert_eq!((answer.status, answer.data.as_str()), (1, ""), "{answer:?}");
        assert!(answer.words.contains(&bad), "{answer:?}");
    }
    assert_eq!(files_of(files.path()), ["out.jsonl"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "the file from before stays");
    server.ask(&["export", "run_01KQPNV2ZVNJX2AM9103W0PNQW", "-o", name]).bad(1, "run_not_found");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    server.ask(&["export", &good, "-o", "/nonexistent/x"]).bad(2, "cannot be written");
    server.ask(&["export", &bad]).bad(1, &bad);
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
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let answer = ask_with(&["import", "-", "--url", &server.url()], file.as_bytes());
    assert!(
        answer.words.contains(&format!("{} imported, 0 here already, 0 refused", paths.len())),
        "{answer:?}"
    );
    answer.good();
    server.ask(&["verify", "--all"]).good();
}

/// The header that fits some lines.
fn headed(run: &str, lines: &str) -> Header {
    let events = lines.lines().count() as u64;
    let mut sum = Sum::new(run);
    lines.lines().for_each(|line| sum.event(line.as_bytes()).unwrap());
    Header::new(run, events, &sum.head())
}

#[test]
fn what_cannot_be_asked() {
    let ask = |arguments: &[&str]| Answer::of(recount().args(arguments));
    ask(&["export"]).bad(2, "Usage");
    ask(&["export", "run_1", "--all"]).bad(2, "--all");
    ask(&["import"]).bad(2, "Usage");
    ask(&["import", "/nonexistent/x"]).bad(2, "cannot be read");
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap();
    ask(&["export", "--all", "--data", name]).bad(2, "holds no store");
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let nothing = ask_with(&["import", "-", "--data", data], b"");
    assert!(nothing.words.contains("0 imported"), "{nothing:?}");
    nothing.good();
    assert_eq!(ask(&["export", "--all", "--data", data]).good(), "");
    ask(&["export", "run_1", "--data", data]).bad(1, "run_not_found");
}

#[tokio::test]
async fn an_export_goes_on_when_the_server_was_started_again() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let run = story::create(&client(&server), "long").await;
    story::tell(&client(&server), &run, 0, BEGINNING).await;
    let filling = format!(r#"{{"text":"{}"}}"#, "x".repeat(200));
    let filling: &'static str = Box::leak(filling.into_boxed_str());
    for seq in 1..=10 {
        story::tell(&client(&server), &run, seq, &[("ext.acme.filling", filling); 300]).await;
    }
    let whole = server.ask(&["export", &run]).good();

    let mut export = recount();
    export.args(["--url", &server.url(), "export", &run]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut export = export.spawn().unwrap();
    let mut lines = BufReader::new(export.stdout.take().unwrap());
    let mut words = BufReader::new(export.stderr.take().unwrap()).lines();
    let mut exported = String::new();
    lines.read_line(&mut exported).unwrap();
    // The pipe holds less than a tenth of the run, so most of it was not asked for yet.
    server.kill();
    let (send, rest) = std::sync::mpsc::channel();
    recount_world::thread("exported", move || {
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        send.send(rest).unwrap();
    });
    let said = words.next().unwrap().unwrap();
    assert!(said.contains("no answer from") && said.contains("trying again"), "{said}");
    let _again = Server::start_at(data.path(), &server.address);
    exported.push_str(&rest.recv_timeout(PATIENCE).unwrap());
    assert!(export.wait().unwrap().success());
    assert!(exported == whole, "{} bytes of {}", exported.len(), whole.len());

    // A server that never answered is not waited for.
    let unused = "http://127.0.0.1:9";
    Answer::of(recount().args(["--url", unused, "export", &run])).bad(3, "no answer from");
}
