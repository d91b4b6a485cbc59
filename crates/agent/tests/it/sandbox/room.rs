//! What commands write into a workspace: how much of it there may be, and what happens beyond.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use recount_agent::sandbox::{Mode, SandboxSettings};

use crate::sandbox::ground::{Ground, LAYERS};

const MIB: u64 = 1 << 20;

/// How far a command gets beyond a small workspace between two looks, even where looks come late.
const BEYOND: u64 = 1024 * MIB;

async fn small(mode: Mode, workspace_bytes: u64) -> Ground {
    Ground::with(SandboxSettings { mode, workspace_bytes, ..SandboxSettings::default() }).await
}

/// Bytes of the files of a folder on the disk.
fn on_disk(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|about| about.blocks() * 512).sum()
}

/// Writes a file of a MiB after the other, without an end.
const MANY_FILES: &str = "i=0; while :; do head -c 1048576 /dev/zero > f$i; i=$((i+1)); done";

#[tokio::test]
async fn a_command_that_fills_its_workspace_is_stopped_and_the_next_one_can_make_room() {
    for mode in LAYERS {
        let ground = small(mode, 32 * MIB).await;
        let ran = ground.shell(MANY_FILES).await;
        assert_eq!(ran.how(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
        let said = &ran.outcome.output;
        assert!(said.contains("may hold 32 MiB") && said.contains("sandbox.workspace_bytes"), "{said}");
        let held = on_disk(&ground.workspace);
        assert!((32 * MIB..BEYOND).contains(&held), "{mode:?}: {held}");
        // The next one writes nothing, and is told why.
        let ran = ground.shell("echo words > new; cat new; echo x > /dev/null && echo alive").await;
        assert_eq!((ran.how(), ran.text("stdout").as_str()), ("completed", "alive\n"), "{mode:?}");
        assert!(ran.text("stderr").contains("File too large"), "{}", ran.text("stderr"));
        let said = &ran.outcome.output;
        assert!(said.contains("may hold 32 MiB") && said.contains("could remove files"), "{said}");
        let ran = ground.shell("rm -f f*; mkdir -p a && rmdir a").await;
        assert_eq!((ran.how(), &ran.exited()["exit_code"]), ("completed", &serde_json::json!(0)), "{mode:?}");
        let ran = ground.shell("echo words > new && cat new").await;
        assert_eq!(ran.text("stdout"), "words\n", "{mode:?}: {}", ran.outcome.output);
        assert!(!ran.outcome.output.contains("may hold"), "{}", ran.outcome.output);
    }
}

#[tokio::test]
async fn what_several_commands_write_counts_together() {
    for mode in LAYERS {
        let ground = small(mode, 64 * MIB).await;
        for name in ["a", "b", "c"] {
            let ran = ground.shell(&format!("head -c {} /dev/zero > {name}", 20 * MIB)).await;
            assert_eq!(ran.how(), "completed", "{mode:?}: {}", ran.outcome.output);
        }
        let ran = ground.shell(&format!("head -c {} /dev/zero > d; sleep 30", 20 * MIB)).await;
        assert_eq!(ran.how(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
    }
}

#[tokio::test]
async fn a_command_that_is_over_before_it_is_stopped_is_told_what_it_left() {
    for mode in LAYERS {
        let ground = small(mode, MIB).await;
        let ran = ground.shell("head -c 3000000 /dev/zero > a").await;
        // Whichever comes first.
        match ran.how() {
            "completed" => assert!(
                ran.outcome.output.contains("the next command can remove files and not write"),
                "{mode:?}: {}",
                ran.outcome.output
            ),
            how => assert_eq!(how, "workspace_limit", "{mode:?}: {}", ran.outcome.output),
        }
        let ran = ground.shell("echo words > new; cat new; rm a").await;
        assert_eq!(ran.text("stdout"), "", "{mode:?}: {}", ran.outcome.output);
    }
}

#[tokio::test]
async fn room_is_not_taken_without_writing() {
    for mode in LAYERS {
        let ground = small(mode, 32 * MIB).await;
        let ran = ground.shell("fallocate -l 1G big; rm -f big; echo over").await;
        assert_eq!(ran.text("stdout"), "over\n", "{mode:?}");
        assert!(ran.text("stderr").contains("not supported"), "{mode:?}: {}", ran.text("stderr"));
        // What replaces it where a file system does not know it: the library writes.
        if ground.shell("test -x /usr/bin/python3").await.exited()["exit_code"] == 0 {
            let line = "/usr/bin/python3 -c 'import os; f = os.open(\"p\", os.O_RDWR | os.O_CREAT); \
                        os.posix_fallocate(f, 0, 1 << 20); print(os.stat(\"p\").st_blocks >= 2048)'";
            assert_eq!(ground.shell(line).await.text("stdout"), "True\n", "{mode:?}");
        }
        // A hole in a file gives room back.
        let line = "head -c 1048576 /dev/zero > h; fallocate -p -o 0 -l 1048576 h && stat -c %b h";
        assert_eq!(ground.shell(line).await.text("stdout"), "0\n", "{mode:?}");
    }
}

#[tokio::test]
async fn files_without_a_name_count_while_they_are_open() {
    for mode in LAYERS {
        let ground = small(mode, 32 * MIB).await;
        let line = "exec 3> gone; rm gone; while :; do head -c 1048576 /dev/zero >&3; done";
        let ran = ground.shell(line).await;
        assert_eq!(ran.how(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
        // They went with it.
        let ran = ground.shell("echo words > new && cat new").await;
        assert_eq!(ran.text("stdout"), "words\n", "{mode:?}: {}", ran.outcome.output);
    }
}

#[tokio::test]
async fn hard_links_and_holes_take_no_room() {
    for mode in LAYERS {
        let ground = small(mode, 32 * MIB).await;
        std::fs::write(ground.workspace.join("file"), vec![1; 8 << 20]).unwrap();
        for number in 0..20 {
            std::fs::hard_link(ground.workspace.join("file"), ground.workspace.join(format!("link{number}")))
                .unwrap();
        }
        let ran = ground.shell("truncate -s 1G hole && head -c 8388608 /dev/zero > more && sleep 0.2").await;
        assert_eq!(ran.how(), "completed", "{mode:?}: {}", ran.outcome.output);
        let ran = ground.shell("echo words > new && cat new").await;
        assert_eq!(ran.text("stdout"), "words\n", "{mode:?}: {}", ran.outcome.output);
    }
}

/// What commands have for temporary files there is on a disk, too.
#[tokio::test]
async fn a_private_folder_on_a_disk_counts() {
    let ground = small(Mode::Landlock, 32 * MIB).await;
    let ran = ground.shell(&format!("cd $TMPDIR; {MANY_FILES}")).await;
    assert_eq!(ran.how(), "workspace_limit", "{}", ran.outcome.output);
    let ran = ground.shell("echo words > new && cat new").await;
    assert_eq!(ran.text("stdout"), "words\n", "{}", ran.outcome.output);
}

#[tokio::test]
async fn what_was_in_a_person_s_own_folder_does_not_count() {
    for mode in LAYERS {
        let mut ground = small(mode, 16 * MIB).await;
        let place = tempfile::tempdir().unwrap();
        ground.terms.root = place.path().canonicalize().unwrap();
        std::fs::write(place.path().join("own"), vec![1; 40 << 20]).unwrap();
        let ran = ground.shell("echo words > new && sleep 0.2 && cat new").await;
        assert_eq!((ran.how(), ran.text("stdout").as_str()), ("completed", "words\n"), "{mode:?}");
        let ran = ground.shell(MANY_FILES).await;
        assert_eq!(ran.how(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
        assert!(ran.outcome.output.contains("may hold 56 MiB"), "{mode:?}: {}", ran.outcome.output);
    }
}

/// A small disk of the test's own, which goes when it is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// With room for so many bytes, and so many files and folders.
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
async fn a_disk_is_not_filled_to_its_end() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("this is no root, who could mount a small disk");
        return;
    }
    for mode in LAYERS {
        let mut ground = Ground::new(mode).await;
        let disk = SmallDisk::make(512 * MIB, 100_000);
        ground.terms.root = disk.0.path().canonicalize().unwrap();
        let ran = ground
            .shell(
                "while :; do head -c 65536 /dev/zero >> file; sleep 0.001; done & \
                                head -c 480000000 /dev/zero > big; wait",
            )
            .await;
        assert_eq!(ran.how(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
        assert!(ran.outcome.output.contains("which commands leave to others"), "{}", ran.outcome.output);
        // It is still short: nothing is written, and removing helps.
        let ran = ground.shell("echo words > new; cat new; rm -f big").await;
        assert_eq!(ran.text("stdout"), "", "{mode:?}: {}", ran.outcome.output);
        let ran = ground.shell("echo words > new; cat new").await;
        assert_eq!(ran.text("stdout"), "words\n", "{mode:?}: {}", ran.outcome.output);
    }
}

/// Others need places for files as much as bytes.
#[tokio::test]
async fn the_last_files_of_a_disk_are_left_to_others() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("this is no root, who could mount a small disk");
        return;
    }
    for mode in LAYERS {
        let mut ground = Ground::new(mode).await;
        let disk = SmallDisk::make(512 * MIB, 5_000);
        ground.terms.root = disk.0.path().canonicalize().unwrap();
        let line = "i=0; while [ $i -lt 4950 ]; do : > f$i; i=$((i+1)); done; sleep 30";
        let ran = ground.shell(line).await;
        assert_eq!(ran.how(), "workspace_limit", "{mode:?}: {}", ran.outcome.output);
        let said = &ran.outcome.output;
        assert!(said.contains("more files and folders, which commands leave to others"), "{said}");
        // It is still short: nothing is written, and removing helps.
        let ran = ground.shell("echo words > new; cat new; rm -f f*").await;
        assert_eq!(ran.text("stdout"), "", "{mode:?}: {}", ran.outcome.output);
        let ran = ground.shell("echo words > new; cat new").await;
        assert_eq!(ran.text("stdout"), "words\n", "{mode:?}: {}", ran.outcome.output);
    }
}
