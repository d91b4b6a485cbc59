//! Verify: against heads that were noted elsewhere, and of folders that are damaged.

use std::path::Path;

use recount_client::export::Header;
use recount_client::request::CreateTask;
use recount_server::export::ExportDigest;
use serde_json::json;

use crate::process::between::{Between, Then};
use crate::process::scene::client;
use crate::process::story;
use crate::server::{CommandOutput, Server, recount};

fn offline(data: &Path, more: &[&str]) -> CommandOutput {
    CommandOutput::of(recount().arg("verify").arg("--data").arg(data).args(more))
}

/// Another store with the same runs, in one of which the words of the first event are others: all of it fits.
fn rewritten(data: &Path, run: &str) -> tempfile::TempDir {
    let all = CommandOutput::of(recount().args(["export", "--all", "--data"]).arg(data)).good();
    let mut forged = String::new();
    for part in
        all.split_inclusive('\n').collect::<Vec<_>>().chunk_by(|_, line| !line.starts_with("{\"object\":"))
    {
        let events: String = part[1..].concat();
        if !part[0].contains(run) {
            forged.push_str(&part.concat());
            continue;
        }
        let events = events.replace("say hello", "say jello");
        let mut sum = ExportDigest::new(run);
        events.lines().for_each(|line| sum.event(line.as_bytes()).unwrap());
        let header = Header::new(run, events.lines().count() as u64, &sum.head());
        forged.push_str(&format!("{}\n{events}", header.line()));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("forged.jsonl");
    std::fs::write(&file, forged).unwrap();
    CommandOutput::of(recount().arg("import").arg(&file).arg("--data").arg(folder.path())).good();
    folder
}

#[tokio::test]
async fn a_head_noted_elsewhere_shows_what_the_store_cannot() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = client(&server);
    let grown = story::create(&client, "grown").await;
    let early = server.ask(&["digest", &grown]).good();
    story::append(&client, &grown, 0, story::BEGINNING).await;
    let touched = story::whole(&client, "touched").await;
    let before = server.ask(&["digest", &touched]).good();
    let head = before.split_whitespace().last().unwrap();
    let file = data.path().join("heads.txt");
    let heads = file.to_str().unwrap();
    std::fs::write(&file, format!("{early}\n{before}")).unwrap();

    server.ask(&["verify", &touched, "--expect", head]).good();
    server.ask(&["verify", &grown, "--expect", early.split_whitespace().last().unwrap()]).good();
    let both = server.ask(&["verify", "--digests", heads]);
    assert_eq!((both.status, both.data.matches(" ok, ").count()), (0, 2), "{both:?}");
    let other = server.ask(&["verify", &grown, "--expect", head]);
    assert!(
        other.status == 1
            && other.data.contains("wrong: the events were changed: no beginning of its 6 events"),
        "{other:?}"
    );
    server.ask(&["verify", &grown, "--expect", "abc"]).bad(2, "is not a head");
    let unknown = "run_01KQPNV2ZVNJX2AM9103W0PNQW";
    server.ask(&["verify", unknown, "--expect", head]).bad(1, "run_not_found");
    drop(server);

    let forged = rewritten(data.path(), &touched);
    offline(forged.path(), &[]).good();
    let found = offline(forged.path(), &["--digests", heads]);
    let wrong = format!("{touched} wrong: its first 8 events were changed: they have the head ");
    assert!(found.status == 1 && found.data.contains(&wrong), "{found:?}");
    assert!(found.data.contains(&format!("{grown} ok, ")), "{found:?}");
    let server = Server::start(forged.path());
    server.ask(&["verify", "--all"]).good();
    let changed = server.ask(&["verify", &touched, "--expect", head]);
    assert!(changed.status == 1 && changed.data.contains("the events were changed"), "{changed:?}");
    std::fs::write(&file, format!("{unknown} 3 {head}\n{touched} 9 {head}\n")).unwrap();
    let found = server.ask(&["verify", "--digests", heads]);
    let expected = format!(
        "{unknown} wrong: a digest of it was recorded, but the run is missing\n{touched} wrong: the recorded \
         digest has 9 events, but only 8 exist\n"
    );
    assert_eq!((found.status, found.data), (1, expected));
    std::fs::write(&file, "run_1 3\n").unwrap();
    server.ask(&["verify", "--digests", heads]).bad(2, "line 1");
    server.ask(&["verify", "--digests", "/nonexistent"]).bad(2, "cannot read");
}

/// Attempts to end a server before everything is sealed.
const ROUNDS_MAX: usize = 5;

