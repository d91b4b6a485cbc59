//! Applying: what happens between looking and writing, to owners, to a symbolic link, and after a crash.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use super::*;

/// What the run changed, as it was judged.
fn judged(made: &Copy) -> Vec<changes::Change> {
    let base = Base::read(made.copy.parent().unwrap()).unwrap().unwrap();
    changes::Comparison::of(&made.copy, &base, &made.source).unwrap().changes
}

fn write(made: &Copy, changes: &[changes::Change]) -> Result<(), apply::NotWritten> {
    let changes: Vec<_> = changes.iter().collect();
    apply::write(&made.copy, &made.source, &changes, 7).map(drop)
}

/// Names in the original that applying left there.
fn left(made: &Copy) -> Vec<String> {
    made.original().into_iter().filter(|name| name.contains("recount-apply")).collect()
}

#[test]
fn a_folder_that_becomes_a_link_after_it_was_judged_is_not_written_through() {
    for target in ["outside", ".git"] {
        let made = Copy::make();
        std::fs::create_dir_all(made.source.join(".git")).unwrap();
        std::fs::write(made.source.join(".git/in"), "in").unwrap();
        let outside = made.house.folder.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("in"), "in").unwrap();
        std::fs::write(made.copy.join("d/in"), "of the run").unwrap();
        std::fs::write(made.copy.join("d/config"), "of the run").unwrap();
        let judged = judged(&made);
        let to = if target == ".git" { made.source.join(".git") } else { outside };
        std::fs::remove_dir_all(made.source.join("d")).unwrap();
        symlink(&to, made.source.join("d")).unwrap();
        let no = write(&made, &judged).unwrap_err();
        assert!(matches!(no, apply::NotWritten::Changed(_)), "{target}: {no:?}");
        assert_eq!(std::fs::read(to.join("in")).unwrap(), b"in", "{target}");
        assert!(!to.join("config").exists(), "{target}");
        assert!(left(&made).is_empty(), "{target}");
    }
}

#[test]
fn a_link_in_the_copy_leads_to_nothing_that_is_applied_or_shown() {
    let made = Copy::make();
    let outside = made.house.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("in"), "of the run").unwrap();
    std::fs::write(made.copy.join("d/in"), "of the run").unwrap();
    let judged = judged(&made);
    std::fs::remove_dir_all(made.copy.join("d")).unwrap();
    symlink(&outside, made.copy.join("d")).unwrap();
    assert!(matches!(write(&made, &judged), Err(apply::NotWritten::Changed(_))));
    assert_eq!(std::fs::read(made.source.join("d/in")).unwrap(), b"in");
    let (diff, _) = changes::whole_diff(&made.copy, &made.source, &judged);
    assert!(!String::from_utf8(diff).unwrap().contains("+of the run"));
}

#[test]
fn what_the_copy_holds_by_now_is_not_written_when_it_was_not_judged() {
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
        let made = Copy::make();
        made.change();
        let before = made.original();
        let judged = judged(&made);
        meddle(&made.copy);
        let no = write(&made, &judged).unwrap_err();
        assert!(matches!(no, apply::NotWritten::Changed(_)), "{what}: {no:?}");
        assert_eq!(made.original(), before, "{what}");
    }
}

#[test]
fn a_file_that_is_already_as_the_run_left_it_is_applied_whatever_its_length() {
    let made = Copy::make();
    for folder in [&made.copy, &made.source] {
        std::fs::write(folder.join("a"), "longer than before").unwrap();
    }
    assert_eq!(listed(&made.changes()), [("a".to_owned(), ChangeKind::Changed, ChangeState::Applied)]);
    assert_eq!(made.apply(None).unwrap().count, 1);
}

