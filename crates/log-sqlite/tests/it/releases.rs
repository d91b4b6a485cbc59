//! Opens a copy of one small store of every released schema and checks its content.
//!
//! A released store is never rewritten. `RECOUNT_BLESS=1` creates the one of the present schema if it is missing.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use recount_log::Store;
use recount_log_conformance::{block_on, both, cut, erase};

use super::work::{append_ok, close, fill, open, records, row, whole};

const PRESENT: &str = "v5";
const BLOB: &[u8] = b"a blob that is kept";

fn stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/stores")
}

/// The whole content of a store as text, as in `expected.txt` next to each released store.
fn content(store: &dyn Store) -> String {
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let whole = whole(store);
    let mut text = String::new();
    for feed in whole.feed {
        let (position, sequence, bytes) = (feed.record.position, feed.record.sequence, feed.record.bytes);
        // Long records by their hash.
        let bytes = if bytes.len() > 300 { format!("blake3 {}", blake3::hash(&bytes)) } else { hex(&bytes) };
        writeln!(text, "record {position} {} {sequence} {bytes}", feed.stream).unwrap();
    }
    for (key, tail) in whole.tails {
        writeln!(text, "stream {key} {} {} {}", tail.next_sequence, tail.last_position, tail.head).unwrap();
        if tail.first_sequence > 0 {
            let what = if tail.erased { "erased" } else { "cut" };
            writeln!(text, "{what} {key} {} {}", tail.first_sequence, tail.start).unwrap();
        }
    }
    for row in whole.rows {
        writeln!(text, "row {} {} {}", row.key, row.version, hex(&row.value)).unwrap();
    }
    let blob = block_on(store.blob(blake3::hash(BLOB).to_hex().as_str())).unwrap();
    writeln!(text, "blob {}", blob.map_or("none".to_owned(), |bytes| hex(&bytes))).unwrap();
    assert!(whole.integrity.problems.is_empty(), "{:?}", whole.integrity);
    text
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn bless(path: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    fill(&store);
    append_ok(&store, row("gone", b"soon"));
    append_ok(&store, recount_log_conformance::row("space", "gone", recount_log::Guard::Version(1), None));
    append_ok(
        &store,
        records("\u{e9}/odd name", 0, &[b"", b"\0\xff", "{\"text\":\"\u{1f600}\"}".as_bytes()]),
    );
    block_on(store.put_blob(Bytes::from_static(BLOB))).unwrap();
    // Sealed and hot records, with some of both removed.
    block_on(store.seal_now()).unwrap();
    append_ok(&store, cut("run_01", 3));
    append_ok(&store, both(erase("run_04"), records("run_02", 16, &[b"{\"n\":40}", b"{\"n\":41}"])));
    append_ok(
        &store,
        both(records("run_03", 16, &[b"{\"n\":42}"]), records("brief", 0, &[b"{}", b"{\"n\":1}"])),
    );
    append_ok(&store, both(cut("run_02", 17), cut("brief", 1)));
    let text = content(&store);
    close(store);
    std::fs::remove_file(folder.path().join("lock")).unwrap();
    copy(folder.path(), path);
    std::fs::write(path.join("expected.txt"), text).unwrap();
}

#[test]
fn every_released_store_opens_with_its_content() {
    let present = stores().join(PRESENT);
    if std::env::var_os("RECOUNT_BLESS").is_some() && !present.exists() {
        bless(&present);
    }
    assert!(present.exists(), "run once with RECOUNT_BLESS=1 to make {}", present.display());
    for entry in std::fs::read_dir(stores()).unwrap() {
        let released = entry.unwrap().path();
        if !released.is_dir() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        copy(&released, &path);
        let expected = std::fs::read_to_string(released.join("expected.txt")).unwrap();
        // Twice: as released, and as opened by this release.
        for turn in 0..2 {
            let store = open(&path);
            assert_eq!(content(&store), expected, "{}, turn {turn}", released.display());
            close(store);
        }
        let store = open(&path);
        append_ok(&store, records("after", 0, &[b"it can still be written"]));
    }
}
