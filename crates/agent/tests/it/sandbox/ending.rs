//! Tests of how commands end: normally, at a limit, or cancelled. No process of them is left.

use std::time::Duration;

use recount_agent::sandbox::{Mode, SandboxSettings};
use recount_agent::tool::Cancel;
use recount_agent::tools::shell::ShellExec;
use serde_json::json;

use crate::sandbox::fixture::{CommandRun, Fixture, LAYERS, RecordingReporter};

/// Processes whose command line contains a mark.
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

/// A number of seconds that no other test sleeps.
fn mark(mode: Mode, what: u32) -> String {
    format!("{}{}", 70_000 + what, std::process::id() * 10 + mode as u32)
}

/// Starts a command, and cancels it after it printed `ready`.
async fn cancel_when_ready(fixture: &Fixture, line: &str) -> CommandRun {
    let (stop, cancel) = Cancel::new();
    let look = move |output: &[u8]| {
        if output.ends_with(b"ready\n") {
            stop.send_replace(true);
        }
    };
    let mut reporter = RecordingReporter { on_stdout: Some(Box::new(look)), ..RecordingReporter::default() };
    let tool = ShellExec::new(fixture.sandbox.clone());
    let outcome = fixture.run_tool(&tool, json!({ "command": line }), &mut reporter, cancel).await;
    CommandRun { reporter, outcome }
}

async fn fixture_with_short_timeout(settings: SandboxSettings) -> Fixture {
    Fixture::with(settings).await
}

#[tokio::test]
async fn no_process_survives_a_cancel() {
    for mode in LAYERS {
        let fixture = Fixture::new(mode).await;
        let (plain, deaf, apart, twice) = (mark(mode, 1), mark(mode, 2), mark(mode, 3), mark(mode, 4));
        let line = format!(
            "sleep {plain} & (trap '' TERM HUP INT; sleep {deaf}; sleep {deaf}) & setsid sleep {apart} & \
             (setsid sh -c 'trap \"\" TERM; (sleep {twice}; sleep {twice}) & exit 0') ; \
             while ! pgrep -f {twice} >/dev/null 2>&1; do :; done; echo ready; trap '' TERM; while :; do sleep 1; done"
        );
        let line = line.replace("while ! pgrep -f", "while ! grep -qsF");
        let line = line
            .replace(&format!("-qsF {twice} >/dev/null 2>&1"), &format!("-qs {twice} /proc/[0-9]*/cmdline"));
        let ran = cancel_when_ready(&fixture, &line).await;
        assert_eq!(ran.status(), "cancelled", "{mode:?}");
        assert_eq!(ran.exited()["signal"], "SIGKILL", "{mode:?}");
        for left in [plain, deaf, apart, twice] {
            assert_eq!(alive(&left), [] as [&str; 0], "{mode:?}");
        }
    }
}

#[tokio::test]
async fn a_command_that_handles_sigterm_may_clean_up() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let fixture = Fixture::new(mode).await;
        let line = "trap 'echo tidied; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
        let ran = cancel_when_ready(&fixture, line).await;
        assert_eq!(ran.status(), "cancelled");
        assert_eq!(ran.text("stdout"), "ready\ntidied\n", "{mode:?}");
        assert_eq!(ran.exited()["exit_code"], 5);
    }
}

#[tokio::test]
async fn background_processes_are_killed_with_the_command() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let fixture = Fixture::new(mode).await;
        let left = mark(mode, 5);
        // The background process holds the pipe open too.
        let ran = fixture.shell(&format!("setsid sleep {left} & echo over")).await;
        assert_eq!((ran.status(), ran.text("stdout").as_str()), ("completed", "over\n"));
        assert_eq!(alive(&left), [] as [&str; 0], "{mode:?}");
    }
}