#[test]
fn git_s_folder_under_another_name_is_not_written_to() {
    let house = house();
    let source = house.workspaces.allowed[0].join("project");
    for folder in ["src/module", "kept/hooks", "+kept"] {
        std::fs::create_dir_all(source.join(folder)).unwrap();
    }
    std::fs::write(source.join(".git"), "gitdir: ./kept/\n").unwrap();
    std::fs::write(source.join("src/module/.git"), "gitdir: ../../+kept\n").unwrap();
    let copy = house.workspaces.tree("lone");
    house.workspaces.ready(CLONE, &copy, Some(&source), false, run()).unwrap();
    let made = Copy { house, source, copy };
    for hook in ["kept/hooks/post-commit", "+kept/config", "kept2"] {
        std::fs::write(made.copy.join(hook), "x").unwrap();
    }
    // What the copy says by now does not count.
    std::fs::write(made.copy.join(".git"), "gitdir: kept2\n").unwrap();
    made.apply(None).unwrap();
    assert!(
        !made.source.join("kept/hooks/post-commit").exists() && !made.source.join("+kept/config").exists()
    );
    assert!(made.source.join("kept2").exists());
}

#[test]
fn files_keep_their_owner_and_new_ones_have_that_of_their_folder() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only the superuser gives files away; there is nothing to be seen here");
        return;
    }
    let made = Copy::make();
    for (name, owner) in [("", 1001), ("a", 1002), ("link", 1003), ("d", 1004), ("d/in", 1004)] {
        std::os::unix::fs::lchown(made.source.join(name), Some(owner), Some(owner + 1000)).unwrap();
    }
    std::fs::write(made.copy.join("a"), "two\n").unwrap();
    std::fs::remove_file(made.copy.join("link")).unwrap();
    symlink("bytes", made.copy.join("link")).unwrap();
    std::fs::write(made.copy.join("d/more"), "more").unwrap();
    std::fs::create_dir_all(made.copy.join("new/deep")).unwrap();
    std::fs::write(made.copy.join("new/deep/file"), "new").unwrap();
    made.apply(None).unwrap();
    let owners = ["a", "link", "d/more", "new", "new/deep", "new/deep/file"].map(|name| {
        let about = made.source.join(name).symlink_metadata().unwrap();
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
fn the_folder_of_an_apply_is_neither_copied_nor_taken_for_a_change() {
    let house = house();
    let source = house.workspaces.allowed[0].join("project");
    let stage = ".recount-apply-0123456789abcdef0123456789abcdef";
    for at in [source.join(stage), source.join("src").join(stage)] {
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("old-0"), "x").unwrap();
    }
    let copy = house.workspaces.tree("lone");
    house.workspaces.ready(CLONE, &copy, Some(&source), false, run()).unwrap();
    assert!(!copy.join(stage).exists() && !copy.join("src").join(stage).exists());
    let made = Copy { house, source, copy };
    std::fs::create_dir(made.copy.join(stage)).unwrap();
    assert_eq!(made.changes().count, 0);
}

/// Where an apply is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Staged,
    Halfway,
    Made,
    Settled,
}

/// The folder that is left then.
const CUT_OFF: &str = ".recount-apply-00000000000000000000000000000005";

/// Applies up to there and leaves everything as it is then, as a crash does.
fn cut_off(made: &Copy, at: Cut) {
    let judged = judged(made);
    let changes: Vec<_> = judged.iter().collect();
    let original = folder::Folder::open_real(&made.source).unwrap();
    let copy = folder::Folder::open(&made.copy).unwrap();
    let mut stage = stage::Stage::create(&original, 5).unwrap();
    apply::stage_all(&mut stage, apply::NewContent::Copy(&copy), &changes).unwrap();
    match at {
        Cut::Staged => {}
        Cut::Halfway => {
            std::fs::write(made.source.join("new"), "in the way").unwrap();
            apply::make(&stage, &changes).unwrap_err();
            std::fs::remove_file(made.source.join("new")).unwrap();
        }
        Cut::Made => apply::make(&stage, &changes).unwrap(),
        Cut::Settled => {
            apply::make(&stage, &changes).unwrap();
            stage.settle().unwrap();
        }
    }
}

