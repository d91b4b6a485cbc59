//! Which types of events were seen in real runs, and by which test: `testdata/emitted.txt`.
//!
//! The stories are played once more in a process of their own, in which each test notes each type that it sees: a folder
//! of the type's name, and in it a file of the test's name. With `RECOUNT_BLESS=1` the list is written, else compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use recount_event::registry::emitted;

/// Where a process that plays stories for the list notes what it sees.
const FOLDER: &str = "RECOUNT_STORIES_SEEN";

/// What the names of all stories begin with.
const SUITE: &str = "runs::";

/// Notes what stood in a run. A test runs in a thread of its name.
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
fn what_runs_emit_is_listed() {
    if std::env::var_os(FOLDER).is_some() {
        // This is that process.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stories = Command::new(std::env::current_exe().unwrap())
        // The same stories with crashes and failing disks in them take long, and have nothing that others have not.
        // Stories wait more than they work.
        .args([SUITE, "--skip", "crashes::", "--skip", "disk_stories::", "--test-threads", "8"])
        .env(FOLDER, folder.path())
        // What is emitted does not depend on the number of cases.
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
    // What another branch wrote in another form is written anew.
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
