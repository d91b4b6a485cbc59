//! How commands end: by themselves, by a bound, by a cancellation. Nothing of them is left.

use std::time::Duration;

use recount_agent::sandbox::{Mode, SandboxSettings};
use recount_agent::tool::Cancel;
use recount_agent::tools::shell::ShellExec;
use serde_json::json;

use crate::sandbox::ground::{Ground, LAYERS, Ran, Told};

/// Processes that carry a mark in what they were started with.
fn alive(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(mark) {
            found.push(line);
        }
    }
    found
}

/// A number that no other test sleeps for.
fn mark(mode: Mode, what: u32) -> String {
    format!("{}{}", 70_000 + what, std::process::id() * 10 + mode as u32)
}

/// Starts a command, and cancels it when it has said `ready`.
async fn cancelled_when_ready(ground: &Ground, line: &str) -> Ran {
    let (stop, cancel) = Cancel::new();
    let look = move |said: &[u8]| {
        if said.ends_with(b"ready\n") {
            stop.send_replace(true);
        }
    };
    let mut told = Told { on_stdout: Some(Box::new(look)), ..Told::default() };
    let tool = ShellExec::new(ground.sandbox.clone());
    let outcome = ground.carry(&tool, json!({ "command": line }), &mut told, cancel).await;
    Ran { told, outcome }
}

async fn quick(settings: SandboxSettings) -> Ground {
    Ground::with(settings).await
}

#[tokio::test]
async fn nothing_survives_a_cancel() {
    for mode in LAYERS {
        let ground = Ground::new(mode).await;
        let (plain, deaf, apart, twice) = (mark(mode, 1), mark(mode, 2), mark(mode, 3), mark(mode, 4));
        let line = format!(
            "sleep {plain} & (trap '' TERM HUP INT; sleep {deaf}; sleep {deaf}) & setsid sleep {apart} & \
             (setsid sh -c 'trap \"\" TERM; (sleep {twice}; sleep {twice}) & exit 0') ; \
             while ! pgrep -f {twice} >/dev/null 2>&1; do :; done; echo ready; trap '' TERM; while :; do sleep 1; done"
        );
        let line = line.replace("while ! pgrep -f", "while ! grep -qsF");
        let line = line
            .replace(&format!("-qsF {twice} >/dev/null 2>&1"), &format!("-qs {twice} /proc/[0-9]*/cmdline"));
        let ran = cancelled_when_ready(&ground, &line).await;
        assert_eq!(ran.how(), "cancelled", "{mode:?}");
        assert_eq!(ran.exited()["signal"], "SIGKILL", "{mode:?}");
        for left in [plain, deaf, apart, twice] {
            assert_eq!(alive(&left), [] as [&str; 0], "{mode:?}");
        }
    }
}

#[tokio::test]
async fn a_command_that_listens_may_tidy_up() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let ground = Ground::new(mode).await;
        let line = "trap 'echo tidied; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
        let ran = cancelled_when_ready(&ground, line).await;
        assert_eq!(ran.how(), "cancelled");
        assert_eq!(ran.text("stdout"), "ready\ntidied\n", "{mode:?}");
        assert_eq!(ran.exited()["exit_code"], 5);
    }
}

#[tokio::test]
async fn what_a_command_leaves_behind_goes_with_it() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let ground = Ground::new(mode).await;
        let left = mark(mode, 5);
        // It holds the pipe open, too.
        let ran = ground.shell(&format!("setsid sleep {left} & echo over")).await;
        assert_eq!((ran.how(), ran.text("stdout").as_str()), ("completed", "over\n"));
        assert_eq!(alive(&left), [] as [&str; 0], "{mode:?}");
    }
}