#[test]
fn an_apply_that_was_cut_off_is_undone_by_the_next() {
    for (at, put_back) in [(Cut::Staged, 0), (Cut::Halfway, 7), (Cut::Made, 7), (Cut::Settled, 0)] {
        let plain = Copy::make();
        plain.change();
        plain.apply(None).unwrap();
        let made = Copy::make();
        made.change();
        cut_off(&made, at);
        assert!(!left(&made).is_empty(), "{at:?}");
        assert_eq!(made.apply(None).unwrap().put_back, put_back, "{at:?}");
        assert_eq!(made.original(), plain.original(), "{at:?}");
    }
}

#[test]
fn undoing_takes_away_only_what_was_placed() {
    // A person put a file of their own in the place of one that was new.
    let made = Copy::make();
    made.change();
    cut_off(&made, Cut::Made);
    std::fs::remove_file(made.source.join("new/deep/file")).unwrap();
    std::fs::write(made.source.join("new/deep/file"), "mine").unwrap();
    let no = made.apply(None).unwrap_err();
    assert_eq!(no.code, Code::ApplyConflict, "{no}");
    assert_eq!(std::fs::read(made.source.join("new/deep/file")).unwrap(), b"mine");
    assert_eq!(std::fs::read(made.source.join("a")).unwrap(), b"one\n", "all else is back");
    assert!(left(&made).is_empty());
    // And in the place of one that was replaced: its file is kept until there is room for it.
    let made = Copy::make();
    std::fs::write(made.copy.join("a"), "two\n").unwrap();
    cut_off(&made, Cut::Made);
    std::fs::write(made.source.join("a"), "mine").unwrap();
    let no = made.apply(None).unwrap_err();
    assert!(no.message.contains("belong: a;") && no.message.contains(".recount-apply-"), "{no}");
    assert_eq!(std::fs::read(made.source.join("a")).unwrap(), b"mine");
    std::fs::remove_file(made.source.join("a")).unwrap();
    assert_eq!(made.apply(None).unwrap().put_back, 1);
    assert_eq!(std::fs::read(made.source.join("a")).unwrap(), b"two\n");
    assert!(left(&made).is_empty());
}

/// A settling that fails may leave its mark. With it the next apply would remove what could not be put back.
#[test]
fn what_was_moved_away_is_kept_where_settling_failed_and_undoing_left_something() {
    let made = Copy::make();
    std::fs::write(made.copy.join("a"), "two\n").unwrap();
    let judged = judged(&made);
    let changes: Vec<_> = judged.iter().collect();
    let original = folder::Folder::open_real(&made.source).unwrap();
    let copy = folder::Folder::open(&made.copy).unwrap();
    let mut stage = stage::Stage::create(&original, 5).unwrap();
    apply::stage_all(&mut stage, apply::NewContent::Copy(&copy), &changes).unwrap();
    apply::make(&stage, &changes).unwrap();
    stage.settle().unwrap();
    std::fs::remove_file(made.source.join("a")).unwrap();
    std::fs::write(made.source.join("a"), "mine").unwrap();
    let undone = stage.undo().unwrap();
    assert_eq!((undone.back, undone.left), (0, vec![PathBuf::from("a")]));
    let old = made.source.join(&stage.name).join("old-0");
    drop(stage);
    let no = made.apply(None).unwrap_err();
    assert!(no.message.contains("belong: a;"), "{no}");
    assert_eq!(std::fs::read(&old).unwrap(), b"one\n");
    assert_eq!(std::fs::read(made.source.join("a")).unwrap(), b"mine");
    std::fs::remove_file(made.source.join("a")).unwrap();
    assert_eq!(made.apply(None).unwrap().put_back, 1);
    assert!(left(&made).is_empty());
}

