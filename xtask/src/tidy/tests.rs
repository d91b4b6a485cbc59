//! A clean tree, into which tests seed violations; and the same once on a real disk with real git.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::source::Source;
use super::tree::{Dependency, Git, Package, Tree};
use super::{Finding, Report, examine, judge};

const MANIFEST: &str = "[package]\nname = \"recount-NAME\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n";

const FOLDERS: &[&str] = &[
    "crates/event",
    "crates/run",
    "crates/log",
    "crates/engine",
    "crates/server",
    "crates/face-aep",
    "lab/sim",
];

fn texts() -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = [
        ("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\", \"lab/*\"]\n"),
        ("Cargo.lock", "version = 4\n"),
        ("docs/registry.lock", "run.queued\n"),
        ("testdata/events/.hashes", "0  run.queued.json\n"),
        ("testdata/events/run.queued.json", "{}\n"),
        (super::limits_page::PAGE, "| limit | value |\n| --- | --- |\n"),
        ("web-tests/read.test.mjs", "test('reads a run', () => {});\n"),
        ("crates/engine/src/read/live.rs", "//! Head.\npub fn push_committed() {}\n"),
        ("crates/engine/src/read/publish.rs", "//! Head.\npub fn committed() {\n    push_committed();\n}\n"),
        ("crates/engine/tests/story.rs", "//! Head.\n#[test]\nfn it_is_reported() {}\nfn helper() {}\n"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into();
    let mut map = String::from("# Map\n");
    for folder in FOLDERS {
        let name = name_of(folder);
        texts.insert(format!("{folder}/Cargo.toml"), MANIFEST.replace("NAME", name));
        texts.insert(format!("{folder}/src/lib.rs"), "//! Head.\n".into());
        map.push_str(&format!("`{name}`\n"));
    }
    texts.insert("ARCHITECTURE.md".into(), map);
    let head = "| id | requirement | built in | test |\n| --- | --- | --- | --- |\n";
    for page in &super::requirements::PAGES {
        let rows: String =
            page.ids().map(|id| format!("| {id} | text | `event` | later: ground |\n")).collect();
        texts.insert(page.path.into(), head.to_owned() + &rows);
    }
    let promises = "| id | promise | limits |\n| --- | --- | --- |\n| G-001 | text | once |\n";
    texts.insert(super::requirements::GUARANTEES.into(), promises.into());
    let tests = "| id | test |\n| --- | --- |\n| G-001 | `engine::story::it_is_reported` |\n";
    texts.insert(super::requirements::GUARANTEE_TESTS.into(), tests.into());
    texts
}

fn name_of(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap_or(folder)
}

/// A tree without findings and notes.
pub(super) fn clean_tree() -> Tree {
    let texts = texts();
    let packages = FOLDERS
        .iter()
        .map(|folder| Package {
            name: format!("recount-{}", name_of(folder)),
            folder: (*folder).to_owned(),
            dependencies: Vec::new(),
        })
        .collect();
    let git = Git::Repository { tracked: texts.keys().cloned().collect(), edited: Some([].into()) };
    Tree::new(texts, packages, git)
}

/// The clean tree with one file put in or replaced.
pub(super) fn with(path: &str, text: &str) -> Tree {
    let mut tree = clean_tree();
    tree.texts.insert(path.to_owned(), text.to_owned());
    if path.ends_with(".rs") {
        tree.sources.insert(path.to_owned(), Source::read(path, text));
    }
    tree
}

/// Adds a dependency, as the sixth line of the manifest.
pub(super) fn depend(tree: &mut Tree, folder: &str, on: &str, dev: bool) {
    let package = tree
        .packages
        .iter_mut()
        .find(|package| name_of(&package.folder) == folder)
        .expect("the crate is there");
    package.dependencies.push(Dependency { name: on.to_owned(), dev });
    let path = format!("{}/Cargo.toml", package.folder);
    let manifest = tree.texts.get_mut(&path).expect("the manifest is there");
    manifest.push_str(&format!("{on}.workspace = true\n"));
}

pub(super) fn refused(path: &str, text: &str) -> Vec<Finding> {
    judge(&with(path, text)).findings
}

/// Checks that exactly this rule refuses the file, at this line.
#[track_caller]
pub(super) fn refused_at(path: &str, text: &str, rule: &str, line: usize) {
    let found = refused(path, text);
    let mut places: Vec<_> = found.iter().map(|f| (f.path.as_str(), f.line, f.rule)).collect();
    places.dedup();
    assert_eq!(places, [(path, line, rule)], "{text}\n{found:#?}");
}

#[track_caller]
pub(super) fn clean(path: &str, text: &str) {
    assert_eq!(refused(path, text), [], "{text}");
}

pub(super) fn rules_at(report: &Report, path: &str) -> Vec<&'static str> {
    report.findings.iter().filter(|finding| finding.path == path).map(|finding| finding.rule).collect()
}