#[tokio::test]
async fn a_command_is_killed_with_its_server() {
    for mode in LAYERS {
        let fixture = Fixture::new(mode).await;
        let left = mark(mode, 6);
        let line = format!("setsid sleep {left} & echo ready; sleep {left}");
        let order = recount_agent::sandbox::SandboxCommand {
            argv: vec!["/bin/sh".into(), "-c".into(), line],
            root: &fixture.workspace,
            network: false,
            environment: Vec::new(),
        };
        let mut process = fixture.sandbox.start(order).await.unwrap();
        let (stdout, stderr) = process.outputs().unwrap();
        stdout.readable().await.unwrap();
        // As if the server was killed: the connection is closed.
        drop((process, stderr));
        // The output ends when all processes with the pipe have ended.
        let mut output = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut { stdout }, &mut output).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&output), "ready\n");
        while !alive(&left).is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn too_many_processes_are_killed() {
    for mode in LAYERS {
        let fixture =
            fixture_with_short_timeout(SandboxSettings { mode, processes: 64, ..SandboxSettings::default() })
                .await;
        let left = mark(mode, 7);
        // As many processes as possible in sequence: found by polling, whatever the kernel limits.
        let ran = fixture.shell(&format!("while :; do sleep {left} & done")).await;
        assert_eq!(ran.status(), "process_limit", "{mode:?}: {}", ran.outcome.output);
        assert_eq!(alive(&left), [] as [&str; 0], "{mode:?}");
    }
}

#[tokio::test]
async fn a_fork_bomb_is_limited() {
    for mode in LAYERS {
        let fixture =
            fixture_with_short_timeout(SandboxSettings { mode, processes: 64, ..SandboxSettings::default() })
                .await;
        // Without a kernel limit this would take the whole machine before the next poll.
        if !fixture.sandbox.detail().contains("by the kernel") {
            eprintln!("{mode:?}: no control group can be made here and this is root, so no bomb is set off");
            continue;
        }
        let left = mark(mode, 8);
        let ran =
            fixture.shell(&format!("bomb() {{ bomb | bomb & sleep {left}; }}; bomb; wait; sleep 60")).await;
        assert_eq!(ran.status(), "process_limit", "{mode:?}: {}", ran.outcome.output);
        assert_eq!(alive(&left), [] as [&str; 0], "{mode:?}");
    }
}

#[tokio::test]
async fn too_much_memory_is_refused() {
    for mode in LAYERS {
        let memory_bytes = 64 << 20;
        let fixture =
            fixture_with_short_timeout(SandboxSettings { mode, memory_bytes, ..SandboxSettings::default() })
                .await;
        let ran = fixture
            .shell(
                "perl -e 'my @a; while (1) { push @a, \"x\" x 1048576; select(undef, undef, undef, 0.002) }'",
            )
            .await;
        assert_eq!(ran.status(), "memory_limit", "{mode:?}: {}", ran.outcome.output);
        // A single large allocation fails immediately.
        let ran = fixture.shell("perl -e 'my $a = \"x\" x (1 << 30); print \"got\"'").await;
        assert_ne!(ran.text("stdout"), "got", "{mode:?}");
    }
}

#[tokio::test]
async fn a_command_times_out() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let mut fixture = Fixture::new(mode).await;
        fixture.terms.command_timeout = Duration::from_millis(300);
        let mut ran = fixture.shell("echo started; sleep 1000").await;
        // On a busy machine the time limit can be reached before the command writes anything.
        while ran.text("stdout").is_empty() && fixture.terms.command_timeout < Duration::from_secs(30) {
            assert_eq!(ran.status(), "wall_clock", "{mode:?}");
            fixture.terms.command_timeout *= 4;
            ran = fixture.shell("echo started; sleep 1000").await;
        }
        assert_eq!((ran.status(), ran.text("stdout").as_str()), ("wall_clock", "started\n"));
        assert_eq!(ran.exited()["signal"], "SIGTERM", "{mode:?}");
    }
}

#[tokio::test]
async fn a_flood_is_cut_at_the_cap() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let mut fixture = Fixture::new(mode).await;
        fixture.terms.output_bytes_max = 3_000_001;
        let ran = fixture.shell("yes 0123456789").await;
        assert_eq!(ran.status(), "output_cap", "{mode:?}");
        let exited = ran.exited();
        assert_eq!((&exited["stdout_bytes"], &exited["truncated"]), (&json!(3_000_001), &json!(true)));
        assert_eq!(ran.bytes("stdout").len(), 3_000_001);
    }
}