#[tokio::test]
async fn a_command_dies_with_its_server() {
    for mode in LAYERS {
        let ground = Ground::new(mode).await;
        let left = mark(mode, 6);
        let line = format!("setsid sleep {left} & echo ready; sleep {left}");
        let order = recount_agent::sandbox::Order {
            argv: vec!["/bin/sh".into(), "-c".into(), line],
            root: &ground.workspace,
            network: false,
            environment: Vec::new(),
        };
        let mut process = ground.sandbox.start(order).await.unwrap();
        let (stdout, stderr) = process.outputs().unwrap();
        stdout.readable().await.unwrap();
        // What is left of a server that was killed: nobody at the other end.
        drop((process, stderr));
        // The end of what is written is the end of who could write.
        let mut said = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut { stdout }, &mut said).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&said), "ready\n");
        while !alive(&left).is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn many_processes_are_too_many() {
    for mode in LAYERS {
        let ground = quick(SandboxSettings { mode, processes: 64, ..SandboxSettings::default() }).await;
        let left = mark(mode, 7);
        // As many as it can, one after the other: seen by looking, whatever the kernel bounds.
        let ran = ground.shell(&format!("while :; do sleep {left} & done")).await;
        assert_eq!(ran.how(), "process_limit", "{mode:?}: {}", ran.outcome.output);
        assert_eq!(alive(&left), [] as [&str; 0], "{mode:?}");
    }
}

#[tokio::test]
async fn a_fork_bomb_is_small() {
    for mode in LAYERS {
        let ground = quick(SandboxSettings { mode, processes: 64, ..SandboxSettings::default() }).await;
        // Without a bound of the kernel's this would take the whole machine before anybody has looked.
        if !ground.sandbox.detail().contains("by the kernel") {
            eprintln!("{mode:?}: no control group can be made here and this is root, so no bomb is set off");
            continue;
        }
        let left = mark(mode, 8);
        let ran =
            ground.shell(&format!("bomb() {{ bomb | bomb & sleep {left}; }}; bomb; wait; sleep 60")).await;
        assert_eq!(ran.how(), "process_limit", "{mode:?}: {}", ran.outcome.output);
        assert_eq!(alive(&left), [] as [&str; 0], "{mode:?}");
    }
}

#[tokio::test]
async fn too_much_memory_is_too_much() {
    for mode in LAYERS {
        let memory_bytes = 64 << 20;
        let ground = quick(SandboxSettings { mode, memory_bytes, ..SandboxSettings::default() }).await;
        let ran = ground
            .shell(
                "perl -e 'my @a; while (1) { push @a, \"x\" x 1048576; select(undef, undef, undef, 0.002) }'",
            )
            .await;
        assert_eq!(ran.how(), "memory_limit", "{mode:?}: {}", ran.outcome.output);
        // What is taken at once is refused at once.
        let ran = ground.shell("perl -e 'my $a = \"x\" x (1 << 30); print \"got\"'").await;
        assert_ne!(ran.text("stdout"), "got", "{mode:?}");
    }
}

#[tokio::test]
async fn time_is_up() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let mut ground = Ground::new(mode).await;
        ground.terms.command_timeout = Duration::from_millis(300);
        let mut ran = ground.shell("echo started; sleep 1000").await;
        // On a busy machine the time can be up before the command has written anything.
        while ran.text("stdout").is_empty() && ground.terms.command_timeout < Duration::from_secs(30) {
            assert_eq!(ran.how(), "wall_clock", "{mode:?}");
            ground.terms.command_timeout *= 4;
            ran = ground.shell("echo started; sleep 1000").await;
        }
        assert_eq!((ran.how(), ran.text("stdout").as_str()), ("wall_clock", "started\n"));
        assert_eq!(ran.exited()["signal"], "SIGTERM", "{mode:?}");
    }
}

#[tokio::test]
async fn a_flood_is_cut_at_the_cap() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let mut ground = Ground::new(mode).await;
        ground.terms.output_bytes_max = 3_000_001;
        let ran = ground.shell("yes 0123456789").await;
        assert_eq!(ran.how(), "output_cap", "{mode:?}");
        let exited = ran.exited();
        assert_eq!((&exited["stdout_bytes"], &exited["truncated"]), (&json!(3_000_001), &json!(true)));
        assert_eq!(ran.bytes("stdout").len(), 3_000_001);
    }
}

