//! Which types of events were seen in real runs: `testdata/emitted.txt`.
//!
//! The stories are played once more in a process of their own, which notes each type that it sees as a file of that
//! name in a folder. With `RECOUNT_BLESS=1` the list is written, else compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use recount_event::registry::emitted;

/// Where a process that plays stories for the list notes what it sees.
const FOLDER: &str = "RECOUNT_STORIES_SEEN";

/// Notes what stood in a run.
pub(crate) fn note<'a>(types: impl Iterator<Item = &'a str>) {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    for name in types {
        std::fs::write(Path::new(&folder).join(name), b"").unwrap();
    }
}

fn list() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/emitted.txt")
}

#[test]
fn what_runs_emit_is_listed() {
    if std::env::var_os(FOLDER).is_some() {
        // This is that process.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stories = Command::new(std::env::current_exe().unwrap())
        // The same story with crashes in it takes long, and has nothing that others have not.
        // Stories wait more than they work.
        .args(["--skip", "crashes::", "--test-threads", "8"])
        .env(FOLDER, folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(stories.status.success(), "{}", String::from_utf8_lossy(&stories.stdout));
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let seen = emitted::print(names.iter().map(String::as_str));
    if std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(list(), &seen).unwrap();
    }
    let listed = std::fs::read_to_string(list()).unwrap();
    assert_eq!(seen, listed, "if that is meant: RECOUNT_BLESS=1 cargo test -p recount-agent --test runs");
}
