//! Apply tests: races between check and write, owners, symbolic links, and crashes.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use super::*;

/// The checked changes of the run.
fn judged(project: &CopiedProject) -> Vec<changes::Change> {
    let base = Base::read(project.copy.parent().unwrap()).unwrap().unwrap();
    project.compare(&base).changes
}

fn write(project: &CopiedProject, changes: &[changes::Change]) -> Result<(), apply::NotWritten> {
    let changes: Vec<_> = changes.iter().collect();
    apply::write(&project.copy, &project.source, &changes, &TreeResult::new(), 7)
}

/// Names in the original that an apply left.
fn leftovers(project: &CopiedProject) -> Vec<String> {
    project.original().into_iter().filter(|name| name.contains("recount-apply")).collect()
}

#[test]
fn a_folder_that_becomes_a_link_after_the_check_is_not_followed() {
    for target in ["outside", ".git"] {
        let project = CopiedProject::make();
        std::fs::create_dir_all(project.source.join(".git")).unwrap();
        std::fs::write(project.source.join(".git/in"), "in").unwrap();
        let outside = project.setup.folder.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("in"), "in").unwrap();
        std::fs::write(project.copy.join("d/in"), "of the run").unwrap();
        std::fs::write(project.copy.join("d/config"), "of the run").unwrap();
        let judged = judged(&project);
        let to = if target == ".git" { project.source.join(".git") } else { outside };
        std::fs::remove_dir_all(project.source.join("d")).unwrap();
        symlink(&to, project.source.join("d")).unwrap();
        let error = write(&project, &judged).unwrap_err();
        assert!(matches!(error, apply::NotWritten::Changed(_)), "{target}: {error:?}");
        assert_eq!(std::fs::read(to.join("in")).unwrap(), b"in", "{target}");
        assert!(!to.join("config").exists(), "{target}");
        assert!(leftovers(&project).is_empty(), "{target}");
    }
}

#[test]
fn links_in_the_copy_are_neither_applied_through_nor_shown() {
    let project = CopiedProject::make();
    let outside = project.setup.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("in"), "of the run").unwrap();
    std::fs::write(project.copy.join("d/in"), "of the run").unwrap();
    let judged = judged(&project);
    std::fs::remove_dir_all(project.copy.join("d")).unwrap();
    symlink(&outside, project.copy.join("d")).unwrap();
    assert!(matches!(write(&project, &judged), Err(apply::NotWritten::Changed(_))));
    assert_eq!(std::fs::read(project.source.join("d/in")).unwrap(), b"in");
    let (diff, _) = changes::full_diff(&project.copy, &project.source, &judged);
    assert!(!String::from_utf8(diff).unwrap().contains("+of the run"));
}

#[test]
fn content_that_was_not_checked_is_not_written() {
    for (what, meddle) in [
        ("bytes", &(|at: &Path| std::fs::write(at.join("a"), "six\n").unwrap()) as &dyn Fn(&Path)),
        ("mode", &|at| {
            std::fs::set_permissions(at.join("a"), std::fs::Permissions::from_mode(0o777)).unwrap();
        }),
        ("link", &|at| {
            std::fs::remove_file(at.join("link")).unwrap();
            symlink("gone", at.join("link")).unwrap();
        }),
        ("kind", &|at| {
            std::fs::remove_dir_all(at.join("new")).unwrap();
            std::fs::write(at.join("new"), "a file").unwrap();
        }),
        ("deleted", &|at| std::fs::write(at.join("gone"), "x").unwrap()),
    ] {
        let project = CopiedProject::make();
        project.change();
        let before = project.original();
        let judged = judged(&project);
        meddle(&project.copy);
        let error = write(&project, &judged).unwrap_err();
        assert!(matches!(error, apply::NotWritten::Changed(_)), "{what}: {error:?}");
        assert_eq!(project.original(), before, "{what}");
    }
}

#[test]
fn a_file_that_already_equals_the_copy_counts_as_applied() {
    let project = CopiedProject::make();
    for folder in [&project.copy, &project.source] {
        std::fs::write(folder.join("a"), "longer than before").unwrap();
    }
    assert_eq!(listed(&project.changes()), [("a".to_owned(), ChangeKind::Changed, ChangeState::Applied)]);
    assert_eq!(project.apply(None).unwrap().count, 1);
}