#[tokio::test]
async fn a_death_by_signal_is_reported_as_one() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let fixture = Fixture::new(mode).await;
        let ran = fixture.shell("kill -SEGV $$").await;
        assert_eq!((ran.status(), ran.outcome.output.as_str()), ("signal", "ended by SIGSEGV (signal 11)\n"));
        assert_eq!((&ran.exited()["exit_code"], &ran.exited()["signal"]), (&json!(null), &json!("SIGSEGV")));
        let ran = fixture.shell("exit 139").await;
        assert_eq!((&ran.exited()["exit_code"], &ran.exited()["signal"]), (&json!(139), &json!(null)));
    }
}

#[tokio::test]
async fn a_command_that_cannot_start_fails_with_the_reason() {
    for mode in LAYERS {
        let mut fixture = Fixture::new(mode).await;
        fixture.terms.root = fixture.home.join("nothing");
        let ran = fixture.shell("true").await;
        assert_eq!(ran.status(), "spawn_failed");
        // A workspace that contains a hidden folder.
        fixture.terms.root = fixture.home.clone();
        let ran = fixture.shell("true").await;
        assert_eq!(ran.status(), "spawn_failed");
        assert!(ran.outcome.output.contains("use a subfolder"), "{}", ran.outcome.output);
    }
}

/// Files in memory count as memory: in `/tmp`, in `/dev/shm`, and unnamed ones.
#[tokio::test]
async fn files_in_memory_count_where_the_kernel_limits_memory() {
    for mode in LAYERS {
        let settings = SandboxSettings {
            mode,
            memory_bytes: 256 << 20,
            tmp_bytes: 2 << 30,
            ..SandboxSettings::default()
        };
        let fixture = Fixture::with(settings).await;
        let detail = fixture.sandbox.detail().to_owned();
        let by_kernel = detail.contains("MiB of memory (enforced by the kernel)");
        let by_looking = detail.contains("MiB of memory (enforced by polling");
        assert!(by_kernel != by_looking, "{detail}");
        let program = r#"my $number = `uname -m` =~ /aarch64/ ? 279 : 319; my $name = "x";
            open(my $file, ">&=", syscall($number, $name, 0)) or die; my $text = "x" x 1048576;
            for (1 .. 600) { syswrite($file, $text) or die }"#;
        let ran = fixture.shell(&format!("exec perl -e '{program}'")).await;
        let expected = if by_kernel { "memory_limit" } else { "completed" };
        assert_eq!(ran.status(), expected, "{mode:?}: {}", ran.outcome.output);
        if !by_kernel {
            continue;
        }
        // A command that continues after a child was killed, and succeeds, has not failed; a note reports the child.
        let ran = fixture.shell(&format!("perl -e '{program}'; echo \"came to $?\"")).await;
        assert_eq!((ran.status(), ran.text("stdout").as_str()), ("completed", "came to 137\n"), "{mode:?}");
        let output = &ran.outcome.output;
        assert!(
            output.contains("killed a process of this command") && output.contains("256 MiB"),
            "{output}"
        );
        // A command that fails in this case fails with the memory limit and its own exit status.
        let ran = fixture.shell(&format!("perl -e '{program}' || exit 3")).await;
        assert_eq!(ran.status(), "memory_limit", "{mode:?}: {}", ran.outcome.output);
        assert!(ran.outcome.output.contains("ended with exit code 3"), "{}", ran.outcome.output);
        assert_eq!(ran.exited()["exit_code"], 3, "{mode:?}");
    }
}

/// The label agrees with the limits of the kernel.
#[tokio::test]
async fn the_label_shows_whether_the_kernel_limits_memory() {
    for mode in LAYERS {
        let fixture = Fixture::new(mode).await;
        let by_kernel = fixture.sandbox.detail().contains("MiB of memory (enforced by the kernel)");
        assert_eq!(fixture.sandbox.label(false).contains(" memory=watched"), !by_kernel, "{mode:?}");
    }
    assert_eq!(Fixture::new(Mode::Off).await.sandbox.label(false), "off");
}
