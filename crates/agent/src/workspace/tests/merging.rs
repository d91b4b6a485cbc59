//! Merge tests: both sides changed, selected paths, conflicts, branches, and the results of git.

use std::process::Command;

use proptest::prelude::*;
use recount_engine::Conflicts;

use super::*;

/// Ten lines; `changed` replaces some of them.
fn lines(changed: &[(usize, &str)]) -> String {
    let line = |number: usize| {
        let found = changed.iter().find(|(at, _)| *at == number);
        found.map_or_else(|| format!("line {number}\n"), |(_, text)| format!("{text}\n"))
    };
    (0..10).map(line).collect()
}

/// A project in which the run and the folder changed `text`.
fn both_changed(run: &str, folder: &str) -> CopiedProject {
    let project = CopiedProject::make_with(&[("text", lines(&[]).as_bytes())]);
    std::fs::write(project.copy.join("text"), run).unwrap();
    // The end of a run looks at its changes.
    project.changes();
    std::fs::write(project.source.join("text"), folder).unwrap();
    project
}

fn state_of(changes: &WorkspaceChanges, path: &str) -> ChangeState {
    changes.changes.iter().find(|change| change.path == path).map(|change| change.state).unwrap()
}

fn to(paths: &[&str], conflicts: Conflicts) -> ApplyTo {
    ApplyTo { paths: paths.iter().map(|path| (*path).to_owned()).collect(), conflicts, ..ApplyTo::default() }
}

#[test]
fn changes_in_different_parts_of_a_file_are_merged() {
    let project = both_changed(&lines(&[(1, "of the run")]), &lines(&[(8, "of the folder")]));
    let changes = project.changes();
    assert_eq!(state_of(&changes, "text"), ChangeState::Mergeable);
    assert!(
        changes.diff.contains("+of the run") && !changes.diff.contains("-of the folder"),
        "{}",
        changes.diff
    );
    let applied = project.apply(None).unwrap();
    assert_eq!(state_of(&applied, "text"), ChangeState::Applied);
    let expected = lines(&[(1, "of the run"), (8, "of the folder")]);
    assert_eq!(std::fs::read_to_string(project.source.join("text")).unwrap(), expected);
    assert_eq!(project.changes().count, 0, "nothing remains to be applied");
}

#[test]
fn a_conflict_is_shown_and_does_not_block_other_changes() {
    let project = both_changed(&lines(&[(1, "of the run")]), &lines(&[(1, "of the folder")]));
    std::fs::write(project.copy.join("bytes"), [0, 9]).unwrap();
    std::fs::write(project.source.join("bytes"), [0, 8]).unwrap();
    std::fs::write(project.copy.join("a"), "two\n").unwrap();
    let changes = project.changes();
    let shown = changes.changes.iter().find(|change| change.path == "text").unwrap();
    assert_eq!(shown.state, ChangeState::Conflict);
    let parts = shown.conflict.as_deref().unwrap();
    assert_eq!(
        parts,
        "line 0\n<<<<<<< ours\nof the folder\n||||||| original\nline 1\n=======\nof the run\n>>>>>>> theirs\n\
         line 2\nline 3\nline 4\n"
    );
    assert_eq!(state_of(&changes, "bytes"), ChangeState::Conflict);

    let before = project.original();
    let error = project.apply(None).unwrap_err();
    assert_eq!((error.code, project.original()), (recount_event::Code::ApplyConflict, before));
    assert!(error.message.contains("bytes, text"), "{error}");

    let applied = project.apply_to(&to(&[], Conflicts::Skip)).unwrap();
    assert_eq!(state_of(&applied, "a"), ChangeState::Applied);
    assert_eq!(state_of(&applied, "text"), ChangeState::Conflict);
    assert_eq!(std::fs::read(project.source.join("a")).unwrap(), b"two\n");
    assert_eq!(std::fs::read_to_string(project.source.join("text")).unwrap(), lines(&[(1, "of the folder")]));

    let marked = project.apply_to(&to(&["text"], Conflicts::Mark)).unwrap();
    assert_eq!(state_of(&marked, "text"), ChangeState::Applied);
    let written = std::fs::read_to_string(project.source.join("text")).unwrap();
    assert!(written.contains("of the folder") && written.contains("of the run"), "{written}");
    // A binary file cannot have markers, and stays.
    let rest = project.apply_to(&to(&[], Conflicts::Mark)).unwrap();
    assert_eq!(listed(&rest), [("bytes".to_owned(), ChangeKind::Changed, ChangeState::Conflict)]);
    assert_eq!(std::fs::read(project.source.join("bytes")).unwrap(), [0, 8]);
}

