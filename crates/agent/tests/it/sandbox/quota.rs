//! Tests of the disk usage of workspaces: the limits, and what happens beyond them.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use recount_agent::sandbox::{Mode, SandboxSettings};

use crate::sandbox::fixture::{Fixture, LAYERS};

const MIB: u64 = 1 << 20;

/// How far a command can exceed a small limit between two polls, even if polls are late.
const BEYOND: u64 = 1024 * MIB;

async fn small(mode: Mode, workspace_bytes: u64) -> Fixture {
    Fixture::with(SandboxSettings { mode, workspace_bytes, ..SandboxSettings::default() }).await
}

/// Bytes on disk of the files of a folder.
fn on_disk(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|about| about.blocks() * 512).sum()
}

/// Writes files of 1 MiB in an endless loop.
const MANY_FILES: &str = "i=0; while :; do head -c 1048576 /dev/zero > f$i; i=$((i+1)); done";

#[tokio::test]
async fn a_command_that_fills_its_workspace_is_stopped_and_the_next_one_can_free_space() {
    for mode in LAYERS {
        let fixture = small(mode, 32 * MIB).await;
        let ran = fixture.shell(MANY_FILES).await;
        assert_eq!(ran.status(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
        let output = &ran.outcome.output;
        assert!(
            output.contains("the limit is 32 MiB") && output.contains("sandbox.workspace_bytes"),
            "{output}"
        );
        let held = on_disk(&fixture.workspace);
        assert!((32 * MIB..BEYOND).contains(&held), "{mode:?}: {held}");
        // The next command cannot write, and its output states why.
        let ran = fixture.shell("echo words > new; cat new; echo x > /dev/null && echo alive").await;
        assert_eq!((ran.status(), ran.text("stdout").as_str()), ("completed", "alive\n"), "{mode:?}");
        assert!(ran.text("stderr").contains("File too large"), "{}", ran.text("stderr"));
        let output = &ran.outcome.output;
        assert!(output.contains("the limit is 32 MiB") && output.contains("could delete files"), "{output}");
        let ran = fixture.shell("rm -f f*; mkdir -p a && rmdir a").await;
        assert_eq!(
            (ran.status(), &ran.exited()["exit_code"]),
            ("completed", &serde_json::json!(0)),
            "{mode:?}"
        );
        let ran = fixture.shell("echo words > new && cat new").await;
        assert_eq!(ran.text("stdout"), "words\n", "{mode:?}: {}", ran.outcome.output);
        assert!(!ran.outcome.output.contains("the limit is"), "{}", ran.outcome.output);
    }
}

#[tokio::test]
async fn writes_of_several_commands_are_added() {
    for mode in LAYERS {
        let fixture = small(mode, 64 * MIB).await;
        for name in ["a", "b", "c"] {
            let ran = fixture.shell(&format!("head -c {} /dev/zero > {name}", 20 * MIB)).await;
            assert_eq!(ran.status(), "completed", "{mode:?}: {}", ran.outcome.output);
        }
        let ran = fixture.shell(&format!("head -c {} /dev/zero > d; sleep 30", 20 * MIB)).await;
        assert_eq!(ran.status(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
    }
}

#[tokio::test]
async fn a_command_that_ends_before_it_is_stopped_reports_a_full_workspace() {
    for mode in LAYERS {
        let fixture = small(mode, MIB).await;
        let ran = fixture.shell("head -c 3000000 /dev/zero > a").await;
        // Whichever comes first.
        match ran.status() {
            "completed" => assert!(
                ran.outcome.output.contains("the next command can delete files but not write"),
                "{mode:?}: {}",
                ran.outcome.output
            ),
            status => assert_eq!(status, "workspace_limit", "{mode:?}: {}", ran.outcome.output),
        }
        let ran = fixture.shell("echo words > new; cat new; rm a").await;
        assert_eq!(ran.text("stdout"), "", "{mode:?}: {}", ran.outcome.output);
    }
}

#[tokio::test]
async fn space_cannot_be_reserved_without_writing() {
    for mode in LAYERS {
        let fixture = small(mode, 32 * MIB).await;
        let ran = fixture.shell("fallocate -l 1G big; rm -f big; echo over").await;
        assert_eq!(ran.text("stdout"), "over\n", "{mode:?}");
        assert!(ran.text("stderr").contains("not supported"), "{mode:?}: {}", ran.text("stderr"));
        // The fallback for file systems without this call: the library writes.
        if fixture.shell("test -x /usr/bin/python3").await.exited()["exit_code"] == 0 {
            let line = "/usr/bin/python3 -c 'import os; f = os.open(\"p\", os.O_RDWR | os.O_CREAT); \
                        os.posix_fallocate(f, 0, 1 << 20); print(os.stat(\"p\").st_blocks >= 2048)'";
            assert_eq!(fixture.shell(line).await.text("stdout"), "True\n", "{mode:?}");
        }
        // Punching a hole in a file frees space.
        let line = "head -c 1048576 /dev/zero > h; fallocate -p -o 0 -l 1048576 h && stat -c %b h";
        assert_eq!(fixture.shell(line).await.text("stdout"), "0\n", "{mode:?}");
    }
}

#[tokio::test]
async fn deleted_files_count_while_they_are_open() {
    for mode in LAYERS {
        let fixture = small(mode, 32 * MIB).await;
        let line = "exec 3> gone; rm gone; while :; do head -c 1048576 /dev/zero >&3; done";
        let ran = fixture.shell(line).await;
        assert_eq!(ran.status(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
        // They were deleted with the command.
        let ran = fixture.shell("echo words > new && cat new").await;
        assert_eq!(ran.text("stdout"), "words\n", "{mode:?}: {}", ran.outcome.output);
    }
}

#[tokio::test]
async fn hard_links_and_holes_use_no_space() {
    for mode in LAYERS {
        let fixture = small(mode, 32 * MIB).await;
        std::fs::write(fixture.workspace.join("file"), vec![1; 8 << 20]).unwrap();
        for number in 0..20 {
            std::fs::hard_link(
                fixture.workspace.join("file"),
                fixture.workspace.join(format!("link{number}")),
            )
            .unwrap();
        }
        let ran = fixture.shell("truncate -s 1G hole && head -c 8388608 /dev/zero > more && sleep 0.2").await;
        assert_eq!(ran.status(), "completed", "{mode:?}: {}", ran.outcome.output);
        let ran = fixture.shell("echo words > new && cat new").await;
        assert_eq!(ran.text("stdout"), "words\n", "{mode:?}: {}", ran.outcome.output);
    }
}

/// The private folder for temporary files is also on a disk.
#[tokio::test]
async fn a_private_folder_on_a_disk_counts() {
    let fixture = small(Mode::Landlock, 32 * MIB).await;
    let ran = fixture.shell(&format!("cd $TMPDIR; {MANY_FILES}")).await;
    assert_eq!(ran.status(), "workspace_limit", "{}", ran.outcome.output);
    let ran = fixture.shell("echo words > new && cat new").await;
    assert_eq!(ran.text("stdout"), "words\n", "{}", ran.outcome.output);
}

#[tokio::test]
async fn existing_files_of_a_user_s_own_folder_do_not_count() {
    for mode in LAYERS {
        let mut fixture = small(mode, 16 * MIB).await;
        let place = tempfile::tempdir().unwrap();
        fixture.terms.root = place.path().canonicalize().unwrap();
        std::fs::write(place.path().join("own"), vec![1; 40 << 20]).unwrap();
        let ran = fixture.shell("echo words > new && sleep 0.2 && cat new").await;
        assert_eq!((ran.status(), ran.text("stdout").as_str()), ("completed", "words\n"), "{mode:?}");
        let ran = fixture.shell(MANY_FILES).await;
        assert_eq!(ran.status(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
        assert!(ran.outcome.output.contains("the limit is 56 MiB"), "{mode:?}: {}", ran.outcome.output);
    }
}

/// A small disk of the test, which is unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Creates a disk for so many bytes, files and folders.
    fn make(bytes: u64, entries: u64) -> SmallDisk {
        let disk = SmallDisk(tempfile::tempdir().unwrap());
        let mut mount = std::process::Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={bytes},nr_inodes={entries}"), "recount-test"])
            .arg(disk.0.path());
        assert!(mount.status().unwrap().success());
        disk
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        std::process::Command::new("umount").arg("-l").arg(self.0.path()).status().ok();
    }
}

#[tokio::test]
async fn the_last_bytes_of_a_disk_are_reserved() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("this is no root, who could mount a small disk");
        return;
    }
    for mode in LAYERS {
        let mut fixture = Fixture::new(mode).await;
        let disk = SmallDisk::make(512 * MIB, 100_000);
        fixture.terms.root = disk.0.path().canonicalize().unwrap();
        let ran = fixture
            .shell(
                "while :; do head -c 65536 /dev/zero >> file; sleep 0.001; done & \
                                head -c 480000000 /dev/zero > big; wait",
            )
            .await;
        assert_eq!(ran.status(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
        assert!(ran.outcome.output.contains("which is reserved"), "{}", ran.outcome.output);
        // The disk is still short: nothing is written, and deleting helps.
        let ran = fixture.shell("echo words > new; cat new; rm -f big").await;
        assert_eq!(ran.text("stdout"), "", "{mode:?}: {}", ran.outcome.output);
        let ran = fixture.shell("echo words > new; cat new").await;
        assert_eq!(ran.text("stdout"), "words\n", "{mode:?}: {}", ran.outcome.output);
    }
}

/// Inodes are reserved as well as bytes.
#[tokio::test]
async fn the_last_inodes_of_a_disk_are_reserved() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("this is no root, who could mount a small disk");
        return;
    }
    for mode in LAYERS {
        let mut fixture = Fixture::new(mode).await;
        let disk = SmallDisk::make(512 * MIB, 5_000);
        fixture.terms.root = disk.0.path().canonicalize().unwrap();
        let line = "i=0; while [ $i -lt 4950 ]; do : > f$i; i=$((i+1)); done; sleep 30";
        let ran = fixture.shell(line).await;
        assert_eq!(ran.status(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
        let output = &ran.outcome.output;
        assert!(output.contains("more files and folders, which is reserved"), "{output}");
        // The disk is still short: nothing is written, and deleting helps.
        let ran = fixture.shell("echo words > new; cat new; rm -f f*").await;
        assert_eq!(ran.text("stdout"), "", "{mode:?}: {}", ran.outcome.output);
        let ran = fixture.shell("echo words > new; cat new").await;
        assert_eq!(ran.text("stdout"), "words\n", "{mode:?}: {}", ran.outcome.output);
    }
}