/// Moves everything into the database file. Returns the numbers of the pages with unsealed events, in their order.
fn pages_of_groups(database: &Path) -> Vec<usize> {
    let store = rusqlite::Connection::open(database).unwrap();
    store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let sql = "SELECT pageno FROM dbstat WHERE name = 'groups' AND pagetype = 'leaf' ORDER BY path";
    let mut pages = store.prepare(sql).unwrap();
    let pages = pages.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    pages.map(|page| usize::try_from(page.unwrap()).unwrap()).collect()
}

#[tokio::test]
async fn a_damaged_store_is_reported_and_not_only_refused() {
    let data = tempfile::tempdir().unwrap();
    let database = data.path().join("recount.db");
    // On a slow machine, sealing may empty the table while the runs are reported: report more until it has a middle.
    let mut pages = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let server = Server::start(data.path());
        let client = client(&server);
        for _ in 0..40 {
            story::whole(&client, "damaged").await;
        }
        drop(server);
        pages = pages_of_groups(&database);
        if pages.len() >= 3 {
            break;
        }
    }
    assert!(pages.len() >= 3, "unsealed events fill {} pages", pages.len());
    let mut bytes = std::fs::read(&database).unwrap();
    let middle = (pages[pages.len() / 2] - 1) * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    std::fs::write(&database, &bytes).unwrap();

    let found = offline(data.path(), &[]);
    assert_eq!(found.status, 1, "{found:?}");
    assert!(found.data.contains("store wrong: groups: numbers "), "{found:?}");
    assert!(found.words.contains("readable: ") && found.words.contains(" problems"), "{found:?}");
    assert!(!found.data.contains("store wrong: positions"), "told by their numbers: {found:?}");
    let all = format!("{}{}", found.data, found.words);
    assert!(!all.contains("verify --data"), "{all}");
    let lines: Vec<_> = found.data.lines().collect();
    let distinct: std::collections::BTreeSet<_> = lines.iter().collect();
    assert_eq!(lines.len(), distinct.len(), "each once: {found:?}");
    assert_eq!(std::fs::read(&database).unwrap(), bytes);
    let json = offline(data.path(), &["--json"]);
    let first: serde_json::Value = serde_json::from_str(json.data.lines().next().unwrap()).unwrap();
    assert_eq!((&first["run_id"], &first["ok"]), (&serde_json::Value::Null, &serde_json::Value::from(false)));
}

/// No marker names its first events as pruned, so it is lost, and its other events are kept beside the store.
#[tokio::test]
async fn a_run_without_its_row_and_its_beginning_is_lost() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = client(&server);
    let run = story::create(&client, "long").await;
    story::append(&client, &run, 0, story::BEGINNING).await;
    let text = "text ".repeat(4_000);
    for seq in 1..40 {
        let mark: &str = format!(r#"{{"text":"mark {seq} {text}"}}"#).leak();
        story::append(&client, &run, seq, &[("ext.mark.made", mark)]).await;
    }
    drop(server);
    recount_server::verify::seal(data.path()).await.unwrap();
    let tool = rusqlite::Connection::open(data.path().join("recount.db")).unwrap();
    let chunks: i64 = tool.query_row("SELECT count(*) FROM chunks", [], |row| row.get(0)).unwrap();
    assert!(chunks > 2, "{chunks} chunks");
    tool.execute("DELETE FROM chunks WHERE first_sequence = 0", []).unwrap();
    tool.execute("DELETE FROM streams", []).unwrap();
    // So that nothing of them is left in free pages.
    tool.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); VACUUM").unwrap();
    drop(tool);
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (data.path().to_owned(), place.path().join("new"));
    let salvaged = tokio::task::spawn_blocking(move || recount_server::salvage::salvage(&from, &to).unwrap());
    let report = salvaged.await.unwrap();
    let [damaged_run] = &report.stores[0].runs[..] else { panic!("{report:?}") };
    assert_eq!(damaged_run.run_id, run);
    assert!(matches!(damaged_run.outcome, recount_server::salvage::Outcome::Lost { .. }), "{damaged_run:?}");
    let (_, count) = damaged_run.aside.as_ref().expect("the readable events are kept");
    assert!((1..40).contains(count), "{count} events lie aside");
    assert!(!report.is_whole());
}

