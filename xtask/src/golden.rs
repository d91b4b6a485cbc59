//! `cargo xtask golden`: lets golden tests rewrite their files, then shows the changes.
//!
//! Such tests read `RECOUNT_BLESS`, and are found by that word. Whether a change is right is for the reader of the
//! diff.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, ensure};

use crate::child::{command, watch};

const VARIABLE: &str = "RECOUNT_BLESS";

/// The binary of a crate's integration tests, and its folder below `tests`.
const MERGED: &str = "it";

/// Rewrites, then prints the statistics of the change.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let packages = find(root)?;
    ensure!(!packages.is_empty(), "no test under crates/ and lab/ looks at {VARIABLE}");
    let mut all_passed = true;
    for (package, selections) in &packages {
        for selection in selections {
            let mut cargo = command(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), root);
            cargo.args(["test", "--locked", "--quiet", "-p", package]).args(selection).env(VARIABLE, "1");
            all_passed &= watch(cargo)?;
        }
    }
    let mut diff = command("git", root);
    diff.args(["--no-pager", "diff", "--stat"]);
    Ok(watch(diff)? && all_passed)
}

/// Packages, each with the selections of tests that read the variable: one call of `cargo test` for each.
fn find(root: &Path) -> Result<BTreeMap<String, Vec<Vec<String>>>> {
    let mut packages = BTreeMap::new();
    for folder in [list(&root.join("crates"))?, list(&root.join("lab"))?].concat() {
        let package = format!("recount-{}", folder.file_name().unwrap_or_default().to_string_lossy());
        let mut selections = Vec::new();
        if contains_word(&folder.join("src"))? {
            let kind = if folder.join("src/lib.rs").is_file() { "--lib" } else { "--bins" };
            selections.push(vec![kind.to_owned()]);
        }
        let tests = folder.join("tests");
        let modules = blessing_modules(&tests.join(MERGED))?;
        if !modules.is_empty() {
            let filters = modules.into_iter().map(|module| format!("{module}::"));
            selections.push(["--test", MERGED, "--"].map(str::to_owned).into_iter().chain(filters).collect());
        }
        // Tests that need their own process.
        let mut targets = list(&tests)?;
        targets.sort();
        for target in targets {
            if target.is_file() && contains_word(&target)? {
                let name = target.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                selections.push(vec!["--test".to_owned(), name]);
            }
        }
        if !selections.is_empty() {
            packages.insert(package, selections);
        }
    }
    Ok(packages)
}

/// Modules of the integration tests in this folder that read the variable, and those that use such a module.
fn blessing_modules(folder: &Path) -> Result<BTreeSet<String>> {
    let mut texts = BTreeMap::new();
    read_modules(folder, "", &mut texts)?;
    let mut found: BTreeSet<String> =
        texts.iter().filter(|(_, text)| text.contains(VARIABLE)).map(|(module, _)| module.clone()).collect();
    let helpers: Vec<String> = found.iter().map(|module| format!("crate::{module}")).collect();
    let uses = |text: &str| helpers.iter().any(|helper| text.contains(helper));
    found.extend(texts.iter().filter(|(_, text)| uses(text)).map(|(module, _)| module.clone()));
    Ok(found)
}

/// The texts of the modules below a folder, by path.
fn read_modules(folder: &Path, path: &str, texts: &mut BTreeMap<String, String>) -> Result<()> {
    for inside in list(folder)? {
        let name = inside.file_stem().unwrap_or_default().to_string_lossy();
        let module = if path.is_empty() { name.into_owned() } else { format!("{path}::{name}") };
        if inside.is_dir() {
            read_modules(&inside, &module, texts)?;
        } else if inside.extension().is_some_and(|end| end == "rs") && module != "main" {
            texts.insert(module, std::fs::read_to_string(&inside)?);
        }
    }
    Ok(())
}

/// Whether the word is in this Rust file, or in one under this folder.
fn contains_word(path: &Path) -> Result<bool> {
    if !path.is_dir() {
        let is_rust = path.extension().is_some_and(|end| end == "rs");
        return Ok(is_rust && std::fs::read_to_string(path)?.contains(VARIABLE));
    }
    for inside in list(path)? {
        if contains_word(&inside)? {
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
    fn tests_that_rewrite_files_are_found_with_the_modules_that_use_them() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("crates/event/src/lib.rs", "RECOUNT_BLESS"),
            ("crates/event/tests/other.rs", ""),
            ("crates/event/tests/it/blessed.rs", "RECOUNT_BLESS"),
            ("crates/event/tests/it/fixtures.rs", "use crate::blessed;"),
            ("crates/event/tests/it/codec.rs", ""),
            ("crates/run/src/lib.rs", ""),
            ("crates/run/tests/alone.rs", "RECOUNT_BLESS"),
            ("crates/server/src/lib.rs", ""),
            ("crates/server/tests/it/main.rs", "RECOUNT_BLESS"),
            ("crates/log/src/lib.rs", ""),
            ("lab/sim/src/main.rs", "RECOUNT_BLESS"),
            ("crates/cli/tests/quiet.rs", ""),
            ("crates/cli/tests/it/process.rs", ""),
            ("crates/cli/tests/it/process/help.rs", "RECOUNT_BLESS"),
            ("crates/cli/tests/it/process/help.txt", "RECOUNT_BLESS"),
        ] {
            let place = root.path().join(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        }
        let found = find(root.path()).unwrap();
        let expected: [(&str, &[&[&str]]); 4] = [
            ("recount-cli", &[&["--test", "it", "--", "process::help::"]]),
            ("recount-event", &[&["--lib"], &["--test", "it", "--", "blessed::", "fixtures::"]]),
            ("recount-run", &[&["--test", "alone"]]),
            ("recount-sim", &[&["--bins"]]),
        ];
        let owned = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let expected = expected
            .map(|(package, selections)| (package.to_owned(), selections.iter().map(owned).collect()));
        assert_eq!(found, BTreeMap::from(expected));
    }
}