#[test]
fn a_git_folder_with_another_name_is_not_written_to() {
    let setup = setup();
    let source = setup.workspaces.allowed[0].join("project");
    for folder in ["src/module", "kept/hooks", "+kept"] {
        std::fs::create_dir_all(source.join(folder)).unwrap();
    }
    std::fs::write(source.join(".git"), "gitdir: ./kept/\n").unwrap();
    std::fs::write(source.join("src/module/.git"), "gitdir: ../../+kept\n").unwrap();
    let copy = setup.workspaces.tree("lone");
    setup.workspaces.prepare(CLONE, &copy, Some(&source), false, run()).unwrap();
    let project = CopiedProject { setup, source, copy };
    for hook in ["kept/hooks/post-commit", "+kept/config", "kept2"] {
        std::fs::write(project.copy.join(hook), "x").unwrap();
    }
    // The current content of the copy's `.git` does not count.
    std::fs::write(project.copy.join(".git"), "gitdir: kept2\n").unwrap();
    project.apply(None).unwrap();
    assert!(
        !project.source.join("kept/hooks/post-commit").exists()
            && !project.source.join("+kept/config").exists()
    );
    assert!(project.source.join("kept2").exists());
}

#[test]
fn files_keep_their_owner_and_new_ones_get_that_of_their_folder() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only the superuser gives files away; there is nothing to be seen here");
        return;
    }
    let project = CopiedProject::make();
    for (name, owner) in [("", 1001), ("a", 1002), ("link", 1003), ("d", 1004), ("d/in", 1004)] {
        std::os::unix::fs::lchown(project.source.join(name), Some(owner), Some(owner + 1000)).unwrap();
    }
    std::fs::write(project.copy.join("a"), "two\n").unwrap();
    std::fs::remove_file(project.copy.join("link")).unwrap();
    symlink("bytes", project.copy.join("link")).unwrap();
    std::fs::write(project.copy.join("d/more"), "more").unwrap();
    std::fs::create_dir_all(project.copy.join("new/deep")).unwrap();
    std::fs::write(project.copy.join("new/deep/file"), "new").unwrap();
    project.apply(None).unwrap();
    let owners = ["a", "link", "d/more", "new", "new/deep", "new/deep/file"].map(|name| {
        let about = project.source.join(name).symlink_metadata().unwrap();
        (name, about.uid(), about.gid())
    });
    assert_eq!(
        owners,
        [
            ("a", 1002, 2002),
            ("link", 1003, 2003),
            ("d/more", 1004, 2004),
            ("new", 1001, 2001),
            ("new/deep", 1001, 2001),
            ("new/deep/file", 1001, 2001),
        ]
    );
}

#[test]
fn a_stage_is_neither_copied_nor_a_change() {
    let setup = setup();
    let source = setup.workspaces.allowed[0].join("project");
    let stage = ".recount-apply-0123456789abcdef0123456789abcdef";
    for at in [source.join(stage), source.join("src").join(stage)] {
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("old-0"), "x").unwrap();
    }
    let copy = setup.workspaces.tree("lone");
    setup.workspaces.prepare(CLONE, &copy, Some(&source), false, run()).unwrap();
    assert!(!copy.join(stage).exists() && !copy.join("src").join(stage).exists());
    let project = CopiedProject { setup, source, copy };
    std::fs::create_dir(project.copy.join(stage)).unwrap();
    assert_eq!(project.changes().count, 0);
}

/// Where an apply is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutPoint {
    Staged,
    Halfway,
    Made,
    Settled,
}

/// The stage that is left then.
const CUT_OFF: &str = ".recount-apply-00000000000000000000000000000005";

/// Applies up to that point and leaves everything as a crash would.
fn cut_off(project: &CopiedProject, at: CutPoint) {
    let judged = judged(project);
    let changes: Vec<_> = judged.iter().collect();
    let original = folder::Folder::open_real(&project.source).unwrap();
    let copy = folder::Folder::open(&project.copy).unwrap();
    let mut stage = stage::Stage::create(&original, 5).unwrap();
    apply::stage_all(&mut stage, apply::NewContent::Copy(&copy, &TreeResult::new()), &changes).unwrap();
    match at {
        CutPoint::Staged => {}
        CutPoint::Halfway => {
            std::fs::write(project.source.join("new"), "in the way").unwrap();
            apply::place_all(&stage, &changes).unwrap_err();
            std::fs::remove_file(project.source.join("new")).unwrap();
        }
        CutPoint::Made => apply::place_all(&stage, &changes).unwrap(),
        CutPoint::Settled => {
            apply::place_all(&stage, &changes).unwrap();
            stage.mark_applied().unwrap();
        }
    }
}

