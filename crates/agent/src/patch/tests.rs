//! Compares with git: git's diffs are parsed and applied as git does it, git accepts what is written here, and inverses
//! revert.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use super::*;

type Files = BTreeMap<PathBuf, TreeFile>;

impl ReadTree for Files {
    fn read(&self, path: &Path) -> Result<Option<TreeFile>, TreePatchError> {
        Ok(self.get(path).cloned())
    }
}

fn file(text: &str) -> TreeFile {
    TreeFile { mode: FileMode::Plain, bytes: text.as_bytes().to_vec() }
}

fn files(all: &[(&str, &str)]) -> Files {
    all.iter().map(|(path, text)| (PathBuf::from(path), file(text))).collect()
}

fn changed(before: &Files, result: TreeResult) -> Files {
    let mut after = before.clone();
    for (path, made) in result {
        match made {
            Some(made) => after.insert(path, made),
            None => after.remove(&path),
        };
    }
    after
}

/// A git repository in a temporary folder.
struct TestRepository(TempDir);

impl TestRepository {
    fn new() -> Self {
        let repository = TestRepository(tempfile::tempdir().unwrap());
        std::fs::create_dir(repository.0.path().join(".git")).unwrap();
        repository.git(&["init", "--quiet"], None);
        for setting in ["core.autocrlf=false", "core.fileMode=true", "core.symlinks=true"] {
            let (name, value) = setting.split_once('=').unwrap();
            repository.git(&["config", name, value], None);
        }
        repository
    }

    fn git(&self, args: &[&str], input: Option<&[u8]>) -> Vec<u8> {
        self.try_git(args, input).unwrap_or_else(|why| panic!("git {args:?}: {why}"))
    }