/// A person's file came to a place just before it was taken back, and another one took its place.
#[test]
fn a_file_that_was_taken_away_by_mistake_stays_until_its_place_is_free() {
    let made = Copy::make();
    std::fs::write(made.copy.join("a"), "two\n").unwrap();
    cut_off(&made, Cut::Made);
    let (at, stage) = (made.source.join("a"), made.source.join(CUT_OFF));
    let taken = stage.join("taken-0");
    std::fs::write(&taken, "theirs").unwrap();
    std::fs::write(&at, "another").unwrap();
    for (there, next) in [("another", "theirs"), ("theirs", "one\n")] {
        let no = made.apply(None).unwrap_err();
        assert!(no.message.contains("belong: a;"), "{next}: {no}");
        assert_eq!(std::fs::read_to_string(&at).unwrap(), there);
        assert_eq!(std::fs::read(stage.join("old-0")).unwrap(), b"one\n");
        assert_eq!(taken.exists(), next == "theirs");
        std::fs::remove_file(&at).unwrap();
        if next == "theirs" {
            // It returns before what the apply replaced does.
            made.apply(None).unwrap_err();
        }
    }
    assert_eq!(made.apply(None).unwrap().put_back, 1);
    assert_eq!(std::fs::read(&at).unwrap(), b"two\n");
    assert!(left(&made).is_empty());
}

/// What was cut off right behind taking a placed file away is gone on with.
#[test]
fn a_placed_file_that_was_taken_away_is_not_put_back() {
    let made = Copy::make();
    std::fs::write(made.copy.join("a"), "two\n").unwrap();
    cut_off(&made, Cut::Made);
    let stage = made.source.join(CUT_OFF);
    std::fs::rename(made.source.join("a"), stage.join("taken-0")).unwrap();
    assert_eq!(made.apply(None).unwrap().put_back, 1);
    assert_eq!(std::fs::read(made.source.join("a")).unwrap(), b"two\n");
    assert!(left(&made).is_empty());
}

#[test]
fn a_folder_of_an_apply_that_cannot_be_understood_is_named() {
    let stage = ".recount-apply-4711";
    for (what, journal) in
        [("none", None), ("another", Some("x")), ("cut", Some("recount apply journal 1\n\x05"))]
    {
        let made = Copy::make();
        std::fs::write(made.copy.join("a"), "two\n").unwrap();
        let at = made.source.join(stage);
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("old-0"), "moved away").unwrap();
        journal.inspect(|text| std::fs::write(at.join("journal"), text).unwrap());
        let no = made.apply(None).unwrap_err();
        assert!(no.message.contains(stage) && no.message.contains("remove that folder"), "{what}: {no}");
        assert_eq!(std::fs::read(at.join("old-0")).unwrap(), b"moved away", "{what}");
        assert_eq!(std::fs::read(made.source.join("a")).unwrap(), b"one\n", "{what}");
    }
}

#[test]
fn an_apply_of_another_process_is_not_disturbed() {
    let made = Copy::make();
    made.change();
    let before = made.original();
    let original = folder::Folder::open_real(&made.source).unwrap();
    let stage = stage::Stage::create(&original, 5).unwrap();
    let no = made.apply(None).unwrap_err();
    assert!(no.message.contains("another process"), "{no}");
    stage.clear().unwrap();
    assert_eq!(made.original(), before);
    made.apply(None).unwrap();
}