#[test]
fn an_interrupted_apply_is_undone_by_the_next() {
    for (at, put_back) in
        [(CutPoint::Staged, 0), (CutPoint::Halfway, 7), (CutPoint::Made, 7), (CutPoint::Settled, 0)]
    {
        let plain = CopiedProject::make();
        plain.change();
        plain.apply(None).unwrap();
        let project = CopiedProject::make();
        project.change();
        cut_off(&project, at);
        assert!(!leftovers(&project).is_empty(), "{at:?}");
        assert_eq!(project.apply(None).unwrap().put_back, put_back, "{at:?}");
        assert_eq!(project.original(), plain.original(), "{at:?}");
    }
}

#[test]
fn an_undo_removes_only_placed_files() {
    // A person put a file of their own at the path of a new one.
    let project = CopiedProject::make();
    project.change();
    cut_off(&project, CutPoint::Made);
    std::fs::remove_file(project.source.join("new/deep/file")).unwrap();
    std::fs::write(project.source.join("new/deep/file"), "mine").unwrap();
    let error = project.apply(None).unwrap_err();
    assert_eq!(error.code, Code::ApplyConflict, "{error}");
    assert_eq!(std::fs::read(project.source.join("new/deep/file")).unwrap(), b"mine");
    assert_eq!(std::fs::read(project.source.join("a")).unwrap(), b"one\n", "all else is back");
    assert!(leftovers(&project).is_empty());
    // The same at the path of a replaced one: its file is kept until the path is free.
    let project = CopiedProject::make();
    std::fs::write(project.copy.join("a"), "two\n").unwrap();
    cut_off(&project, CutPoint::Made);
    std::fs::write(project.source.join("a"), "mine").unwrap();
    let error = project.apply(None).unwrap_err();
    assert!(
        error.message.contains("in use again: a;") && error.message.contains(".recount-apply-"),
        "{error}"
    );
    assert_eq!(std::fs::read(project.source.join("a")).unwrap(), b"mine");
    std::fs::remove_file(project.source.join("a")).unwrap();
    assert_eq!(project.apply(None).unwrap().put_back, 1);
    assert_eq!(std::fs::read(project.source.join("a")).unwrap(), b"two\n");
    assert!(leftovers(&project).is_empty());
}

/// A failed marking may leave the mark. With it the next apply would delete the files that were not restored.
#[test]
fn replaced_files_survive_a_failed_marking_and_a_partial_undo() {
    let project = CopiedProject::make();
    std::fs::write(project.copy.join("a"), "two\n").unwrap();
    let judged = judged(&project);
    let changes: Vec<_> = judged.iter().collect();
    let original = folder::Folder::open_real(&project.source).unwrap();
    let copy = folder::Folder::open(&project.copy).unwrap();
    let mut stage = stage::Stage::create(&original, 5).unwrap();
    apply::stage_all(&mut stage, apply::NewContent::Copy(&copy, &TreeResult::new()), &changes).unwrap();
    apply::place_all(&stage, &changes).unwrap();
    stage.mark_applied().unwrap();
    std::fs::remove_file(project.source.join("a")).unwrap();
    std::fs::write(project.source.join("a"), "mine").unwrap();
    let undone = stage.undo().unwrap();
    assert_eq!((undone.restored, undone.not_restored), (0, vec![PathBuf::from("a")]));
    let old = project.source.join(&stage.name).join("old-0");
    drop(stage);
    let error = project.apply(None).unwrap_err();
    assert!(error.message.contains("in use again: a;"), "{error}");
    assert_eq!(std::fs::read(&old).unwrap(), b"one\n");
    assert_eq!(std::fs::read(project.source.join("a")).unwrap(), b"mine");
    std::fs::remove_file(project.source.join("a")).unwrap();
    assert_eq!(project.apply(None).unwrap().put_back, 1);
    assert!(leftovers(&project).is_empty());
}

