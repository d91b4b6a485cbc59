//! Opening: persistence, the lock, and refused stores.

use std::process::Command;

use bytes::Bytes;
use recount_log::{Fault, FaultKind, Store};
use recount_log_conformance::block_on;
use recount_log_sqlite::{Durability, SqliteOptions, SqliteStore};

use super::work::{Whole, append_ok, close, fill, open, records, whole};

fn refusal(folder: &std::path::Path) -> Fault {
    SqliteStore::open(SqliteOptions::new(folder)).err().expect("a refusal")
}

#[test]
fn a_reopened_store_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let filled = |store: SqliteStore| -> (Whole, String) {
        fill(&store);
        let blob = block_on(store.put_blob(Bytes::from_static(b"a blob"))).unwrap();
        let before = whole(&store);
        close(store);
        (before, blob)
    };
    let (before, blob) = filled(open(folder.path()));
    assert_eq!(before.feed.len(), 82);
    assert!(before.integrity.problems.is_empty(), "{:?}", before.integrity);
    for durability in [Durability::Strict, Durability::Relaxed] {
        let store =
            SqliteStore::open(SqliteOptions { durability, ..SqliteOptions::new(folder.path()) }).unwrap();
        assert_eq!(whole(&store), before);
        assert_eq!(block_on(store.blob(&blob)), Ok(Some(Bytes::from_static(b"a blob"))));
        close(store);
    }
}

/// Opening one of these for reading would wait for a writer for ever.
#[test]
fn a_folder_in_which_a_pipe_has_the_name_of_a_file_is_refused() {
    for name in ["recount.db", "recount.db-wal", "recount.db-shm", "high-water", "lock", "reserve"] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        fill(&store);
        close(store);
        let path = folder.path().join(name);
        if path.exists() {
            std::fs::remove_file(&path).unwrap();
        }
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        let fault = refusal(folder.path());
        assert_eq!(fault.kind, FaultKind::Corrupt, "{name}: {fault}");
        assert!(fault.message.contains(&format!("{} is not a regular file", path.display())), "{fault}");
    }
}

#[test]
fn dropping_without_closing_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let answers: Vec<_> = (0..50).map(|n| store.append(records("a", n, &[b"x"]))).collect();
    drop(store);
    assert!(answers.into_iter().map(block_on).all(|answer| answer.is_ok()), "accepted, so finished");
    let store = open(folder.path());
    assert_eq!(block_on(store.last_position()), Ok(50));
}

#[test]
fn a_closed_store_is_one_database_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep").join("er");
    let store = open(&path);
    fill(&store);
    close(store);
    let names =
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["blobs", "high-water", "lock", "recount.db", "reserve"]);
}

#[cfg(unix)]
#[test]
fn created_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = open(&path);
    append_ok(&store, records("a", 0, &[b"x"]));
    let hash = block_on(store.put_blob(Bytes::from_static(b"x"))).unwrap();
    let mode = |name: &str| path.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("blobs"), mode(&format!("blobs/{}", &hash[..2]))), (0o700, 0o700, 0o700));
    for name in
        ["high-water", "lock", "recount.db", "recount.db-wal", &format!("blobs/{}/{hash}", &hash[..2])]
    {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

#[test]
fn a_second_open_is_refused_until_the_first_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let fault = refusal(folder.path());
    assert_eq!(fault.kind, FaultKind::Locked);
    let named = [folder.path().to_str().unwrap(), &std::process::id().to_string()];
    assert!(named.into_iter().all(|name| fault.message.contains(name)), "{fault}");
    let inspected = recount_log_sqlite::inspect(folder.path()).unwrap_err();
    assert_eq!(inspected.kind, FaultKind::Locked);
    block_on(store.close()).unwrap();
    // A closed store need not be dropped.
    drop(open(folder.path()));
    drop(store);
    drop(open(folder.path()));
}

const CHILD: &str = "RECOUNT_TEST_STORE_TO_OPEN";

/// Not a test of its own: the second process of the next test.
#[test]
fn second_process() {
    if let Some(folder) = std::env::var_os(CHILD) {
        let fault = refusal(folder.as_ref());
        assert_eq!(fault.kind, FaultKind::Locked, "{fault}");
        println!("refused: {fault}");
    }
}

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _store = open(folder.path());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "open::second_process", "--nocapture"])
        .env(CHILD, folder.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && stdout.contains("refused: the data folder"), "{child:?}");
}

/// Changes a closed store with SQLite itself.
fn with_tool(folder: &std::path::Path, sql: &str) {
    let tool = rusqlite::Connection::open(folder.join("recount.db")).unwrap();
    tool.execute_batch(sql).unwrap();
}

#[test]
fn a_newer_schema_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    close(open(folder.path()));
    with_tool(folder.path(), "PRAGMA user_version = 1000");
    let before = std::fs::read(folder.path().join("recount.db")).unwrap();
    let fault = refusal(folder.path());
    assert_eq!(fault.kind, FaultKind::Newer);
    assert!(fault.message.contains("schema 1000"), "{fault}");
    assert_eq!(std::fs::read(folder.path().join("recount.db")).unwrap(), before);
}

#[test]
fn a_database_of_another_program_is_refused_and_unchanged() {
    let foreign = [
        "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)",
        "PRAGMA application_id = 77",
        "PRAGMA user_version = 1",
    ];
    for sql in foreign {
        let folder = tempfile::tempdir().unwrap();
        with_tool(folder.path(), sql);
        let before = std::fs::read(folder.path().join("recount.db")).unwrap();
        let fault = refusal(folder.path());
        assert_eq!(fault.kind, FaultKind::Corrupt);
        assert!(fault.message.contains("belongs to another program"), "{fault}");
        assert_eq!(std::fs::read(folder.path().join("recount.db")).unwrap(), before);
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recount.db");
    std::fs::write(&path, "dear diary, ".repeat(1000)).unwrap();
    let fault = refusal(folder.path());
    assert_eq!(fault.kind, FaultKind::Corrupt);
    assert!(fault.message.contains("not a database") && fault.message.contains("recount.db"), "{fault}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary, ".repeat(1000));
}

#[test]
fn a_folder_that_cannot_be_created_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let fault = refusal(&file.join("data"));
    assert_eq!(fault.kind, FaultKind::Io);
    assert!(fault.message.contains("file/data"), "{fault}");
}

#[test]
fn unfinished_blobs_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    close(open(folder.path()));
    let unfinished = folder.path().join("blobs").join("unfinished-7");
    std::fs::write(&unfinished, "half").unwrap();
    let store = open(folder.path());
    assert!(!unfinished.exists());
    assert!(block_on(store.integrity()).unwrap().problems.is_empty());
}
