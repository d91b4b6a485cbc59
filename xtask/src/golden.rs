//! `cargo xtask golden`: lets the tests that hold golden files rewrite them, then shows what changed.
//!
//! Such tests look at `RECOUNT_BLESS`, and are found by that word. Whether a change is right is for the
//! reader of the diff.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::child::{command, watch};

const VARIABLE: &str = "RECOUNT_BLESS";

/// Rewrites, then prints the statistics of the change.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let targets = find(root)?;
    ensure!(!targets.is_empty(), "no test under crates/ and lab/ looks at {VARIABLE}");
    let mut all_passed = true;
    for (package, selection) in &targets {
        let mut cargo = command(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), root);
        cargo.args(["test", "--locked", "--quiet", "-p", package]).args(selection).env(VARIABLE, "1");
        all_passed &= watch(cargo)?;
    }
    let mut diff = command("git", root);
    diff.args(["--no-pager", "diff", "--stat"]);
    Ok(watch(diff)? && all_passed)
}

/// Packages with the targets in which the word stands.
fn find(root: &Path) -> Result<BTreeMap<String, Vec<String>>> {
    let mut targets: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in [list(&root.join("crates"))?, list(&root.join("lab"))?].concat() {
        let package = format!("recount-{}", folder.file_name().unwrap_or_default().to_string_lossy());
        let mut selection = Vec::new();
        if speaks_of_it(&folder.join("src"))? {
            let kind = if folder.join("src/lib.rs").is_file() { "--lib" } else { "--bins" };
            selection.push(kind.to_owned());
        }
        let mut tests = list(&folder.join("tests"))?;
        tests.sort();
        // A folder without `main.rs` is no test but a helper of those beside it.
        let is_target = |path: &Path| path.is_file() || path.join("main.rs").is_file();
        let (targets_there, helpers): (Vec<_>, Vec<_>) = tests.into_iter().partition(|path| is_target(path));
        let mut shared = false;
        for helper in &helpers {
            shared |= speaks_of_it(helper)?;
        }
        for target in targets_there {
            if shared || speaks_of_it(&target)? {
                let name = target.file_stem().unwrap_or_default().to_string_lossy();
                selection.extend(["--test".to_owned(), name.into_owned()]);
            }
        }
        if !selection.is_empty() {
            targets.insert(package, selection);
        }
    }
    Ok(targets)
}

/// Whether the word is in this Rust file, or in one under this folder.
fn speaks_of_it(path: &Path) -> Result<bool> {
    if !path.is_dir() {
        let is_rust = path.extension().is_some_and(|end| end == "rs");
        return Ok(is_rust && std::fs::read_to_string(path)?.contains(VARIABLE));
    }
    for inside in list(path)? {
        if speaks_of_it(&inside)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn list(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_that_rewrite_are_found_by_the_word() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("crates/event/src/lib.rs", "RECOUNT_BLESS"),
            ("crates/event/tests/other.rs", ""),
            ("crates/run/src/lib.rs", ""),
            ("crates/run/tests/views.rs", "RECOUNT_BLESS"),
            ("crates/server/src/lib.rs", ""),
            ("crates/server/tests/http.rs", ""),
            ("crates/server/tests/support/golden.rs", "RECOUNT_BLESS"),
            ("crates/log/src/lib.rs", ""),
            ("lab/sim/src/main.rs", "RECOUNT_BLESS"),
            ("crates/cli/tests/quiet/main.rs", ""),
            ("crates/cli/tests/transcripts/main.rs", ""),
            ("crates/cli/tests/transcripts/help.rs", "RECOUNT_BLESS"),
        ] {
            let place = root.path().join(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        }
        let found = find(root.path()).unwrap();
        let wanted: [(&str, &[&str]); 5] = [
            ("recount-cli", &["--test", "transcripts"]),
            ("recount-event", &["--lib"]),
            ("recount-run", &["--test", "views"]),
            ("recount-server", &["--test", "http"]),
            ("recount-sim", &["--bins"]),
        ];
        let wanted = wanted.map(|(package, words)| {
            (package.to_owned(), words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        });
        assert_eq!(found, BTreeMap::from(wanted));
    }
}
