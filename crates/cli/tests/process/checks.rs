//! Verify: against heads that were noted elsewhere, and of folders that are damaged.

use std::path::Path;

use recount_client::Client;
use recount_client::export::Header;
use recount_server::export::Sum;

use crate::server::{Answer, Server, recount};
use crate::story;

fn client(server: &Server) -> Client {
    Client::new(&server.url(), None).unwrap()
}

fn offline(data: &Path, more: &[&str]) -> Answer {
    Answer::of(recount().arg("verify").arg("--data").arg(data).args(more))
}

/// Another store with the same runs, in one of which the words of the first event are others: all of it fits.
fn rewritten(data: &Path, run: &str) -> tempfile::TempDir {
    let all = Answer::of(recount().args(["export", "--all", "--data"]).arg(data)).good();
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
        let mut sum = Sum::new(run);
        events.lines().for_each(|line| sum.event(line.as_bytes()).unwrap());
        let header = Header::new(run, events.lines().count() as u64, &sum.head());
        forged.push_str(&format!("{}\n{events}", header.line()));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("forged.jsonl");
    std::fs::write(&file, forged).unwrap();
    Answer::of(recount().arg("import").arg(&file).arg("--data").arg(folder.path())).good();
    folder
}

#[tokio::test]
async fn a_head_noted_elsewhere_tells_what_the_store_cannot() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = client(&server);
    let grown = story::create(&client, "grown").await;
    let early = server.ask(&["digest", &grown]).good();
    story::tell(&client, &grown, 0, story::BEGINNING).await;
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
    assert!(other.status == 1 && other.data.contains("wrong: no beginning of its 6 events"), "{other:?}");
    server.ask(&["verify", &grown, "--expect", "abc"]).bad(2, "is no head");
    let nobody = "run_01KQPNV2ZVNJX2AM9103W0PNQW";
    server.ask(&["verify", nobody, "--expect", head]).bad(1, "run_not_found");
    drop(server);

    let forged = rewritten(data.path(), &touched);
    offline(forged.path(), &[]).good();
    let found = offline(forged.path(), &["--digests", heads]);
    let wrong = format!("{touched} wrong: its first 8 events add up to ");
    assert!(found.status == 1 && found.data.contains(&wrong), "{found:?}");
    assert!(found.data.contains(&format!("{grown} ok, ")), "{found:?}");
    let server = Server::start(forged.path());
    server.ask(&["verify", "--all"]).good();
    let changed = server.ask(&["verify", &touched, "--expect", head]);
    assert!(changed.status == 1 && changed.data.contains("they were changed"), "{changed:?}");
    std::fs::write(&file, format!("{nobody} 3 {head}\n{touched} 9 {head}\n")).unwrap();
    let found = server.ask(&["verify", "--digests", heads]);
    let expected = format!(
        "{nobody} wrong: it was noted, but is not there\n\
         {touched} wrong: 9 events were noted, but only 8 are there\n"
    );
    assert_eq!((found.status, found.data), (1, expected));
    std::fs::write(&file, "run_1 3\n").unwrap();
    server.ask(&["verify", "--digests", heads]).bad(2, "line 1");
    server.ask(&["verify", "--digests", "/nonexistent"]).bad(2, "cannot be read");
}

#[tokio::test]
async fn a_damaged_store_is_told_and_not_only_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let client = client(&server);
    for _ in 0..40 {
        story::whole(&client, "damaged").await;
    }
    drop(server);
    let database = data.path().join("recount.db");
    // Everything into one file, then a hole in its middle.
    let store = rusqlite::Connection::open(&database).unwrap();
    store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(store);
    let mut bytes = std::fs::read(&database).unwrap();
    // In the middle of what was told, not of the rows beside it.
    let told: Vec<usize> =
        (0..bytes.len() - 10).filter(|at| bytes[*at..].starts_with(b"run.queued")).collect();
    let middle = told[told.len() / 2] / 4096 * 4096;
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

#[test]
fn nothing_is_made_where_there_is_no_store() {
    let data = tempfile::tempdir().unwrap();
    offline(data.path(), &[]).bad(2, "holds no store");
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
async fn a_folder_that_cannot_be_locked_is_told_plainly() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    story::whole(&client(&server), "locked").await;
    drop(server);
    // Cannot be written by anybody, whoever runs this test.
    std::fs::remove_file(data.path().join("lock")).unwrap();
    std::fs::create_dir(data.path().join("lock")).unwrap();
    offline(data.path(), &[]).bad(5, "look at a copy of it");
}