#[test]
fn git_sees_nothing_of_an_apply() {
    let made = Copy::make();
    let git = |words: &[&str]| {
        let done = std::process::Command::new("git").args(words).current_dir(&made.source).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    git(&["init", "-q"]);
    let before = git(&["status", "--porcelain", "--untracked-files=all"]);
    let original = folder::Folder::open_real(&made.source).unwrap();
    let stage = stage::Stage::create(&original, 5).unwrap();
    std::fs::write(made.source.join(&stage.name).join("old-0"), "x").unwrap();
    assert_eq!(git(&["status", "--porcelain", "--untracked-files=all"]), before);
}

#[test]
fn a_copy_knows_what_was_written_and_not_what_the_source_became() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, text: &str| {
        let path = folder.path().join(name);
        let mut file =
            std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    };
    // Blocks were shared when the source said one thing; by now it says another.
    let (source, written) = (open("source", "another, and longer"), open("written", "one thing"));
    let (length, digest, took) = copy::fill(&source, &written, true, u64::MAX).unwrap().unwrap();
    assert_eq!((length, digest), base::digest(&written).unwrap());
    assert_eq!(took, 9);
    let (length, digest, _) = copy::fill(&source, &written, false, u64::MAX).unwrap().unwrap();
    assert_eq!((length, digest), base::digest(&written).unwrap());
    assert_eq!(copy::fill(&source, &written, false, 3).unwrap(), None);
    // A file that became shorter while it was read.
    let (length, digest) = base::blocks(&source, 100_000, |_, _| Ok(())).unwrap();
    assert_eq!((length, digest), base::digest(&source).unwrap());
}

/// A copy of a folder that was prepared.
fn copy_of(prepare: impl Fn(&Path)) -> Copy {
    let house = house();
    let source = house.workspaces.allowed[0].join("project");
    prepare(&source);
    let copy = house.workspaces.tree("lone");
    house.workspaces.ready(CLONE, &copy, Some(&source), false, run()).unwrap();
    Copy { house, source, copy }
}

#[test]
fn git_s_folder_behind_a_link_is_not_written_to_nor_is_the_link_led_elsewhere() {
    let made = copy_of(|source| {
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
        std::fs::write(made.copy.join(hook), "x").unwrap();
    }
    std::fs::write(made.copy.join("named"), "gitdir: ../../src\n").unwrap();
    std::fs::remove_file(made.copy.join("way")).unwrap();
    symlink("src", made.copy.join("way")).unwrap();
    std::fs::write(made.copy.join("src/plain"), "x").unwrap();
    assert_eq!(listed(&made.changes()), [("src/plain".to_owned(), ChangeKind::Added, ChangeState::Open)]);
    made.apply(None).unwrap();
    assert!(!made.source.join("gitmeta/hooks/pre-commit").exists());
    assert!(made.source.join("src/plain").exists());
}

#[test]
fn a_folder_that_git_would_take_for_its_own_is_not_written_to() {
    let made = copy_of(|source| {
        for folder in ["kept/objects", "kept/refs", "kept/hooks", "half/objects", "tree/hooks", "plain"] {
            std::fs::create_dir_all(source.join(folder)).unwrap();
        }
        for file in ["kept/HEAD", "half/HEAD", "tree/HEAD", "tree/commondir", "plain/HEAD"] {
            std::fs::write(source.join(file), "x").unwrap();
        }
        // What is ignored is not copied, and may be what names it.
        std::fs::write(source.join(".gitignore"), "vendor/\n").unwrap();
        std::fs::create_dir(source.join("vendor")).unwrap();
        std::fs::write(source.join("vendor/.git"), "gitdir: ../kept\n").unwrap();
    });
    std::fs::write(made.copy.join("kept/hooks/pre-commit"), "x").unwrap();
    std::fs::write(made.copy.join("tree/hooks/pre-commit"), "x").unwrap();
    // The run makes one of what was none, and a new one.
    std::fs::create_dir_all(made.copy.join("half/refs")).unwrap();
    for folder in ["made/objects", "made/refs"] {
        std::fs::create_dir_all(made.copy.join(folder)).unwrap();
    }
    std::fs::write(made.copy.join("made/HEAD"), "x").unwrap();
    std::fs::write(made.copy.join("plain/HEAD"), "y").unwrap();
    made.apply(None).unwrap();
    let written = ["kept/hooks/pre-commit", "tree/hooks/pre-commit", "half/refs", "made/HEAD", "made/refs"]
        .map(|name| made.source.join(name).exists());
    assert_eq!(written, [false; 5]);
    assert_eq!(std::fs::read(made.source.join("plain/HEAD")).unwrap(), b"y");
}