#[test]
fn a_folder_with_a_conflict_in_it_is_not_replaced_and_the_rest_is_applied() {
    let project = CopiedProject::make();
    std::fs::remove_dir_all(project.copy.join("d")).unwrap();
    std::fs::write(project.copy.join("d"), "a file now").unwrap();
    std::fs::write(project.copy.join("a"), "two\n").unwrap();
    std::fs::write(project.source.join("d/in"), "of the folder").unwrap();
    project.apply_to(&to(&[], Conflicts::Skip)).unwrap();
    assert_eq!(std::fs::read(project.source.join("a")).unwrap(), b"two\n");
    assert_eq!(std::fs::read(project.source.join("d/in")).unwrap(), b"of the folder");
}

#[test]
fn only_selected_paths_are_applied() {
    let project = CopiedProject::make();
    project.change();
    let error = project.apply_to(&to(&["a", "nothing"], Conflicts::Refuse)).unwrap_err();
    assert!(error.message.contains("nothing to apply at \"nothing\""), "{error}");
    let applied = project.apply_to(&to(&["new/deep/file", "link"], Conflicts::Refuse)).unwrap();
    let paths: Vec<&str> = applied.changes.iter().map(|change| &*change.path).collect();
    assert_eq!(paths, ["link", "new", "new/deep", "new/deep/file"]);
    assert_eq!(std::fs::read(project.source.join("new/deep/file")).unwrap(), b"new\n");
    assert_eq!(std::fs::read_link(project.source.join("link")).unwrap(), Path::new("bytes"));
    assert_eq!(std::fs::read(project.source.join("a")).unwrap(), b"one\n");
    assert_eq!(state_of(&project.changes(), "a"), ChangeState::Open);
    project.apply_to(&to(&["d"], Conflicts::Refuse)).unwrap();
    assert_eq!(std::fs::read(project.source.join("d")).unwrap(), b"a file now");
}

fn git(folder: &Path, args: &[&str]) {
    let done = Command::new("git").current_dir(folder).args(args).output().unwrap();
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_merge_goes_to_a_branch_with_the_version_that_git_has() {
    let setup = setup();
    let source = setup.workspaces.allowed[0].join("project");
    std::fs::write(source.join("text"), lines(&[])).unwrap();
    git(&source, &["init", "-q"]);
    git(&source, &["config", "user.email", "a@b"]);
    git(&source, &["config", "user.name", "a"]);
    git(&source, &["add", "."]);
    git(&source, &["commit", "-qm", "first"]);
    let copy = setup.workspaces.tree("lone");
    setup.workspaces.prepare(CLONE, &copy, Some(&source), false, run()).unwrap();
    let project = CopiedProject { setup, source, copy };
    std::fs::write(project.copy.join("text"), lines(&[(1, "of the run")])).unwrap();
    std::fs::write(project.source.join("text"), lines(&[(8, "of the folder")])).unwrap();
    git(&project.source, &["commit", "-qam", "second"]);
    assert_eq!(state_of(&project.changes(), "text"), ChangeState::Mergeable);
    project.apply(Some("merged")).unwrap();
    git(&project.source, &["checkout", "-q", "merged"]);
    let expected = lines(&[(1, "of the run"), (8, "of the folder")]);
    assert_eq!(std::fs::read_to_string(project.source.join("text")).unwrap(), expected);
}

fn some_lines() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0..6_u8, 0..12)
        .prop_map(|lines| lines.into_iter().flat_map(|line| [b'a' + line, b'\n']).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A merge without conflicts contains every line that a side added, and git agrees wherever both are sure.
    #[test]
    fn git_merges_to_the_same_file(base in some_lines(), ours in some_lines(), theirs in some_lines()) {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("base", &base), ("ours", &ours), ("theirs", &theirs)] {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let merged = Command::new("git")
            .current_dir(folder.path())
            .args(["merge-file", "-p", "ours", "base", "theirs"])
            .output()
            .unwrap();
        if let (Ok(ours), true) = (diffy::merge_bytes(&base, &ours, &theirs), merged.status.success()) {
            prop_assert_eq!(String::from_utf8(ours), String::from_utf8(merged.stdout));
        }
    }
}
