//! Workspace tests with real folders: refusals, copies, and repeated preparation.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use recount_engine::{ApplyTo, ChangeKind, ChangeState, WorkspaceChanges};
use recount_event::family::run::{Queued, RunKind};

use super::*;
use crate::limits;
use crate::patch::TreeResult;

mod applying;
mod merging;
mod restoring;

struct Setup {
    folder: tempfile::TempDir,
    workspaces: Workspaces,
}

fn setup() -> Setup {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("data/workspaces")).unwrap();
    std::fs::create_dir_all(root.join("work/project/src")).unwrap();
    let workspaces = Workspaces {
        home: root.join("data/workspaces"),
        allowed: [root.join("work")].into(),
        forbidden: [root.join("data")].into(),
    };
    Setup { folder, workspaces }
}

fn run() -> RunId {
    RunId::new("01JXMZ00000000000000000000".parse().unwrap())
}

fn settled(setup: &Setup, mode: Option<&str>, source: Option<&str>) -> Result<NewRun, Unacceptable> {
    let mut queued = Queued::new(RunKind::AgentLoop);
    queued.workspace_mode = mode.map(str::to_owned);
    let mut new = NewRun { queued, task: None, session: None, resumed_from: None };
    let mut source = source.map(|path| setup.folder.path().join(path).display().to_string());
    setup.workspaces.assign_folder(&mut new, source.as_mut(), false, || "1".to_owned())?;
    Ok(new)
}

#[test]
fn folders_that_are_not_allowed_are_refused() {
    let setup = setup();
    symlink(setup.folder.path().join("data"), setup.folder.path().join("work/link")).unwrap();
    for (source, expected) in [
        ("data", "data folder"),
        ("work/link", "data folder"),
        ("data/workspaces", "data folder"),
        ("", "data folder"),
        ("work/nothing", "cannot read"),
        ("../..", "data folder"),
    ] {
        let error = settled(&setup, None, Some(source)).unwrap_err();
        assert!(error.message.contains(expected), "{source}: {error}");
    }
    assert!(settled(&setup, Some(IN_PLACE), None).unwrap_err().message.contains("no workspace"));
    assert!(settled(&setup, Some("nowhere"), None).unwrap_err().message.contains("nowhere"));
    let outside = tempfile::tempdir().unwrap();
    let mut path = outside.path().display().to_string();
    let mut new = settled(&setup, None, None).unwrap();
    let error = setup.workspaces.assign_folder(&mut new, Some(&mut path), false, String::new).unwrap_err();
    assert!(error.message.contains("outside"), "{error}");
}

#[test]
fn a_copy_equals_its_source_and_is_made_once() {
    let setup = setup();
    let source = setup.workspaces.allowed[0].join("project");
    std::fs::write(source.join("src/a"), "one").unwrap();
    std::fs::set_permissions(source.join("src/a"), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("src/a", source.join("link")).unwrap();
    let path = setup.workspaces.tree("lone");
    let ready = setup.workspaces.prepare(CLONE, &path, Some(&source), false, run()).unwrap();
    assert_eq!(ready.copied, Some(CopyCounts { files: 2, bytes: 3, folders: 1 }));
    assert_eq!(std::fs::read_link(path.join("link")).unwrap(), Path::new("src/a"));
    assert_eq!(std::fs::metadata(path.join("src/a")).unwrap().permissions().mode() & 0o777, 0o755);
    std::fs::write(path.join("src/a"), "changed").unwrap();
    assert_eq!(setup.workspaces.prepare(CLONE, &path, Some(&source), false, run()).unwrap().copied, None);
    assert_eq!(std::fs::read(path.join("src/a")).unwrap(), b"changed");
    std::fs::remove_dir_all(&path).unwrap();
    let error = setup.workspaces.prepare(CLONE, &path, Some(&source), false, run()).unwrap_err();
    assert_eq!(error.code, "workspace_gone");
    setup.workspaces.remove("lone").unwrap();
    setup.workspaces.remove("lone").unwrap();
}

#[test]
fn an_interrupted_copy_is_made_again() {
    let setup = setup();
    let source = setup.workspaces.allowed[0].join("project");
    std::fs::write(source.join("a"), "one").unwrap();
    let path = setup.workspaces.tree("lone");
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("half"), "of it").unwrap();
    let ready = setup.workspaces.prepare(CLONE, &path, Some(&source), false, run()).unwrap();
    assert_eq!(ready.copied, Some(CopyCounts { files: 1, bytes: 3, folders: 1 }));
    assert!(!path.join("half").exists());
    let unused = Unused { owner: "lone".into(), run: Some(run()) };
    assert_eq!(setup.workspaces.unused(Duration::ZERO).unwrap(), [unused]);
    assert!(setup.workspaces.unused(Duration::from_secs(3600)).unwrap().is_empty());
}

