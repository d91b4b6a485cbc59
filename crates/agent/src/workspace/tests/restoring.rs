//! Snapshots of a copy, and new copies with their files.

use recount_engine::{FilesCheck, FilesFrom};
use recount_event::{SessionId, TaskId};

use super::*;
use crate::workspace::limits;

impl CopiedProject {
    fn record(&self, name: &str) {
        self.setup.workspaces.record_files(&self.copy, name).unwrap();
    }

    fn files_from(&self, name: &str) -> FilesFrom {
        FilesFrom {
            run_id: run(),
            sequence: 7,
            workspace_path: self.copy.display().to_string(),
            snapshot: name.to_owned(),
        }
    }

    fn check(&self, name: &str) -> FilesCheck {
        self.setup.workspaces.check_files(Some(CLONE), &self.files_from(name)).unwrap()
    }

    /// A new copy with the files of a snapshot.
    fn restore(&self, name: &str) -> Result<PathBuf, WorkspaceError> {
        let copy = self.setup.workspaces.tree(&format!("of_{name}"));
        self.setup.workspaces.prepare_restored(&copy, &self.files_from(name), run())?;
        Ok(copy)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.copy.join(name), text).unwrap();
    }

    fn changed_paths(&self, copy: &Path) -> Vec<String> {
        let changes = self.setup.workspaces.changes(Some(CLONE), &copy.display().to_string()).unwrap();
        changes.changes.into_iter().map(|change| change.path).collect()
    }
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_snapshot_restores_every_kind_of_change_in_a_new_copy() {
    let project = CopiedProject::make();
    let at_start = files_of(&project.copy);
    project.record("start");
    project.change();
    let at_checkpoint = files_of(&project.copy);
    let changed = project.changed_paths(&project.copy);
    project.record("ckpt_1");
    assert_eq!(project.check("ckpt_1"), FilesCheck::Current);
    // More changes, of each kind again.
    project.write("a", "three\n");
    std::fs::remove_dir_all(project.copy.join("new")).unwrap();
    project.write("new", "a file now");
    std::fs::remove_file(project.copy.join("d")).unwrap();
    std::fs::create_dir_all(project.copy.join("d/deeper")).unwrap();
    project.write("d/deeper/file", "x");
    std::fs::remove_file(project.copy.join("link")).unwrap();
    std::fs::create_dir(project.copy.join("link")).unwrap();
    std::fs::set_permissions(project.copy.join("mode"), std::fs::Permissions::from_mode(0o644)).unwrap();
    project.write(".git/hooks/pre-commit", "y");
    project.write(".git/HEAD", "y");
    let now = files_of(&project.copy);
    assert_eq!(project.check("start"), FilesCheck::Restorable);
    assert_eq!(project.check("ckpt_1"), FilesCheck::Restorable);
    let copy = project.restore("ckpt_1").unwrap();
    assert_eq!(files_of(&copy), at_checkpoint);
    assert_eq!(project.changed_paths(&copy), changed, "each copy has its own changes");
    // Ignored files are not recorded; they stay as they are.
    let mut expected = at_start;
    expected.extend(at_checkpoint.into_iter().filter(|line| line.starts_with("out")));
    expected.sort();
    let copy = project.restore("start").unwrap();
    assert_eq!(files_of(&copy), expected);
    assert_eq!(project.changed_paths(&copy), [""; 0]);
    assert_eq!(files_of(&project.copy), now, "the earlier copy is untouched");
}

#[test]
fn a_restored_copy_applies_its_own_changes_after_the_earlier_one_was_applied() {
    let project = CopiedProject::make();
    project.write("a", "two\n");
    project.record("ckpt_1");
    project.write("mode", "y");
    project.apply(None).unwrap();
    project.record("ckpt_2");
    let copy = project.restore("ckpt_1").unwrap();
    assert_eq!((read(copy.join("a")), read(copy.join("mode"))), ("two\n".into(), "#!".into()));
    std::fs::write(copy.join("d/in"), "new").unwrap();
    let path = copy.display().to_string();
    let changes = project.setup.workspaces.changes(Some(CLONE), &path).unwrap();
    let expected = [
        ("a".to_owned(), ChangeKind::Changed, ChangeState::Applied),
        ("d/in".to_owned(), ChangeKind::Changed, ChangeState::Open),
    ];
    assert_eq!(listed(&changes), expected);
    project.setup.workspaces.apply_changes(Some(CLONE), &path, &ApplyTo::default(), 8).unwrap();
    assert_eq!(read(project.source.join("mode")), "y", "the applied change of the earlier run stays");
}

#[test]
fn what_a_run_replaced_is_kept_while_the_folder_still_has_it() {
    let project = CopiedProject::make();
    project.record("start");
    std::fs::remove_file(project.copy.join("mode")).unwrap();
    project.write("a", "two\n");
    project.record("ckpt_1");
    for name in ["mode", "a"] {
        std::fs::write(project.source.join(name), "of a person").unwrap();
    }
    let copy = project.restore("start").unwrap();
    assert_eq!((read(copy.join("mode")), read(copy.join("a"))), ("#!".into(), "one\n".into()));
    // A restored copy can be a source again.
    project.setup.workspaces.record_files(&copy, "ckpt_3").unwrap();
    std::fs::write(copy.join("a"), "other").unwrap();
    let from = FilesFrom { workspace_path: copy.display().to_string(), ..project.files_from("ckpt_3") };
    let again = project.setup.workspaces.tree("again");
    project.setup.workspaces.prepare_restored(&again, &from, run()).unwrap();
    assert_eq!(read(again.join("a")), "one\n");
}