/// A person's file arrived just before the placed one was removed, and another file took its path.
#[test]
fn a_file_removed_by_mistake_stays_until_its_path_is_free() {
    let project = CopiedProject::make();
    std::fs::write(project.copy.join("a"), "two\n").unwrap();
    cut_off(&project, CutPoint::Made);
    let (at, stage) = (project.source.join("a"), project.source.join(CUT_OFF));
    let taken = stage.join("taken-0");
    std::fs::write(&taken, "theirs").unwrap();
    std::fs::write(&at, "another").unwrap();
    for (there, next) in [("another", "theirs"), ("theirs", "one\n")] {
        let error = project.apply(None).unwrap_err();
        assert!(error.message.contains("in use again: a;"), "{next}: {error}");
        assert_eq!(std::fs::read_to_string(&at).unwrap(), there);
        assert_eq!(std::fs::read(stage.join("old-0")).unwrap(), b"one\n");
        assert_eq!(taken.exists(), next == "theirs");
        std::fs::remove_file(&at).unwrap();
        if next == "theirs" {
            // It is moved back before the replaced file is restored.
            project.apply(None).unwrap_err();
        }
    }
    assert_eq!(project.apply(None).unwrap().put_back, 1);
    assert_eq!(std::fs::read(&at).unwrap(), b"two\n");
    assert!(leftovers(&project).is_empty());
}

/// An undo that was interrupted after removing a placed file continues.
#[test]
fn a_removed_placed_file_is_not_restored() {
    let project = CopiedProject::make();
    std::fs::write(project.copy.join("a"), "two\n").unwrap();
    cut_off(&project, CutPoint::Made);
    let stage = project.source.join(CUT_OFF);
    std::fs::rename(project.source.join("a"), stage.join("taken-0")).unwrap();
    assert_eq!(project.apply(None).unwrap().put_back, 1);
    assert_eq!(std::fs::read(project.source.join("a")).unwrap(), b"two\n");
    assert!(leftovers(&project).is_empty());
}

#[test]
fn an_unreadable_stage_is_named_in_the_error() {
    let stage = ".recount-apply-4711";
    for (what, journal) in
        [("none", None), ("another", Some("x")), ("cut", Some("recount apply journal 1\n\x05"))]
    {
        let project = CopiedProject::make();
        std::fs::write(project.copy.join("a"), "two\n").unwrap();
        let at = project.source.join(stage);
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("old-0"), "moved away").unwrap();
        journal.inspect(|text| std::fs::write(at.join("journal"), text).unwrap());
        let error = project.apply(None).unwrap_err();
        assert!(
            error.message.contains(stage) && error.message.contains("delete that folder"),
            "{what}: {error}"
        );
        assert_eq!(std::fs::read(at.join("old-0")).unwrap(), b"moved away", "{what}");
        assert_eq!(std::fs::read(project.source.join("a")).unwrap(), b"one\n", "{what}");
    }
}

#[test]
fn an_apply_of_another_process_is_not_undone() {
    let project = CopiedProject::make();
    project.change();
    let before = project.original();
    let original = folder::Folder::open_real(&project.source).unwrap();
    let stage = stage::Stage::create(&original, 5).unwrap();
    let error = project.apply(None).unwrap_err();
    assert!(error.message.contains("another process"), "{error}");
    stage.remove().unwrap();
    assert_eq!(project.original(), before);
    project.apply(None).unwrap();
}

#[test]
fn git_ignores_a_stage() {
    let project = CopiedProject::make();
    let git = |words: &[&str]| {
        let done =
            std::process::Command::new("git").args(words).current_dir(&project.source).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    git(&["init", "-q"]);
    let before = git(&["status", "--porcelain", "--untracked-files=all"]);
    let original = folder::Folder::open_real(&project.source).unwrap();
    let stage = stage::Stage::create(&original, 5).unwrap();
    std::fs::write(project.source.join(&stage.name).join("old-0"), "x").unwrap();
    assert_eq!(git(&["status", "--porcelain", "--untracked-files=all"]), before);
}

#[test]
fn a_copy_digests_what_was_written_not_the_changed_source() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, text: &str| {
        let path = folder.path().join(name);
        let mut file =
            std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    };
    // The blocks were shared with the earlier source; by now it has other content.
    let (source, written) = (open("source", "another, and longer"), open("written", "one thing"));
    let (length, digest, took) = copy::fill(&source, &written, true, u64::MAX).unwrap().unwrap();
    assert_eq!((length, digest), base::digest(&written).unwrap());
    assert_eq!(took, 9);
    let (length, digest, _) = copy::fill(&source, &written, false, u64::MAX).unwrap().unwrap();
    assert_eq!((length, digest), base::digest(&written).unwrap());
    assert_eq!(copy::fill(&source, &written, false, 3).unwrap(), None);
    // A file that was truncated while it was read.
    let (length, digest) = base::blocks(&source, 100_000, |_, _| Ok(())).unwrap();
    assert_eq!((length, digest), base::digest(&source).unwrap());
}