/// Over HTTP it does not stop at the first damage.
#[tokio::test]
async fn every_damaged_stretch_of_a_run_is_named_over_http() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = client(&server);
    let whole = story::whole(&client, "whole").await;
    let run = story::create(&client, "damaged").await;
    story::append(&client, &run, 0, story::BEGINNING).await;
    story::append(&client, &run, 1, &[("ext.mark.made", r#"{"text":"the first mark"}"#)]).await;
    story::append(&client, &run, 2, &[("ext.acme.thing", "{}")]).await;
    story::append(&client, &run, 3, &[("ext.mark.made", r#"{"text":"the second mark"}"#)]).await;
    story::append(&client, &run, 4, &[("ext.acme.thing", "{}")]).await;
    drop(server);
    let database = data.path().join("recount.db");
    let store = rusqlite::Connection::open(&database).unwrap();
    store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(store);
    let mut bytes = std::fs::read(&database).unwrap();
    for mark in ["the first mark", "the second mark"] {
        let found = (0..bytes.len() - mark.len()).filter(|at| bytes[*at..].starts_with(mark.as_bytes()));
        let places: Vec<usize> = found.collect();
        assert!(!places.is_empty(), "{mark} is in the database");
        places.into_iter().for_each(|at| bytes[at] ^= 1);
    }
    std::fs::write(&database, &bytes).unwrap();
    let server = Server::start(data.path());
    let found = server.ask(&["verify", "--all"]);
    let wrong: Vec<&str> = found.data.lines().filter(|line| line.contains(" wrong: ")).collect();
    assert_eq!((found.status, wrong.len()), (1, 2), "{found:?}");
    for (line, event) in wrong.iter().zip([6, 8]) {
        assert!(line.starts_with(&format!("{run} wrong: event {event} ")), "{found:?}");
    }
    assert!(found.data.contains(&format!("{whole} ok, 8 events")), "{found:?}");
}

/// One run that is missing or unreadable does not affect the result for the others.
#[tokio::test]
async fn a_check_of_all_goes_on_after_a_run_that_went_and_a_list_that_fails() {
    let server = Server::fresh();
    let first = story::whole(&client(&server), "one").await;
    let task = CreateTask { kind: Some("external".to_owned()), ..CreateTask::default() };
    let task = client(&server).create_task(&task).await.unwrap();
    let erased = task.latest_run_id.unwrap();
    let last = story::whole(&client(&server), "two").await;
    let (url, task) = (server.url(), task.id);
    let erase = move || {
        CommandOutput::of(recount().args(["--url", &url, "delete", &task, "--yes"])).good();
    };
    let between = Between::at(&server, &format!("{erased}/digest"), Then::First(Box::new(erase)));
    let found = between.ask(&["verify", "--all"]);
    assert_eq!(found.status, 0, "an erased run is nothing wrong: {found:?}");
    assert!(found.words.contains(&format!("{erased}: it was erased")), "{found:?}");
    for run in [&first, &last] {
        assert!(found.data.contains(&format!("{run} ok, 8 events")), "{found:?}");
    }

    for (target, reason) in [
        (format!("{last}/artifacts"), "cannot check the bytes of its artifacts: no, says the test"),
        (format!("{last}/digest"), "cannot check it: no, says the test"),
    ] {
        let problem = json!({
            "type": "urn:recount:error:store_unavailable", "title": "t", "status": 503,
            "detail": "no, says the test", "code": "store_unavailable", "retryable": true, "request_id": "r",
        })
        .to_string();
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n{problem}",
            problem.len()
        );
        let between = Between::at(&server, &target, Then::CommandOutput(answer));
        let found = between.ask(&["verify", "--all"]);
        assert_eq!(found.status, 1, "{target}: {found:?}");
        assert!(found.data.contains(&format!("{last} wrong: {reason}")), "{target}: {found:?}");
        assert!(found.data.contains(&format!("{first} ok, 8 events")), "{target}: {found:?}");
    }
}

#[test]
fn nothing_is_made_where_there_is_no_store() {
    let data = tempfile::tempdir().unwrap();
    offline(data.path(), &[]).bad(2, "contains no store");
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
    for blobs in [false, true] {
        let data = tempfile::tempdir().unwrap();
        let database = data.path().join("recount.db");
        std::fs::write(&database, "").unwrap();
        if blobs {
            std::fs::create_dir(data.path().join("blobs")).unwrap();
        }
        let found = offline(data.path(), &[]);
        assert!(found.status == 1 && found.data.contains("store wrong: "), "{found:?}");
        assert_eq!(std::fs::metadata(&database).unwrap().len(), 0);
        assert_eq!(data.path().join("blobs").exists(), blobs);
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_locked_is_reported_plainly() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    story::whole(&client(&server), "locked").await;
    drop(server);
    // No user that runs this test can write it.
    std::fs::remove_file(data.path().join("lock")).unwrap();
    std::fs::create_dir(data.path().join("lock")).unwrap();
    offline(data.path(), &[]).bad(5, "use a copy of the folder");
}