#[test]
fn a_deleted_folder_is_not_a_workspace() {
    let setup = setup();
    let source = setup.workspaces.allowed[0].join("project");
    assert!(
        setup.workspaces.prepare(IN_PLACE, &source, Some(&source), false, run()).unwrap().copied.is_none()
    );
    std::fs::remove_dir_all(&source).unwrap();
    let error = setup.workspaces.prepare(IN_PLACE, &source, Some(&source), false, run()).unwrap_err();
    assert_eq!(error.code, "workspace_gone");
    let odd = setup.workspaces.prepare(CLONE, Path::new("/etc"), None, false, run()).unwrap_err();
    assert_eq!(odd.code, "workspace_gone");
}

/// Creates a file that is long but almost empty.
fn sparse(path: &Path, length: u64, text: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::create(path).unwrap();
    file.set_len(length).unwrap();
    file.write_all_at(text, length - text.len() as u64).unwrap();
}

#[test]
fn holes_stay_holes() {
    use std::os::unix::fs::MetadataExt as _;
    let setup = setup();
    let source = setup.workspaces.allowed[0].join("project");
    sparse(&source.join("image"), 12 << 30, b"end");
    let path = setup.workspaces.tree("lone");
    setup.workspaces.prepare(CLONE, &path, Some(&source), false, run()).unwrap();
    let copied = path.join("image").metadata().unwrap();
    assert_eq!(copied.len(), 12 << 30);
    assert!(copied.blocks() * 512 < 1 << 20, "{} blocks", copied.blocks());
}

#[test]
fn ignored_files_are_not_copied() {
    let setup = setup();
    let source = setup.workspaces.allowed[0].join("project");
    std::fs::write(source.join(".gitignore"), "target/\n*.log\n").unwrap();
    std::fs::create_dir_all(source.join("target/debug")).unwrap();
    for name in ["target/debug/big", "a.log", "src/b.log", "src/c"] {
        std::fs::write(source.join(name), "x").unwrap();
    }
    let path = setup.workspaces.tree("lone");
    setup.workspaces.prepare(CLONE, &path, Some(&source), false, run()).unwrap();
    for (name, is_copied) in [("target", false), ("a.log", false), ("src/b.log", false), ("src/c", true)] {
        assert_eq!(path.join(name).exists(), is_copied, "{name}");
    }
}

#[test]
fn a_refused_copy_leaves_nothing() {
    let setup = setup();
    let source = setup.workspaces.allowed[0].join("project");
    std::fs::write(source.join("a"), "x").unwrap();
    std::fs::create_dir_all(source.join("d/".repeat(limits::WORKSPACE_DEPTH_MAX + 2))).unwrap();
    let path = setup.workspaces.tree("lone");
    let error = setup.workspaces.prepare(CLONE, &path, Some(&source), false, run()).unwrap_err();
    assert_eq!(error.code, "workspace_too_large");
    assert!(!setup.workspaces.home.join("lone").exists(), "{error:?}");
}

/// A project with one entry of each kind, and a copy of it.
struct CopiedProject {
    setup: Setup,
    source: PathBuf,
    copy: PathBuf,
}

impl CopiedProject {
    fn make() -> CopiedProject {
        CopiedProject::make_with(&[])
    }

    fn make_with(more: &[(&str, &[u8])]) -> CopiedProject {
        let setup = setup();
        let source = setup.workspaces.allowed[0].join("project");
        for (name, text) in
            [("a", "one\n"), ("gone", "x"), ("mode", "#!"), ("d/in", "in"), (".gitignore", "out/\n")]
        {
            std::fs::create_dir_all(source.join(name).parent().unwrap()).unwrap();
            std::fs::write(source.join(name), text).unwrap();
        }
        std::fs::write(source.join("bytes"), [0, 1, 2]).unwrap();
        for (name, bytes) in more {
            std::fs::write(source.join(name), bytes).unwrap();
        }
        symlink("a", source.join("link")).unwrap();
        let copy = setup.workspaces.tree("lone");
        setup.workspaces.prepare(CLONE, &copy, Some(&source), false, run()).unwrap();
        CopiedProject { setup, source, copy }
    }

