//! Workspaces: what is refused, what is copied, what is made again. In real folders.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use recount_event::family::run::{Queued, RunKind};

use super::*;

struct House {
    folder: tempfile::TempDir,
    workspaces: Workspaces,
}

fn house() -> House {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("data/workspaces")).unwrap();
    std::fs::create_dir_all(root.join("work/project/src")).unwrap();
    let workspaces = Workspaces {
        home: root.join("data/workspaces"),
        allowed: [root.join("work")].into(),
        forbidden: [root.join("data")].into(),
    };
    House { folder, workspaces }
}

fn run() -> RunId {
    RunId::new("01JXMZ00000000000000000000".parse().unwrap())
}

fn settled(house: &House, mode: Option<&str>, source: Option<&str>) -> Result<NewRun, Unacceptable> {
    let mut queued = Queued::new(RunKind::AgentLoop);
    queued.workspace_mode = mode.map(str::to_owned);
    let mut new = NewRun { queued, task: None, session: None, resumed_from: None };
    let mut source = source.map(|path| house.folder.path().join(path).display().to_string());
    house.workspaces.settle(&mut new, source.as_mut(), || "lone".to_owned())?;
    Ok(new)
}

#[test]
fn folders_that_may_not_be_worked_in_are_refused() {
    let house = house();
    symlink(house.folder.path().join("data"), house.folder.path().join("work/link")).unwrap();
    for (source, said) in [
        ("data", "own data"),
        ("work/link", "own data"),
        ("data/workspaces", "own data"),
        ("", "own data"),
        ("work/nothing", "cannot be looked at"),
        ("../..", "own data"),
    ] {
        let no = settled(&house, None, Some(source)).unwrap_err();
        assert!(no.message.contains(said), "{source}: {no}");
    }
    assert!(settled(&house, Some(IN_PLACE), None).unwrap_err().message.contains("no workspace"));
    assert!(settled(&house, Some("nowhere"), None).unwrap_err().message.contains("nowhere"));
    let outside = tempfile::tempdir().unwrap();
    let mut path = outside.path().display().to_string();
    let mut new = settled(&house, None, None).unwrap();
    let no = house.workspaces.settle(&mut new, Some(&mut path), String::new).unwrap_err();
    assert!(no.message.contains("outside"), "{no}");
}

#[test]
fn a_copy_is_as_its_source_and_is_made_once() {
    let house = house();
    let source = house.workspaces.allowed[0].join("project");
    std::fs::write(source.join("src/a"), "one").unwrap();
    std::fs::set_permissions(source.join("src/a"), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("src/a", source.join("link")).unwrap();
    let path = house.workspaces.tree("lone");
    let ready = house.workspaces.ready(CLONE, &path, Some(&source), run()).unwrap();
    assert_eq!(ready.made, Some(Copied { files: 2, bytes: 3, folders: 1 }));
    assert_eq!(std::fs::read_link(path.join("link")).unwrap(), Path::new("src/a"));
    assert_eq!(std::fs::metadata(path.join("src/a")).unwrap().permissions().mode() & 0o777, 0o755);
    std::fs::write(path.join("src/a"), "changed").unwrap();
    assert_eq!(house.workspaces.ready(CLONE, &path, Some(&source), run()).unwrap().made, None);
    assert_eq!(std::fs::read(path.join("src/a")).unwrap(), b"changed");
    std::fs::remove_dir_all(&path).unwrap();
    let gone = house.workspaces.ready(CLONE, &path, Some(&source), run()).unwrap_err();
    assert_eq!(gone.code, "workspace_gone");
    house.workspaces.remove("lone").unwrap();
    house.workspaces.remove("lone").unwrap();
}

#[test]
fn a_copy_that_was_cut_off_is_made_again() {
    let house = house();
    let source = house.workspaces.allowed[0].join("project");
    std::fs::write(source.join("a"), "one").unwrap();
    let path = house.workspaces.tree("lone");
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("half"), "of it").unwrap();
    let ready = house.workspaces.ready(CLONE, &path, Some(&source), run()).unwrap();
    assert_eq!(ready.made, Some(Copied { files: 1, bytes: 3, folders: 1 }));
    assert!(!path.join("half").exists());
    let unused = Unused { whose: "lone".into(), run: Some(run()) };
    assert_eq!(house.workspaces.unused(Duration::ZERO).unwrap(), [unused]);
    assert!(house.workspaces.unused(Duration::from_secs(3600)).unwrap().is_empty());
}

#[test]
fn a_folder_that_is_not_there_any_more_is_no_workspace() {
    let house = house();
    let source = house.workspaces.allowed[0].join("project");
    assert!(house.workspaces.ready(IN_PLACE, &source, Some(&source), run()).unwrap().made.is_none());
    std::fs::remove_dir_all(&source).unwrap();
    let gone = house.workspaces.ready(IN_PLACE, &source, Some(&source), run()).unwrap_err();
    assert_eq!(gone.code, "workspace_gone");
    let odd = house.workspaces.ready(CLONE, Path::new("/etc"), None, run()).unwrap_err();
    assert_eq!(odd.code, "workspace_gone");
}
