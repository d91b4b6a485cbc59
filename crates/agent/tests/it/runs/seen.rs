//! The event types that real runs emit, and the tests that saw them: `testdata/emitted.txt`.
//!
//! All tests run once more in a separate process, in which each test records the types that it sees: a folder with the
//! name of the type, and in it a file with the name of the test. With `RECOUNT_BLESS=1` the list is written, otherwise
//! compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use recount_event::registry::emitted;

/// The folder for the records of such a process.
const FOLDER: &str = "RECOUNT_STORIES_SEEN";

/// The common prefix of all tests.
const SUITE: &str = "runs::";

/// Records the types of a run. The thread of a test has its name.
pub(crate) fn note<'a>(types: impl Iterator<Item = &'a str>) {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let thread = std::thread::current();
    let test = thread.name().unwrap();
    for name in types {
        let folder = Path::new(&folder).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(test.strip_prefix(SUITE).unwrap()), b"").unwrap();
    }
}

fn list() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/emitted.txt")
}

/// The names in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
#[ignore = "full: plays all tests of runs once more"]
fn all_event_types_that_runs_emit_are_listed() {
    if std::env::var_os(FOLDER).is_some() {
        // This is the separate process.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stories = Command::new(std::env::current_exe().unwrap())
        // The same stories with crashes and failing disks are slow and emit nothing else. Tests wait more than they
        // compute.
        .args([SUITE, "--skip", "crashes::", "--skip", "disk_stories::", "--test-threads", "8"])
        .env(FOLDER, folder.path())
        // The number of cases does not change what is emitted.
        .env_remove("PROPTEST_CASES")
        .env_remove("RECOUNT_TEST_FACTOR")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(stories.status.success(), "{}", String::from_utf8_lossy(&stories.stdout));
    let seen: BTreeMap<String, BTreeSet<String>> = names(folder.path())
        .into_iter()
        .map(|name| (name.clone(), names(&folder.path().join(name))))
        .collect();
    let text = std::fs::read_to_string(list()).unwrap();
    // A list in the format of another branch is written again.
    let listed = emitted::parse(&text).unwrap_or_default();
    let seen = emitted::print(&emitted::witnesses(&listed, &seen));
    if std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(list(), &seen).unwrap();
    }
    let listed = std::fs::read_to_string(list()).unwrap();
    assert_eq!(
        seen, listed,
        "if that is meant: RECOUNT_BLESS=1 cargo test -p recount-agent --test it runs::"
    );
}