#[test]
fn files_that_were_not_kept_are_named() {
    let project = CopiedProject::make();
    let big = project.copy.join("big");
    std::fs::File::create(&big).unwrap().set_len(limits::SNAPSHOT_FILE_BYTES_MAX + 1).unwrap();
    project.record("ckpt_1");
    assert_eq!(project.check("ckpt_1"), FilesCheck::Current, "the copy still has it");
    std::fs::remove_file(&big).unwrap();
    let length = limits::SNAPSHOT_FILE_BYTES_MAX + 1;
    let FilesCheck::NotRestorable(why) = project.check("ckpt_1") else { panic!("it is restorable") };
    assert!(why.contains(&format!("big ({length} bytes")), "{why}");
    let error = project.restore("ckpt_1").unwrap_err();
    assert_eq!(error.code, "files_not_restorable", "{error:?}");
    assert!(!project.setup.workspaces.home.join("of_ckpt_1").exists());
}

#[test]
fn files_that_were_not_recorded_are_refused_with_the_reason() {
    let project = CopiedProject::make();
    for (mode, path, expected) in [
        (CLONE, project.copy.clone(), "not recorded"),
        (IN_PLACE, project.source.clone(), "itself"),
        (CLONE, project.setup.workspaces.tree("other"), "no longer exists"),
    ] {
        let from = FilesFrom { workspace_path: path.display().to_string(), ..project.files_from("ckpt_1") };
        let check = project.setup.workspaces.check_files(Some(mode), &from).unwrap();
        assert!(matches!(&check, FilesCheck::NotRecorded(why) if why.contains(expected)), "{check:?}");
    }
    for name in ["", "..", "../base", "index.files"] {
        assert!(project.setup.workspaces.record_files(&project.copy, name).is_err(), "{name:?}");
    }
    // A damaged snapshot is not used.
    project.record("ckpt_1");
    let at = project.copy.with_file_name("snapshots").join("ckpt_1");
    let mut bytes = std::fs::read(&at).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&at, bytes).unwrap();
    assert!(matches!(project.check("ckpt_1"), FilesCheck::NotRecorded(_)));
}

#[test]
fn a_change_that_keeps_length_and_time_is_recorded() {
    let project = CopiedProject::make();
    project.record("start");
    let at = project.copy.join("a");
    let time = at.metadata().unwrap().modified().unwrap();
    project.write("a", "six\n");
    std::fs::File::options().write(true).open(&at).unwrap().set_modified(time).unwrap();
    project.record("ckpt_1");
    project.write("a", "two\n");
    assert_eq!(read(project.restore("ckpt_1").unwrap().join("a")), "six\n");
}

#[test]
fn damaged_content_is_not_restored() {
    let project = CopiedProject::make();
    project.write("a", "two\n");
    project.record("ckpt_1");
    project.write("a", "three\n");
    for file in std::fs::read_dir(project.copy.with_file_name("content")).unwrap() {
        let at = file.unwrap().path();
        if std::fs::read(&at).unwrap() == b"two\n" {
            std::fs::write(at, "six\n").unwrap();
        }
    }
    let error = project.restore("ckpt_1").unwrap_err();
    assert!(error.message.contains("not kept of a"), "{error:?}");
}

#[test]
fn the_oldest_snapshots_are_deleted() {
    let project = CopiedProject::make();
    let names: Vec<String> = (0..=limits::SNAPSHOTS_MAX).map(|number| format!("ckpt_{number:04}")).collect();
    for (number, name) in names.iter().enumerate() {
        if number < 3 {
            project.write("a", &format!("{number}\n"));
        }
        project.record(name);
    }
    assert!(matches!(project.check(&names[0]), FilesCheck::NotRecorded(_)));
    assert_eq!(project.check(names.last().unwrap()), FilesCheck::Current);
    let kept = std::fs::read_dir(project.copy.with_file_name("content")).unwrap();
    let kept: Vec<Vec<u8>> = kept.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(kept.contains(&b"2\n".to_vec()) && !kept.contains(&b"0\n".to_vec()), "{kept:?}");
}

#[test]
fn branches_of_a_session_have_copies_that_are_deleted_with_it() {
    let setup = setup();
    let session: SessionId = "chat_01JXMZ00000000000000000000".parse().unwrap();
    let task: TaskId = "task_01JXMZ00000000000000000000".parse().unwrap();
    let folder = |task, session, restores| {
        let queued = Queued::new(RunKind::AgentLoop);
        let mut new = NewRun { queued, task, session, resumed_from: None };
        new.queued.workspace_path = Some(setup.workspaces.tree("earlier").display().to_string());
        setup.workspaces.assign_folder(&mut new, None, restores, || "1".to_owned()).unwrap();
        PathBuf::from(new.queued.workspace_path.unwrap())
    };
    assert_eq!(folder(None, Some(session), false), setup.workspaces.tree("earlier"));
    assert_eq!(folder(None, None, true), setup.workspaces.tree("lone_1"));
    assert_eq!(folder(Some(task), Some(session), true), setup.workspaces.tree(&format!("{task}.1")));
    let branch = folder(None, Some(session), true);
    assert_eq!(branch, setup.workspaces.tree(&format!("{session}.1")));
    for path in [&branch, &setup.workspaces.tree("other.1")] {
        setup.workspaces.prepare(CLONE, path, None, false, run()).unwrap();
    }
    setup.workspaces.remove_all_of(&session.to_string()).unwrap();
    assert!(!branch.exists() && setup.workspaces.tree("other.1").exists());
}
