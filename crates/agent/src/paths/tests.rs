//! Path tests: escapes, races and leftovers.

use super::*;
use recount_world::SeededEntropy;
use std::os::unix::fs::{PermissionsExt, symlink};

struct TestFolder {
    temp: tempfile::TempDir,
    entropy: SeededEntropy,
}

impl TestFolder {
    fn new() -> Self {
        TestFolder { temp: tempfile::tempdir().unwrap(), entropy: SeededEntropy::new(1) }
    }

    fn root(&self) -> Root {
        Root::open(self.temp.path()).unwrap()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.temp.path().join(path)
    }

    fn write(&self, path: &str, text: &str, expected: &Expected) -> Result<Written, &'static str> {
        let root = self.root();
        let place = root.place(path).map_err(|error| error.code)?;
        root.write(&place, text.as_bytes(), expected, &self.entropy).map_err(|error| error.code)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.temp.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn of(text: &str) -> Expected {
    Expected::Revision(revision(text.as_bytes()))
}

#[test]
fn revisions_are_sha256_digests() {
    assert_eq!(revision(b"abc"), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn a_file_is_written_only_in_the_expected_state() {
    let folder = TestFolder::new();
    folder.write("x/y/a", "1", &Expected::Absent).unwrap();
    assert_eq!(std::fs::read(folder.at("x/y/a")).unwrap(), b"1");
    assert_eq!(folder.write("x/y/a", "2", &Expected::Absent).unwrap_err(), "file_changed");
    assert_eq!(folder.write("x/y/a", "2", &of("0")).unwrap_err(), "file_changed");
    assert_eq!(folder.write("x/none", "2", &of("0")).unwrap_err(), "file_changed");
    std::fs::set_permissions(folder.at("x/y/a"), std::fs::Permissions::from_mode(0o4751)).unwrap();
    folder.write("x/y/a", "2", &of("1")).unwrap();
    assert_eq!(std::fs::read(folder.at("x/y/a")).unwrap(), b"2");
    let mode = std::fs::metadata(folder.at("x/y/a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o751, "its own mode, less what lets it run as another user");
    assert_eq!(std::fs::read_dir(folder.at("x/y")).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn nothing_is_written_through_links_into_git_or_over_folders() {
    let folder = TestFolder::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.at(".git/hooks")).unwrap();
    std::fs::create_dir(folder.at("dir")).unwrap();
    symlink(outside.path(), folder.at("out")).unwrap();
    symlink("dir", folder.at("in")).unwrap();
    symlink(".git", folder.at("g")).unwrap();
    symlink(outside.path().join("new"), folder.at("dangling")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    let before = folder.names();
    for (path, code) in [
        ("out/a", "symbolic_link"),
        ("out/deep/a", "symbolic_link"),
        ("in/a", "symbolic_link"),
        ("g/hooks/pre-commit", "symbolic_link"),
        ("dangling", "symbolic_link"),
        (".git/hooks/pre-commit", "protected_path"),
        ("sub/.Git/config", "protected_path"),
        (".git", "protected_path"),
        ("dir", "is_a_folder"),
        (".", "is_a_folder"),
        ("pipe", "not_a_file"),
        ("pipe/a", "not_found"),
    ] {
        for expected in [Expected::Absent, of("x")] {
            assert_eq!(folder.write(path, "x", &expected).unwrap_err(), code, "{path} {expected:?}");
        }
    }
    assert_eq!(folder.names(), before);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(folder.at(".git/hooks")).unwrap().count(), 0);
}

#[test]
fn folders_created_in_vain_are_deleted() {
    let folder = TestFolder::new();
    std::fs::create_dir(folder.at("a")).unwrap();
    let long = format!("a/b/c/{}", "n".repeat(300));
    assert_eq!(folder.write(&long, "x", &Expected::Absent).unwrap_err(), "invalid_path");
    assert!(folder.at("a").exists() && !folder.at("a/b").exists());
    // Folders are created before the missing file is noticed.
    assert_eq!(folder.write("a/b/c", "x", &of("y")).unwrap_err(), "file_changed");
    assert!(!folder.at("a/b").exists());
}

#[test]
fn a_write_is_reverted_only_while_it_is_unchanged() {
    let folder = TestFolder::new();
    let root = folder.root();
    let new = folder.write("n/a", "1", &Expected::Absent).unwrap();
    root.revert(&new, None, &folder.entropy).unwrap();
    assert!(!folder.at("n").exists());
    std::fs::write(folder.at("b"), "old").unwrap();
    let changed = folder.write("b", "new", &of("old")).unwrap();
    root.revert(&changed, Some(b"old"), &folder.entropy).unwrap();
    assert_eq!(std::fs::read(folder.at("b")).unwrap(), b"old");
    let changed = folder.write("b", "new", &of("old")).unwrap();
    std::fs::write(folder.at("b"), "another's").unwrap();
    let refused = root.revert(&changed, Some(b"old"), &folder.entropy).unwrap_err();
    assert_eq!(refused.code, "file_changed");
    assert_eq!(std::fs::read(folder.at("b")).unwrap(), b"another's");
}

#[test]
fn a_deleted_folder_is_reported_as_workspace_gone() {
    let folder = TestFolder::new();
    let root = folder.root();
    let place = root.place("a/b").unwrap();
    std::fs::remove_dir_all(folder.temp.path()).unwrap();
    assert_eq!(root.find(&place, Links::Follow).unwrap_err().code, "workspace_gone");
    let refused = root.write(&place, b"x", &Expected::Absent, &folder.entropy).unwrap_err();
    assert_eq!(refused.code, "workspace_gone");
    assert_eq!(Root::open(folder.temp.path()).unwrap_err().code, "workspace_gone");
}

/// Swaps a folder for a link to the outside and back, in a tight loop, while files in it are read and written. Nothing
/// outside may be read or written.
#[test]
fn a_link_created_meanwhile_is_not_followed() {
    let folder = TestFolder::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("f"), "outside").unwrap();
    std::fs::create_dir(folder.at("real")).unwrap();
    std::fs::write(folder.at("real/f"), "inside").unwrap();
    symlink(outside.path(), folder.at("link")).unwrap();
    let (real, link) = (folder.at("real"), folder.at("link"));
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let swapping = done.clone();
    let swapper = recount_world::thread("swap", move || {
        while !swapping.load(std::sync::atomic::Ordering::Relaxed) {
            let cwd = rustix::fs::CWD;
            rustix::fs::renameat_with(cwd, &real, cwd, &link, rustix::fs::RenameFlags::EXCHANGE).unwrap();
        }
    });
    let root = folder.root();
    let place = root.place("real/f").unwrap();
    let (mut read, mut refused, mut written) = (0, 0, 0);
    while read < 200 || refused < 200 || written < 200 {
        match root.file(&place, Links::Follow) {
            Ok(mut file) => {
                let mut text = String::new();
                std::io::Read::read_to_string(&mut file, &mut text).unwrap();
                assert_ne!(text, "outside");
                read += 1;
            }
            Err(error) => {
                assert!(matches!(error.code, "outside_workspace" | "io_failed"), "{error:?}");
                refused += 1;
            }
        }
        written += i32::from(root.write(&place, b"inside", &of("inside"), &folder.entropy).is_ok());
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    swapper.join().unwrap();
    assert_eq!(std::fs::read(outside.path().join("f")).unwrap(), b"outside");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn without_openat2_links_are_refused_too() {
    let folder = TestFolder::new();
    std::fs::create_dir(folder.at("d")).unwrap();
    std::fs::write(folder.at("d/f"), "x").unwrap();
    symlink("f", folder.at("d/l")).unwrap();
    symlink("d", folder.at("e")).unwrap();
    let root = folder.root();
    for flags in [OFlags::PATH, OFlags::RDONLY] {
        for (path, expected) in [
            ("d/f", Ok(())),
            ("d", Ok(())),
            (".", Ok(())),
            ("d/l", Err(Errno::LOOP)),
            ("e", Err(Errno::LOOP)),
            ("e/f", Err(Errno::LOOP)),
            ("d/n", Err(Errno::NOENT)),
            ("d/f/n", Err(Errno::NOTDIR)),
        ] {
            let opened = open_by_parts(root.dir.as_fd(), Path::new(path), flags | OFlags::CLOEXEC);
            assert_eq!(opened.map(drop), expected, "{path} {flags:?}");
        }
    }
}
