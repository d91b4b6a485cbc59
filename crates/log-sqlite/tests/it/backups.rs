//! Backups: an incomplete copy is never used as a store, and a damaged store is never copied as sound.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use recount_log::{FaultKind, Store};
use recount_log_conformance::block_on;
use recount_log_sqlite::{BACKUP_MARKER, SqliteOptions, SqliteStore, copy, glance, inspect};

use super::work::{close, fill, open, scratch, whole};

/// A store with blobs, closed, and a backup of it.
fn backed_up() -> (tempfile::TempDir, PathBuf) {
    let place = scratch();
    let store = open(&place.path().join("data"));
    fill(&store);
    for n in 0..4_u8 {
        block_on(store.put_blob(Bytes::from(vec![n; 1000]))).unwrap();
    }
    let to = place.path().join("copy");
    block_on(store.backup(to.clone())).unwrap();
    close(store);
    (place, to)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn refused(folder: &Path, words: &str) {
    let fault =
        SqliteStore::open(SqliteOptions::new(folder)).err().unwrap_or_else(|| panic!("{words}: it opened"));
    assert_eq!(fault.kind, FaultKind::Corrupt, "{fault}");
    assert!(fault.message.contains(words), "{words:?}: {fault}");
    if folder.join("recount.db").exists() {
        let problems = inspect(folder).unwrap().problems;
        assert!(problems.iter().any(|problem| problem.contains(words)), "{words:?}: {problems:?}");
        glance(folder).unwrap_err();
        assert!(!folder.with_extension("again").exists());
        copy(folder, &folder.with_extension("again")).unwrap_err();
    }
}

#[test]
fn an_interrupted_backup_is_refused_at_every_step() {
    let (place, to) = backed_up();
    let all = files(&to);
    assert_eq!(all.len(), 6, "marker, database and four blobs: {all:?}");
    // In the order in which they are written: the database, perhaps in part, and the blobs.
    let database = to.join("recount.db");
    let blobs: Vec<&PathBuf> = all.iter().filter(|path| path.starts_with(to.join("blobs"))).collect();
    let length = std::fs::metadata(&database).unwrap().len() as usize;
    let steps = [0, 1, length / 2, length].map(|bytes| (bytes, 0)).into_iter();
    for (step, (bytes, blobs_copied)) in
        steps.chain((1..=blobs.len()).map(|count| (length, count))).enumerate()
    {
        let half = place.path().join(format!("half{step}"));
        std::fs::create_dir(&half).unwrap();
        std::fs::write(half.join(BACKUP_MARKER), "recount backup 1\nunfinished\n").unwrap();
        std::fs::write(half.join("recount.db"), &std::fs::read(&database).unwrap()[..bytes]).unwrap();
        for blob in &blobs[..blobs_copied] {
            let target = half.join(blob.strip_prefix(&to).unwrap());
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(blob, target).unwrap();
        }
        let fault = SqliteStore::open(SqliteOptions::new(&half)).err().unwrap();
        assert!(fault.message.contains("is an unfinished backup"), "step {step}: {fault}");
    }
}

#[test]
fn a_backup_that_lost_a_file_is_refused() {
    let (place, to) = backed_up();
    let blob = files(&to.join("blobs")).pop().unwrap();
    let aside = place.path().join("aside");
    std::fs::rename(&blob, &aside).unwrap();
    refused(&to, "should have 4 blobs, but it has 3");
    std::fs::rename(&aside, &blob).unwrap();
    let database = to.join("recount.db");
    let bytes = std::fs::read(&database).unwrap();
    std::fs::write(&database, &bytes[..bytes.len() - 4096]).unwrap();
    refused(&to, "the database of the backup");
    std::fs::write(&database, &bytes).unwrap();
    close(open(&to));
    std::fs::remove_file(&database).unwrap();
    refused(&to, "but it has 0");
}

/// A restored store may remove blobs like any other.
#[test]
fn a_restored_backup_may_lose_blobs_that_it_removes() {
    let (_place, to) = backed_up();
    let store = open(&to);
    let blobs = block_on(store.blobs(None, 9)).unwrap();
    block_on(store.remove_blob(&blobs[0])).unwrap();
    close(store);
    let store = open(&to);
    assert_eq!(block_on(store.blobs(None, 9)).unwrap(), blobs[1..]);
    assert!(whole(&store).integrity.problems.is_empty());
    close(store);
}

#[test]
fn an_incomplete_store_is_refused() {
    let (place, _) = backed_up();
    let data = place.path().join("data");
    std::fs::rename(data.join("blobs"), place.path().join("blobs")).unwrap();
    let fault = SqliteStore::open(SqliteOptions::new(&data)).err().unwrap();
    assert!(fault.message.contains("is not a complete store"), "{fault}");
    assert!(!data.join("blobs").exists(), "nothing was created");
    std::fs::remove_file(data.join("recount.db")).unwrap();
    let fault = SqliteStore::open(SqliteOptions::new(&data)).err().unwrap();
    assert!(fault.message.contains("is missing or empty"), "{fault}");
}

#[test]
fn a_damaged_store_is_not_copied() {
    let (place, _) = backed_up();
    let (data, to) = (place.path().join("data"), place.path().join("second"));
    let mut bytes = std::fs::read(data.join("recount.db")).unwrap();
    let place = bytes.windows(6).rposition(|window| window == b"{\"n\":1").unwrap();
    bytes[place + 2] ^= 1;
    std::fs::write(data.join("recount.db"), bytes).unwrap();
    let fault = copy(&data, &to).unwrap_err();
    assert!(fault.message.starts_with("the store is damaged, so no backup was created: "), "{fault}");
    assert!(!to.exists(), "no copy remains");
}