    /// Makes one change of each kind in the copy.
    fn change(&self) {
        let at = |name: &str| self.copy.join(name);
        std::fs::write(at("a"), "two\n").unwrap();
        std::fs::write(at("bytes"), [0, 9]).unwrap();
        std::fs::remove_file(at("gone")).unwrap();
        std::fs::set_permissions(at("mode"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::remove_file(at("link")).unwrap();
        symlink("bytes", at("link")).unwrap();
        std::fs::remove_dir_all(at("d")).unwrap();
        std::fs::write(at("d"), "a file now").unwrap();
        std::fs::create_dir_all(at("new/deep")).unwrap();
        std::fs::write(at("new/deep/file"), "new\n").unwrap();
        std::fs::create_dir_all(at("out")).unwrap();
        std::fs::write(at("out/built"), "x").unwrap();
        std::fs::create_dir_all(at(".git/hooks")).unwrap();
        std::fs::write(at(".git/hooks/pre-commit"), "x").unwrap();
    }

    fn changes(&self) -> WorkspaceChanges {
        self.setup.workspaces.changes(Some(CLONE), &self.copy.display().to_string()).unwrap()
    }

    fn apply(&self, branch: Option<&str>) -> Result<WorkspaceChanges, Unacceptable> {
        self.apply_to(&ApplyTo {
            branch: branch.map(str::to_owned),
            message: "m\n".into(),
            ..ApplyTo::default()
        })
    }

    fn apply_to(&self, to: &ApplyTo) -> Result<WorkspaceChanges, Unacceptable> {
        self.setup.workspaces.apply_changes(Some(CLONE), &self.copy.display().to_string(), to, 7)
    }

    fn compare(&self, base: &Base) -> changes::Comparison {
        let content =
            base_content::BaseContent { workspace_dir: self.copy.parent().unwrap(), source: &self.source };
        changes::Comparison::of(&self.copy, base, &self.source, &content).unwrap()
    }

    /// The content of the original, path by path.
    fn original(&self) -> Vec<String> {
        files_of(&self.source)
    }
}

/// The content of a folder, path by path.
fn files_of(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = entry.path().strip_prefix(root).unwrap().display().to_string();
            let about = entry.metadata().unwrap();
            let what = if about.is_dir() {
                folders.push(entry.path());
                "folder".to_owned()
            } else if about.is_symlink() {
                format!("-> {}", std::fs::read_link(entry.path()).unwrap().display())
            } else {
                format!("{:o} {:?}", about.permissions().mode() & 0o111, std::fs::read(entry.path()).unwrap())
            };
            found.push(format!("{name}: {what}"));
        }
    }
    found.sort();
    found
}

fn listed(changes: &WorkspaceChanges) -> Vec<(String, ChangeKind, ChangeState)> {
    changes.changes.iter().map(|change| (change.path.clone(), change.kind, change.state)).collect()
}

#[test]
fn all_kinds_of_changes_are_applied() {
    let project = CopiedProject::make();
    let before = project.original();
    project.change();
    let changes = project.changes();
    let open = |path: &str, kind| (path.to_owned(), kind, ChangeState::Open);
    assert_eq!(
        listed(&changes),
        [
            open("a", ChangeKind::Changed),
            open("bytes", ChangeKind::Changed),
            open("d", ChangeKind::Changed),
            open("d/in", ChangeKind::Deleted),
            open("gone", ChangeKind::Deleted),
            open("link", ChangeKind::Changed),
            open("mode", ChangeKind::Changed),
            open("new", ChangeKind::Added),
            open("new/deep", ChangeKind::Added),
            open("new/deep/file", ChangeKind::Added),
        ]
    );
    assert_eq!(changes.ignored, 1);
    for part in
        ["-one\n+two\n", "Binary files a/bytes and b/bytes differ", "new mode 100755", "+++ /dev/null"]
    {
        assert!(changes.diff.contains(part), "{part}: {}", changes.diff);
    }
    assert_eq!(project.original(), before, "looking writes nothing");
    project.apply(None).unwrap();
    let expected: Vec<String> = [
        ".gitignore: 0 [111, 117, 116, 47, 10]",
        "a: 0 [116, 119, 111, 10]",
        "bytes: 0 [0, 9]",
        "d: 0 [97, 32, 102, 105, 108, 101, 32, 110, 111, 119]",
        "link: -> bytes",
        "mode: 111 [35, 33]",
        "new/deep/file: 0 [110, 101, 119, 10]",
        "new/deep: folder",
        "new: folder",
        "src: folder",
    ]
    .map(str::to_owned)
    .into();
    assert_eq!(project.original(), expected);
    assert_eq!(project.changes().count, 0);
    // Later changes are compared with the applied state.
    std::fs::write(project.copy.join("a"), "three\n").unwrap();
    project.apply(None).unwrap();
    assert_eq!(std::fs::read(project.source.join("a")).unwrap(), b"three\n");
}

