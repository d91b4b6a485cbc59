//! Committed files that the code makes. `RECOUNT_BLESS=1` writes them; anything else compares, and where
//! `CI` is set nothing is ever written.

use std::path::{Path, PathBuf};

/// The root of the tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether this run writes instead of comparing.
pub(crate) fn blessing() -> bool {
    let requested = std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1");
    assert!(!requested || std::env::var_os("CI").is_none(), "CI compares; it does not bless");
    requested
}

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// The committed file equals the generated text.
#[track_caller]
pub(crate) fn check(path: &str, made: &str) {
    let file = root().join(path);
    if blessing() {
        std::fs::create_dir_all(file.parent().expect("a file is in a folder")).unwrap();
        std::fs::write(&file, made).unwrap();
        return;
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    if there == made {
        return;
    }
    let line = there.lines().zip(made.lines()).take_while(|(a, b)| a == b).count();
    panic!(
        "{path} is not what the code makes, from line {} on:\n  there: {:?}\n  made:  {:?}\n\
         if the change is meant: RECOUNT_BLESS=1 cargo test -p recount-event",
        line + 1,
        there.lines().nth(line),
        made.lines().nth(line)
    );
}

/// The names of the files in a folder that end so, in order.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|why| panic!("{folder}: {why}"));
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().expect("plain names"))
        .filter(|name| name.ends_with(ending))
        .collect();
    names.sort();
    names
}