    fn try_git(&self, args: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, String> {
        let input_at = self.0.path().join(".git/input");
        std::fs::write(&input_at, input.unwrap_or_default()).unwrap();
        let out = Command::new("git")
            .args(args)
            .current_dir(self.0.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(std::fs::File::open(input_at).unwrap())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        if out.status.success() {
            Ok(out.stdout)
        } else {
            Err(String::from_utf8_lossy(&out.stderr).into_owned())
        }
    }

    /// Replaces everything in the folder.
    fn put(&self, files: &Files) {
        for entry in std::fs::read_dir(self.0.path()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() == ".git" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                std::fs::remove_dir_all(entry.path()).unwrap();
            } else {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        for (path, file) in files {
            let at = self.0.path().join(path);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            if file.mode == FileMode::Link {
                symlink(std::ffi::OsStr::from_bytes(&file.bytes), &at).unwrap();
                continue;
            }
            std::fs::write(&at, &file.bytes).unwrap();
            let mode = if file.mode == FileMode::Executable { 0o755 } else { 0o644 };
            std::fs::set_permissions(&at, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    fn add(&self) -> String {
        self.git(&["add", "--all", "--force"], None);
        String::from_utf8(self.git(&["write-tree"], None)).unwrap().trim().to_owned()
    }

    /// The tree id of some files.
    fn tree_of(&self, files: &Files) -> String {
        self.put(files);
        self.add()
    }
}

/// The diff between two trees, written by this crate, without renames.
fn between(before: &Files, after: &Files) -> TreePatch {
    let mut text = Vec::new();
    let mut paths: Vec<&PathBuf> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        let (old, new) = (before.get(path), after.get(path));
        // Like git: a file that becomes a link is deleted and added.
        let is_link = |file: Option<&TreeFile>| file.map(|file| file.mode == FileMode::Link);
        if old.is_some() && new.is_some() && is_link(old) != is_link(new) {
            text.extend(one(path, old, None));
            text.extend(one(path, None, new));
        } else if old != new {
            text.extend(one(path, old, new));
        }
    }
    if text.is_empty() { TreePatch { files: Vec::new() } } else { TreePatch::parse(&text).unwrap() }
}

fn one(path: &Path, old: Option<&TreeFile>, new: Option<&TreeFile>) -> Vec<u8> {
    let bytes = |file: Option<&TreeFile>| file.map(|file| file.bytes.clone());
    let (before, after) = (bytes(old), bytes(new));
    let made = crate::tools::diff::unified("x", before.as_deref(), after.as_deref().unwrap_or_default());
    let hunks = match TreePatch::parse(&made.text) {
        Ok(TreePatch { mut files }) => files.remove(0).content,
        Err(_) => PatchContent::Text(Vec::new()),
    };
    let side =
        |file: Option<&TreeFile>| file.map(|file| PatchSide { path: path.to_owned(), mode: Some(file.mode) });
    let file =
        FilePatch { old: side(old), new: side(new), content: hunks, has_git_header: true, index: None };
    TreePatch { files: vec![file] }.to_bytes()
}

// ---- trees and edits -----------------------------------------------------------------------------

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-c ]{0,4}\n",
        1 => "[a-c]{0,3}\r\n",
        1 => Just("--- a/x\n".to_owned()),
        1 => Just("\\ No newline\n".to_owned()),
        1 => Just("@@ -1 +1 @@\n".to_owned()),
    ]
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (prop::collection::vec(line(), 0..30), prop::bool::ANY).prop_map(|(lines, cut)| {
            let mut text = lines.concat().into_bytes();
            if cut && text.ends_with(b"\n") {
                text.pop();
            }
            text
        }),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

fn tree_file() -> impl Strategy<Value = TreeFile> {
    prop_oneof![
        5 => content().prop_map(|bytes| TreeFile { mode: FileMode::Plain, bytes }),
        1 => content().prop_map(|bytes| TreeFile { mode: FileMode::Executable, bytes }),
        1 => "[a-z]{1,8}".prop_map(|to| TreeFile { mode: FileMode::Link, bytes: to.into_bytes() }),
    ]
}

fn path() -> impl Strategy<Value = PathBuf> {
    // Folders and files have different names, so that no file is where a folder is.
    const NAMES: &[&str] =
        &["a", "b c", "ü", "q\"uote", "tab\there", "dir/e", "dir/deep er/f", "dir2/g", "x b/y"];
    prop::sample::select(NAMES).prop_map(PathBuf::from)
}

fn tree() -> impl Strategy<Value = Files> {
    prop::collection::btree_map(path(), tree_file(), 0..6)
}

/// Replaces one line.
fn edited(bytes: &[u8], at: usize, with: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let at = if lines.is_empty() { 0 } else { at % lines.len() };
    [lines[..at].concat(), with.to_vec(), lines.get(at + 1..).unwrap_or_default().concat()].concat()
}

fn two_trees() -> impl Strategy<Value = (Files, Files)> {
    let edits = prop::collection::vec((0..5_usize, any::<usize>(), line(), path(), tree_file()), 0..6);
    (tree(), edits).prop_map(|(before, edits)| {
        let mut after = before.clone();
        for (what, at, line, path, file) in edits {
            let chosen = after.keys().nth(at % after.len().max(1)).cloned();
            match (what, chosen) {
                (0, _) => {
                    after.insert(path, file);
                }
                (1, Some(chosen)) => {
                    after.remove(&chosen);
                }
                (2, Some(chosen)) => {
                    let file = after.remove(&chosen).unwrap();
                    after.insert(path, file);
                }
                (3, Some(chosen)) => {
                    let file = after.get_mut(&chosen).unwrap();
                    file.mode = match file.mode {
                        FileMode::Plain => FileMode::Executable,
                        FileMode::Executable => FileMode::Plain,
                        FileMode::Link => FileMode::Link,
                    };
                }
                (_, Some(chosen)) => {
                    let file = after.get_mut(&chosen).unwrap();
                    if file.mode != FileMode::Link {
                        file.bytes = edited(&file.bytes, at, line.as_bytes());
                    }
                }
                _ => {}
            }
        }
        (before, after)
    })
}

/// Each case starts git many times, so the number of cases is set here; `PROPTEST_CASES` of the full tier is for quick
/// cases.
fn for_some_cases<S: Strategy>(strategy: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let cases = u32::try_from(recount_tier::times(24)).unwrap();
    let config = ProptestConfig { failure_persistence: None, cases, ..ProptestConfig::default() };
    TestRunner::new(config).run(&strategy, test).unwrap_or_else(|error| panic!("{error}"));
}

/// Git's diff of two trees is applied as git does it, and the inverse reverts it.
#[test]
fn a_git_diff_produces_the_tree_of_git_and_its_inverse_reverts_it() {
    for_some_cases((two_trees(), any::<bool>()), |((before, after), renames)| {
        let repository = TestRepository::new();
        let (old, new) = (repository.tree_of(&before), repository.tree_of(&after));
        let renames = if renames { "--find-renames=20%" } else { "--no-renames" };
        let text =
            repository.git(&["diff-tree", "-p", "--binary", "--full-index", renames, &old, &new], None);
        if text.is_empty() {
            prop_assert_eq!(before, after);
            return Ok(());
        }
        let patch = TreePatch::parse(&text).unwrap();
        prop_assert_eq!(&changed(&before, patch.apply(&before).unwrap()), &after);
        // The rewritten patch is equal, and git accepts it.
        prop_assert_eq!(TreePatch::parse(&patch.to_bytes()).unwrap(), patch.clone());
        repository.put(&before);
        repository.add();
        repository.git(&["apply", "--index", "--whitespace=nowarn", "-"], Some(&patch.to_bytes()));
        prop_assert_eq!(repository.add(), new);
        let inverse = patch.inverse().unwrap();
        prop_assert_eq!(&changed(&after, inverse.apply(&after).unwrap()), &before);
        repository.git(&["apply", "--index", "--whitespace=nowarn", "-"], Some(&inverse.to_bytes()));
        prop_assert_eq!(repository.add(), old);
        prop_assert_eq!(inverse.inverse().unwrap().apply(&before), patch.apply(&before));
        Ok(())
    });
}

/// Git accepts the written diff of two trees and produces the second tree.
#[test]
fn git_accepts_written_diffs() {
    for_some_cases(two_trees(), |(before, after)| {
        let patch = between(&before, &after);
        prop_assert_eq!(&changed(&before, patch.apply(&before).unwrap()), &after);
        if patch.files.is_empty() {
            return Ok(());
        }
        let repository = TestRepository::new();
        let (old, new) = (repository.tree_of(&before), repository.tree_of(&after));
        repository.put(&before);
        repository.add();
        repository.git(&["apply", "--index", "--whitespace=nowarn", "-"], Some(&patch.to_bytes()));
        prop_assert_eq!(repository.add(), new);
        let inverse = patch.inverse().unwrap();
        repository.git(&["apply", "--index", "--whitespace=nowarn", "-"], Some(&inverse.to_bytes()));
        prop_assert_eq!(repository.add(), old);
        Ok(())
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    /// A tree that differs in a file of the diff is refused, unless the diff does not cover the differing lines.
    #[test]
    fn changed_files_are_refused_or_preserved((before, after) in two_trees(), at: usize) {
        let patch = between(&before, &after);
        let Some(path) = before.keys().nth(at % before.len().max(1)) else { return Ok(()) };
        let mut other = before.clone();
        other.get_mut(path).unwrap().bytes.insert(0, b'!');
        match patch.apply(&other) {
            Err(TreePatchError::Drift(found)) => prop_assert!(found.iter().all(|(named, _)| named == path), "{:?}: {:?}", path, found),
            Ok(result) => {
                let made = changed(&other, result);
                // The difference is preserved.
                prop_assert!(made.get(path).is_none_or(|file| file.bytes.contains(&b'!')));
            }
            Err(why) => prop_assert!(false, "{}", why),
        }
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let text = [b"diff --git a/x b/x\n".as_slice(), &bytes].concat();
        if let Ok(patch) = TreePatch::parse(&text) {
            prop_assert_eq!(TreePatch::parse(&patch.to_bytes()).unwrap().to_bytes(), patch.to_bytes());
        }
    }
}

// ---- by table ------------------------------------------------------------------------------------

fn refusal(text: &str) -> String {
    TreePatch::parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn unusable_diffs_are_refused_with_a_reason() {
    for (text, why) in [
        ("nothing of the kind\n", "no unified diff"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n", "incomplete"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n-b\n", "more lines than its header says"),
        ("--- a/x\n+++ b/x\n@@ -0,1 +1 @@\n-a\n+b\n", "without line numbers"),
        ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", "leads out of the tree"),
        ("--- a//etc/x\n+++ b//etc/x\n@@ -1 +1 @@\n-a\n+b\n", "leads out of the tree"),
        ("--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n", "without the prefix a/ or b/"),
        ("@@ -1 +1 @@\n-a\n+b\n", "without a file name"),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "--binary"),
        ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "--find-copies"),
        ("diff --git a/x b/x\nnew file mode 160000\n", "160000"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 99999999999\n\n", "99999999999 bytes"),
        ("diff --git a/x b/x\nGIT binary patch\nliteral 3\nzzz\n\n", "malformed"),
        ("diff --git a/x b/y\n", "without a file name"),
    ] {
        let message = refusal(text);
        assert!(message.contains(why), "{text:?}: {message}");
    }
}

#[test]
fn drift_names_each_file_with_its_reason() {
    let patch = "--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-a\n+b\n--- a/other\n+++ b/other\n@@ -2 +2 @@\n-a\n+b\n\
                 --- /dev/null\n+++ b/there\n@@ -0,0 +1 @@\n+b\n--- a/more\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\
                 --- a/good\n+++ b/good\n@@ -1 +1 @@\n-a\n+b\n";
    let patch = TreePatch::parse(patch.as_bytes()).unwrap();
    let tree = files(&[("other", "a\nx\n"), ("there", ""), ("more", "a\nb\n"), ("good", "a\n")]);
    assert_eq!(
        patch.apply(&tree).unwrap_err().to_string(),
        "gone: the file is missing; other: line 2 differs; there: it already exists; more: it continues after line 1"
    );
}

#[test]
fn a_missing_last_newline_counts() {
    let patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n";
    let patch = TreePatch::parse(patch.as_bytes()).unwrap();
    assert!(patch.apply(&files(&[("x", "a\n")])).is_err());
    let made = patch.apply(&files(&[("x", "a")])).unwrap();
    assert_eq!(made[Path::new("x")], Some(file("b\n")));
    assert_eq!(
        patch.inverse().unwrap().to_bytes(),
        b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-b\n+a\n\\ No newline at end of file\n"
    );
    assert_eq!(patch.figures(), [1, 1, 1]);
}

#[test]
fn consecutive_changes_of_a_file_are_applied_in_order() {
    let steps = "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\
                 --- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n";
    let patch = TreePatch::parse(steps.as_bytes()).unwrap();
    let before = files(&[("y", "a\n")]);
    let after = changed(&before, patch.apply(&before).unwrap());
    assert_eq!(after, files(&[("x", "b\n")]));
    assert_eq!(changed(&after, patch.inverse().unwrap().apply(&after).unwrap()), before);
}

#[test]
fn files_can_swap_their_names() {
    let swap =
        "diff --git a/x b/y\nrename from x\nrename to y\ndiff --git a/y b/x\nrename from y\nrename to x\n";
    let patch = TreePatch::parse(swap.as_bytes()).unwrap();
    let before = files(&[("x", "1"), ("y", "2")]);
    let after = changed(&before, patch.apply(&before).unwrap());
    assert_eq!(after, files(&[("x", "2"), ("y", "1")]));
}