#[tokio::test]
async fn a_death_by_signal_is_told_as_one() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let ground = Ground::new(mode).await;
        let ran = ground.shell("kill -SEGV $$").await;
        assert_eq!((ran.how(), ran.outcome.output.as_str()), ("signal", "ended by SIGSEGV (signal 11)\n"));
        assert_eq!((&ran.exited()["exit_code"], &ran.exited()["signal"]), (&json!(null), &json!("SIGSEGV")));
        let ran = ground.shell("exit 139").await;
        assert_eq!((&ran.exited()["exit_code"], &ran.exited()["signal"]), (&json!(139), &json!(null)));
    }
}

#[tokio::test]
async fn a_command_that_cannot_start_is_told_so() {
    for mode in LAYERS {
        let mut ground = Ground::new(mode).await;
        ground.terms.root = ground.home.join("nothing");
        let ran = ground.shell("true").await;
        assert_eq!(ran.how(), "spawn_failed");
        // A workspace that holds what must be hidden.
        ground.terms.root = ground.home.clone();
        let ran = ground.shell("true").await;
        assert_eq!(ran.how(), "spawn_failed");
        assert!(ran.outcome.output.contains("choose a folder within"), "{}", ran.outcome.output);
    }
}

/// Files in memory are memory: those of `/tmp`, of `/dev/shm` and those without names.
#[tokio::test]
async fn files_in_memory_count_where_the_kernel_bounds_memory() {
    for mode in LAYERS {
        let settings = SandboxSettings {
            mode,
            memory_bytes: 256 << 20,
            tmp_bytes: 2 << 30,
            ..SandboxSettings::default()
        };
        let ground = Ground::with(settings).await;
        let detail = ground.sandbox.detail().to_owned();
        let by_kernel = detail.contains("MiB of memory, bounded by the kernel");
        let by_looking = detail.contains("MiB of memory, bounded by looking");
        assert!(by_kernel != by_looking, "{detail}");
        let program = r#"my $number = `uname -m` =~ /aarch64/ ? 279 : 319; my $name = "x";
            open(my $file, ">&=", syscall($number, $name, 0)) or die; my $text = "x" x 1048576;
            for (1 .. 600) { syswrite($file, $text) or die }"#;
        let ran = ground.shell(&format!("exec perl -e '{program}'")).await;
        let expected = if by_kernel { "memory_limit" } else { "completed" };
        assert_eq!(ran.how(), expected, "{mode:?}: {}", ran.outcome.output);
        if !by_kernel {
            continue;
        }
        // A command that goes on when a child was killed, and ends well, has not failed; what became of the child is said.
        let ran = ground.shell(&format!("perl -e '{program}'; echo \"came to $?\"")).await;
        assert_eq!((ran.how(), ran.text("stdout").as_str()), ("completed", "came to 137\n"), "{mode:?}");
        let said = &ran.outcome.output;
        assert!(said.contains("killed a process of this command") && said.contains("256 MiB"), "{said}");
        // One that ends in another way is told to have failed for it, and how it ended.
        let ran = ground.shell(&format!("perl -e '{program}' || exit 3")).await;
        assert_eq!(ran.how(), "memory_limit", "{mode:?}: {}", ran.outcome.output);
        assert!(ran.outcome.output.contains("ended with exit code 3"), "{}", ran.outcome.output);
        assert_eq!(ran.exited()["exit_code"], 3, "{mode:?}");
    }
}

/// What a command is told to have is what it has.
#[tokio::test]
async fn the_label_says_whether_the_kernel_bounds_memory() {
    for mode in LAYERS {
        let ground = Ground::new(mode).await;
        let by_kernel = ground.sandbox.detail().contains("MiB of memory, bounded by the kernel");
        assert_eq!(ground.sandbox.label(false).contains(" memory=watched"), !by_kernel, "{mode:?}");
    }
    assert_eq!(Ground::new(Mode::Off).await.sandbox.label(false), "off");
}