/// A copy of a prepared folder.
fn copy_of(prepare: impl Fn(&Path)) -> CopiedProject {
    let setup = setup();
    let source = setup.workspaces.allowed[0].join("project");
    prepare(&source);
    let copy = setup.workspaces.tree("lone");
    setup.workspaces.prepare(CLONE, &copy, Some(&source), false, run()).unwrap();
    CopiedProject { setup, source, copy }
}

#[test]
fn a_git_folder_behind_a_link_is_not_written_to_and_the_link_stays() {
    let project = copy_of(|source| {
        for folder in ["gitmeta/hooks", "behind/hooks", "real/in/hooks", "src/a", "src/b", "src/c"] {
            std::fs::create_dir_all(source.join(folder)).unwrap();
        }
        symlink("gitmeta", source.join(".git")).unwrap();
        // A link to a file that names one, and one that leads through a link.
        std::fs::write(source.join("named"), "gitdir: ../../behind\n").unwrap();
        symlink("../../named", source.join("src/a/.git")).unwrap();
        symlink("real", source.join("way")).unwrap();
        std::fs::write(source.join("src/b/.git"), "gitdir: ../../way/in\n").unwrap();
        std::fs::write(source.join("src/c/.git"), "gitdir: /nowhere/at/all\n").unwrap();
    });
    for hook in ["gitmeta/hooks/pre-commit", "behind/hooks/pre-commit", "real/in/hooks/pre-commit"] {
        std::fs::write(project.copy.join(hook), "x").unwrap();
    }
    std::fs::write(project.copy.join("named"), "gitdir: ../../src\n").unwrap();
    std::fs::remove_file(project.copy.join("way")).unwrap();
    symlink("src", project.copy.join("way")).unwrap();
    std::fs::write(project.copy.join("src/plain"), "x").unwrap();
    assert_eq!(listed(&project.changes()), [("src/plain".to_owned(), ChangeKind::Added, ChangeState::Open)]);
    project.apply(None).unwrap();
    assert!(!project.source.join("gitmeta/hooks/pre-commit").exists());
    assert!(project.source.join("src/plain").exists());
}

#[test]
fn a_folder_that_looks_like_a_git_folder_is_not_written_to() {
    let project = copy_of(|source| {
        for folder in ["kept/objects", "kept/refs", "kept/hooks", "half/objects", "tree/hooks", "plain"] {
            std::fs::create_dir_all(source.join(folder)).unwrap();
        }
        for file in ["kept/HEAD", "half/HEAD", "tree/HEAD", "tree/commondir", "plain/HEAD"] {
            std::fs::write(source.join(file), "x").unwrap();
        }
        // An ignored file is not copied, but can still refer to it.
        std::fs::write(source.join(".gitignore"), "vendor/\n").unwrap();
        std::fs::create_dir(source.join("vendor")).unwrap();
        std::fs::write(source.join("vendor/.git"), "gitdir: ../kept\n").unwrap();
    });
    std::fs::write(project.copy.join("kept/hooks/pre-commit"), "x").unwrap();
    std::fs::write(project.copy.join("tree/hooks/pre-commit"), "x").unwrap();
    // The run turns a folder into one, and creates a new one.
    std::fs::create_dir_all(project.copy.join("half/refs")).unwrap();
    for folder in ["made/objects", "made/refs"] {
        std::fs::create_dir_all(project.copy.join(folder)).unwrap();
    }
    std::fs::write(project.copy.join("made/HEAD"), "x").unwrap();
    std::fs::write(project.copy.join("plain/HEAD"), "y").unwrap();
    project.apply(None).unwrap();
    let written = ["kept/hooks/pre-commit", "tree/hooks/pre-commit", "half/refs", "made/HEAD", "made/refs"]
        .map(|name| project.source.join(name).exists());
    assert_eq!(written, [false; 5]);
    assert_eq!(std::fs::read(project.source.join("plain/HEAD")).unwrap(), b"y");
}