#[test]
fn nothing_is_written_if_the_original_has_changed() {
    for (what, meddle) in [
        ("a", &(|at: &Path| std::fs::write(at.join("a"), "mine").unwrap()) as &dyn Fn(&Path)),
        ("gone", &|at| std::fs::write(at.join("gone"), "mine").unwrap()),
        ("new/deep/file", &|at| {
            std::fs::create_dir_all(at.join("new/deep")).unwrap();
            std::fs::write(at.join("new/deep/file"), "mine").unwrap();
        }),
        ("d", &|at| std::fs::write(at.join("d/more"), "mine").unwrap()),
        ("mode", &|at| std::fs::remove_file(at.join("mode")).unwrap()),
        ("link", &|at| {
            std::fs::remove_file(at.join("link")).unwrap();
            symlink("elsewhere", at.join("link")).unwrap();
        }),
        ("new", &|at| symlink("/tmp", at.join("new")).unwrap()),
    ] {
        let project = CopiedProject::make();
        project.change();
        meddle(&project.source);
        let before = project.original();
        let error = project.apply(None).unwrap_err();
        assert_eq!(error.code, Code::ApplyConflict, "{what}: {error}");
        assert!(error.message.contains(what), "{what}: {error}");
        assert_eq!(project.original(), before, "{what}");
    }
}

#[test]
fn a_partial_write_is_undone() {
    let project = CopiedProject::make();
    project.change();
    let before = project.original();
    let base = Base::read(project.copy.parent().unwrap()).unwrap().unwrap();
    let compared = project.compare(&base);
    // Another process is faster, after the check.
    std::fs::write(project.source.join("new"), "mine").unwrap();
    let open: Vec<_> = compared.changes.iter().filter(|change| change.state == ChangeState::Open).collect();
    assert!(apply::write(&project.copy, &project.source, &open, &TreeResult::new(), 7).is_err());
    std::fs::remove_file(project.source.join("new")).unwrap();
    assert_eq!(project.original(), before);
}

#[test]
fn a_branch_gets_the_changes_and_the_files_stay_unchanged() {
    let git = |folder: &Path, args: &[&str]| {
        let named = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
        let mut command = std::process::Command::new("git");
        let done = command.args(named).args(args).current_dir(folder).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let setup = setup();
    let source = setup.workspaces.allowed[0].join("project");
    std::fs::write(source.join("a"), "one\n").unwrap();
    std::fs::write(source.join("b"), "one\n").unwrap();
    git(&source, &["init", "-q", "-b", "main"]);
    git(&source, &["add", "."]);
    git(&source, &["commit", "-q", "-m", "first"]);
    let marker = setup.folder.path().join("marker");
    git(&source, &["config", "filter.x.clean", &format!("touch {}; cat", marker.display())]);
    std::fs::write(source.join(".git/info/attributes"), "* filter=x\n").unwrap();
    let hook = source.join(".git/hooks/reference-transaction");
    std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = setup.workspaces.tree("lone");
    setup.workspaces.prepare(CLONE, &copy, Some(&source), false, run()).unwrap();
    let project = CopiedProject { setup, source, copy };
    std::fs::write(project.copy.join("a"), "two\n").unwrap();
    std::fs::remove_file(project.copy.join("b")).unwrap();
    std::fs::write(project.copy.join("c"), "new\n").unwrap();
    for bad in ["-x", "a..b", "main"] {
        assert_eq!(project.apply(Some(bad)).unwrap_err().code, Code::WorkspaceRefused, "{bad}");
    }
    let report = project.apply(Some("agent/work")).unwrap();
    assert!(!marker.exists(), "a program of the repository was run");
    std::fs::remove_file(&hook).unwrap();
    std::fs::remove_file(project.source.join(".git/info/attributes")).unwrap();
    let shown = git(&project.source, &["show", "--format=%s", "--name-status", "agent/work"]);
    assert_eq!(shown, "m\n\nM\ta\nD\tb\nA\tc\n");
    assert_eq!(report.commit.unwrap(), git(&project.source, &["rev-parse", "agent/work"]).trim());
    assert_eq!(git(&project.source, &["status", "--porcelain"]), "");
    assert_eq!(git(&project.source, &["branch", "--show-current"]), "main\n");
    // Uncommitted changes would be included.
    std::fs::write(project.copy.join("d"), "new\n").unwrap();
    git(&project.source, &["rm", "-q", "--cached", "a"]);
    let error = project.apply(Some("other")).unwrap_err();
    assert!(error.message.contains("uncommitted changes in a"), "{error}");
}

#[test]
fn only_copies_with_a_source_can_be_applied() {
    let setup = setup();
    let path = setup.workspaces.tree("lone");
    let refused = |mode: &str, path: &Path| {
        setup.workspaces.changes(Some(mode), &path.display().to_string()).unwrap_err()
    };
    assert_eq!(refused(IN_PLACE, &path).code, Code::WorkspaceRefused);
    assert_eq!(refused(CLONE, &path).code, Code::WorkspaceGone);
    assert_eq!(refused(CLONE, Path::new("/etc")).code, Code::WorkspaceGone);
    setup.workspaces.prepare(CLONE, &path, None, false, run()).unwrap();
    assert!(refused(CLONE, &path).message.contains("empty folder"));
}
