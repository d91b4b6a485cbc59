//! Tests that the package is self-contained: its code and tests read no file outside the folder, and it contains its
//! promised files. They run in the workspace, where some files are links, and from the package.

use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn tests_read_no_file_outside_the_package() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "tests", "examples"] {
        sources(&root.join(folder), &mut found);
    }
    assert!(found.len() > 70, "{}", found.len());
    // In two parts, so that this file does not contain it.
    let outside = ["..", "/.."].concat();
    let examples = format!("#[path = \"{outside}/examples/");
    for path in found {
        // From `tests/it`, the folder of the examples is inside the package.
        let text = std::fs::read_to_string(&path).unwrap().replace(&examples, "");
        assert!(!text.contains(&outside), "{} reads outside of the package", path.display());
    }
}

#[test]
fn the_package_contains_its_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["README.md", "RULES.md", "LICENSE-APACHE", "LICENSE-MIT", "testdata/events.json"] {
        let text = std::fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.lines().count() > 10, "{name} is a link that leads nowhere");
    }
    let rules = std::fs::read_to_string(root.join("RULES.md")).unwrap();
    assert_eq!(rules, recount_aaep::rule::page());
}