#[test]
fn a_clean_tree_passes() {
    let report = judge(&clean_tree());
    assert_eq!(report.findings, []);
    assert_eq!(report.notes, [] as [&str; 0]);
}

#[test]
fn a_finding_names_its_place_and_rule() {
    let found = refused("crates/run/src/decide.rs", "//! Head.\npub async fn f() {}\n");
    let line = found[0].to_string();
    assert!(line.starts_with("crates/run/src/decide.rs:2: rule 1: "), "{line}");
}

fn write(root: &Path, path: &str, text: &str) {
    let place = root.join(path);
    std::fs::create_dir_all(place.parent().expect("a file has a folder")).expect("the folder can be made");
    std::fs::write(place, text).expect("the file can be written");
}

fn git(root: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(root)
        .output()
        .expect("git runs");
    assert!(status.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&status.stderr));
}

fn on_disk() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    for (path, text) in texts() {
        write(folder.path(), &path, &text);
    }
    git(folder.path(), &["init", "--quiet"]);
    git(folder.path(), &["add", "--all"]);
    git(folder.path(), &["commit", "--quiet", "--message", "first"]);
    folder
}

fn places(root: &Path) -> Vec<(String, usize, &'static str)> {
    let report = examine(root).expect("the tree can be read");
    report.findings.into_iter().map(|finding| (finding.path, finding.line, finding.rule)).collect()
}

#[test]
fn on_disk_a_clean_tree_passes_and_one_violation_of_each_hard_rule_is_refused() {
    let folder = on_disk();
    let root = folder.path();
    assert_eq!(places(root), []);

    write(root, "crates/run/src/decide.rs", "//! Head.\npub async fn f() {}\n");
    write(root, "crates/engine/src/now.rs", "//! Head.\nfn f() { std::time::Instant::now(); }\n");
    write(root, "testdata/events/run.queued.json", "{\"edited\":true}\n");
    write(root, "crates/engine/src/early.rs", "//! Head.\nfn f() { push_committed(); }\n");
    write(root, "crates/engine/src/queue.rs", "//! Head.\nfn f() { mpsc::channel(16); }\n");
    write(root, "crates/engine/tests/luck.rs", "//! Head.\n#[test]\n#[ignore]\nfn f() {}\n");
    write(
        root,
        "crates/log/Cargo.toml",
        &(MANIFEST.replace("NAME", "log") + "[dependencies]\nrecount-event = { path = \"../event\" }\n"),
    );
    let wanted = [
        ("crates/engine/src/early.rs", 2, "rule 4"),
        ("crates/engine/src/now.rs", 2, "rule 2"),
        ("crates/engine/src/queue.rs", 2, "rule 5"),
        ("crates/engine/tests/luck.rs", 3, "rule 6"),
        ("crates/log/Cargo.toml", 7, "edges"),
        ("crates/run/src/decide.rs", 2, "rule 1"),
        ("testdata/events/run.queued.json", 1, "rule 3"),
    ];
    assert_eq!(places(root), wanted.map(|(path, line, rule)| (path.to_owned(), line, rule)));
}

#[test]
fn a_commit_that_edits_or_moves_a_fixture_is_refused_permanently() {
    let folder = on_disk();
    let root = folder.path();
    let fixture = "testdata/events/run.queued.json";
    write(root, fixture, "{\"edited\":true}\n");
    git(root, &["commit", "--quiet", "--all", "--message", "edit"]);
    write(root, fixture, "{}\n");
    git(root, &["commit", "--quiet", "--all", "--message", "and back"]);
    assert_eq!(places(root), [(fixture.to_owned(), 1, "rule 3")]);

    let folder = on_disk();
    let root = folder.path();
    git(root, &["mv", fixture, "testdata/events/other.json"]);
    git(root, &["commit", "--quiet", "--all", "--message", "move"]);
    assert_eq!(places(root), [(fixture.to_owned(), 1, "rule 3")]);
}
