//! Slow and failing disks: the log has the complete output of a command, or says what is missing.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use recount_engine::RunConfig;
use recount_event::family::run::RunKind;
use recount_event::family::shell::Stream;
use recount_event::{Event, ForeignId, Payload};
use recount_faulty_store::{Crash, CrashAt, WriteFailure, WriteFaults};
use tokio::time::Instant;

use crate::runs::scene::{Scene, Setup, first, model_run, results, types};

/// The number of recorded bytes of a stream.
fn recorded(events: &[Event], stream: Stream) -> u64 {
    let chunks = events.iter().filter_map(|event| match event.payload() {
        Payload::ToolShellOutputChunk(chunk) if chunk.stream == stream => chunk.byte_count(),
        _ => None,
    });
    chunks.sum()
}

/// What the log has of one command's output.
#[derive(Default)]
struct Output {
    recorded: [u64; 2],
    /// The byte counts of the exit event, and whether it claims to be complete.
    exited: Option<([u64; 2], bool)>,
}

/// Checks each command of a run: the recorded output equals the counts of its exit event, or the log says that output
/// is missing. Returns how many commands were recorded completely, and how many in part.
fn check_outputs(events: &[Event], context: &str) -> [usize; 2] {
    let mut commands: BTreeMap<ForeignId, Output> = BTreeMap::new();
    let mut counts = [0, 0];
    for event in events {
        match event.payload() {
            Payload::ToolShellCommand(command) => {
                commands.insert(command.tool_call_id.clone(), Output::default());
            }
            Payload::ToolShellOutputChunk(chunk) => {
                let output = commands.get_mut(&chunk.tool_call_id).unwrap();
                output.recorded[usize::from(chunk.stream == Stream::Stderr)] += chunk.byte_count().unwrap();
            }
            Payload::ToolShellExited(exited) => {
                let output = commands.get_mut(&exited.tool_call_id).unwrap();
                output.exited = Some(([exited.stdout_bytes, exited.stderr_bytes], !exited.truncated));
            }
            Payload::ToolCompleted(end)
            | Payload::ToolFailed(end)
            | Payload::ToolTimedOut(end)
            | Payload::ToolCancelled(end) => {
                let Some(output) = commands.remove(&end.tool_call_id) else { continue };
                match output.exited {
                    Some((counted, true)) => {
                        assert_eq!(output.recorded, counted, "{context}");
                        assert_eq!(counted, WRITTEN, "{context}: it wrote that much");
                        counts[0] += 1;
                    }
                    Some((_, false)) => counts[1] += 1,
                    None => {
                        let refused = end.code.as_deref() == Some("spawn_failed");
                        assert!(refused || end.output_incomplete == Some(true), "{context}: {end:?}");
                        counts[1] += 1;
                    }
                }
            }
            _ => {}
        }
    }
    assert!(commands.is_empty(), "{context}: a command without an end");
    counts
}

fn shell(command: &str) -> RunConfig {
    RunConfig { command: Some(command.into()), ..RunConfig::default() }
}

#[tokio::test]
async fn a_slow_disk_loses_no_output() {
    const BYTES: u64 = 1_900_000;
    let scene = Scene::with("").await;
    scene.put("much.txt", &"0123456789abcdef\n".repeat(120_000).as_bytes()[..1_900_000]);
    scene.disk.faults.slow(Duration::from_millis(400));
    let run = scene.call(RunKind::Shell, shell("cat much.txt")).await;
    let events = scene.ended(run).await;
    let exited = first!(events, ToolShellExited);
    assert_eq!((recorded(&events, Stream::Stdout), exited.stdout_bytes), (BYTES, BYTES));
    assert!(!exited.truncated);
}

/// Larger than the read-ahead, but small enough that the rest fits into the pipe, so that the command ends at once
/// where large pipes are available.
const MUCH: usize = 1_200_000;

#[tokio::test]
async fn a_slow_disk_loses_no_output_at_a_timeout() {
    let scene = Scene::with("").await;
    scene.put("much.txt", &"0123456789abcdef\n".repeat(80_000).as_bytes()[..MUCH]);
    scene.disk.faults.slow(Duration::from_millis(400));
    let order = RunConfig {
        timeout_seconds: Some(1),
        ..shell("cat much.txt && touch written; sleep 1000; sleep 1000")
    };
    let run = scene.call(RunKind::Shell, order).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, RunFailed).code, "wall_clock");
    let exited = first!(events, ToolShellExited);
    assert_eq!((recorded(&events, Stream::Stdout), exited.truncated), (exited.stdout_bytes, false));
    let path = first!(events, RunQueued).workspace_path.unwrap();
    if Path::new(&path).join("written").exists() {
        assert_eq!(exited.stdout_bytes, MUCH as u64);
    }
}

#[tokio::test]
async fn a_cancelled_command_reports_that_output_may_be_missing() {
    let scene = Scene::with("").await;
    let run = scene.call(RunKind::Shell, shell("seq 1 300000; sleep 1000")).await;
    scene.until(run, "tool.shell.output_chunk").await;
    scene.disk.faults.slow(Duration::from_millis(20));
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    let cancelled = first!(events, ToolCancelled);
    assert!(!types(&events).contains(&"tool.shell.exited"));
    assert_eq!(cancelled.output_incomplete, Some(true));
}

#[tokio::test]
async fn an_interrupted_command_reports_that_output_may_be_missing() {
    let mut scene = Scene::with("").await;
    scene.disk.crash_at(Crash { at: CrashAt::Type("tool.shell.output_chunk"), kept: true });
    let run = scene.call(RunKind::Shell, shell("echo one; echo two >&2; sleep 1000")).await;
    scene.disk.crashed().await;
    scene.restart().await;
    let events = scene.ended(run).await;
    let failed = first!(events, ToolFailed);
    assert_eq!((failed.code.as_deref(), failed.output_incomplete), (Some("interrupted"), Some(true)));
}

/// Two commands with long output on both streams, files, a question to a person, and text before and after.
const STORY: &str = r#"
[pace]
words = 4
[[turn]]
text = "I begin with some words and a command."
call = [
  { name = "shell_exec", input = { command = "seq 1 20000; seq 1 5000 >&2" } },
  { name = "write_file", input = { path = "a.txt", content = "one\n" } },
]
[[turn]]
call = [
  { name = "shell_exec", input = { command = "seq 1 20000; seq 1 5000 >&2" } },
  { name = "ask_user", input = { question = "Go on?" } },
]
[[turn]]
text = "That is all."
"#;

/// The number of bytes that each of these commands writes.
const WRITTEN: [u64; 2] = [108_894, 23_893];

/// Longer than any of these disks needs for the whole story.
const PATIENCE: Duration = Duration::from_secs(600);

async fn story() -> Scene {
    Scene::with_setup(Setup { script: STORY.into(), patience: PATIENCE, ..Setup::default() }).await
}

/// Plays the story on a disk and checks its end. `None` if the run could not be created.
async fn play(scene: &Scene, context: &str) -> Option<[usize; 2]> {
    let run = scene.try_queue(model_run("go"), RunConfig::default(), None, None).await.ok()?;
    let events = scene.approve_all(run).await;
    let last = events.last().unwrap();
    let is_end = matches!(last.payload(), Payload::RunFinished(_) | Payload::RunFailed(_));
    assert!(is_end, "{context}: {:?}", types(&events));
    Some(check_outputs(&events, context))
}

/// Plays the story on many disks, several at a time: most of the time is waiting for the next worker. Returns how often
/// each disk failed.
async fn on_each(disks: impl IntoIterator<Item = (String, Box<dyn Fn(&WriteFaults)>)>) -> Vec<usize> {
    let stories = disks.into_iter().map(|(context, set)| async move {
        let scene = story().await;
        set(&scene.disk.faults);
        play(&scene, &context).await;
        scene.disk.faults.failures()
    });
    stream::iter(stories).buffer_unordered(STORIES_AT_ONCE).collect().await
}

/// The same on disks that are known to fail.
async fn on_each_that_fails(disks: impl IntoIterator<Item = (String, Box<dyn Fn(&WriteFaults)>)>) {
    let failures = on_each(disks).await;
    assert!(failures.iter().all(|failures| *failures > 0), "a disk that never failed: {failures:?}");
}

/// Checks that enough disks failed. With random failures and varying writes, some never fail.
pub(crate) fn most_failed(failures: &[usize]) {
    let spared = failures.iter().filter(|failures| **failures == 0).count();
    assert!(spared * 4 <= failures.len(), "{spared} of {} disks never failed", failures.len());
}

/// Stories that run at once.
const STORIES_AT_ONCE: usize = 12;

/// A disk: a description of its fault, and how to set it.
type Disk = (String, Box<dyn Fn(&WriteFaults)>);

#[tokio::test]
async fn a_single_write_failure_loses_nothing_silently() {
    let calm = story().await;
    assert_eq!(play(&calm, "a good disk").await, Some([2, 0]));
    let writes = calm.disk.faults.writes();
    assert!(writes > 15, "only {writes} writes");
    let mut disks: Vec<Disk> = Vec::new();
    for failure in [WriteFailure::Full, WriteFailure::Write, WriteFailure::Sync] {
        // Output is not always distributed to the same appends; there are at least this many.
        for at in 1..=writes * 3 / 4 {
            disks.push((
                format!("{failure:?} at write {at}"),
                Box::new(move |faults| faults.fail(at, 1, failure)),
            ));
        }
    }
    on_each_that_fails(disks).await;
}

#[tokio::test]
async fn a_temporarily_full_disk_loses_nothing_silently() {
    let disk = |at| -> Disk {
        (format!("full from write {at} on"), Box::new(move |faults| faults.fail(at, 6, WriteFailure::Full)))
    };
    on_each_that_fails([3, 6, 8, 10, 12].map(disk)).await;
}

/// The number of seeds if no duration is set.
const SEEDS: u64 = 12;

/// The random disks to try. With `RECOUNT_DISKS_SECONDS` it continues for that long, on disks that take up to 5 s for a
/// write, from the seed `RECOUNT_DISKS_SEED`; `cargo xtask soak --disks` uses this.
pub(crate) struct Seeds {
    first: u64,
    next: Cell<u64>,
    until: Option<Instant>,
}

impl Seeds {
    pub(crate) fn of_this_run() -> Self {
        let variable = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
        let first = variable("RECOUNT_DISKS_SEED").unwrap_or(1);
        let seconds = variable("RECOUNT_DISKS_SECONDS").map(Duration::from_secs);
        Seeds { first, next: Cell::new(first), until: seconds.map(|time| recount_world::moment() + time) }
    }

    /// Each seed, with the maximum duration of a write.
    pub(crate) fn disks(&self) -> impl Iterator<Item = (u64, Duration)> {
        // Most disks are fast; otherwise few stories would run in an hour.
        let delays: &[u64] = if self.until.is_some() { &[50, 50, 50, 200, 1_000, 5_000] } else { &[60] };
        let delays = delays.iter().map(|delay| Duration::from_millis(*delay)).cycle();
        let is_next = |(seed, _): &(u64, Duration)| {
            self.next.set(*seed);
            match self.until {
                Some(until) => recount_world::moment() < until,
                None => *seed < self.first + SEEDS,
            }
        };
        (self.first..).zip(delays).take_while(is_next)
    }

    /// The number of tried disks, with their seeds.
    pub(crate) fn tried(&self) -> String {
        let (first, next) = (self.first, self.next.get());
        format!("{} disks, seeds {first} to {}", next - first, next - 1)
    }
}

#[tokio::test]
#[ignore = "full: disks that fail by chance"]
async fn random_slow_and_failing_disks_lose_nothing_silently() {
    let seeds = Seeds::of_this_run();
    let disks = seeds.disks().map(|(seed, delay_max)| -> Disk {
        (format!("seed {seed}"), Box::new(move |faults| faults.draw(seed, delay_max, 20, 3)))
    });
    most_failed(&on_each(disks).await);
    println!("{}: no byte was lost silently", seeds.tried());
}

#[tokio::test]
async fn the_model_is_informed_about_output_that_was_not_stored() {
    let script = r#"
[[turn]]
call = [
  { name = "read_file", input = { path = "long" } },
  { name = "shell_exec", input = { command = "cat long" } },
  { name = "read_file", input = { path = "dot.png" } },
  { name = "grep", input = { pattern = "wide" } },
]
[[turn]]
text = "Read."
"#;
    let scene = Scene::with(script).await;
    scene.put("long", "a line of some length\n".repeat(3_000));
    scene.put("dot.png", crate::runs::pictures::PNG);
    scene.put("wide", format!("{}wide\n", "-".repeat(300)).repeat(300));
    scene.disk.faults.refuse_blobs();
    let run = scene.start("read").await;
    let events = scene.ended(run).await;
    let outputs = results(&events);
    for (at, (text, _)) in outputs.iter().enumerate() {
        if at == 1 {
            // The output of a command is in the log and needs no blob.
            assert!(text.contains("the complete output is stored as art_"), "{text}");
            continue;
        }
        assert!(text.contains("could not be stored") && text.contains("no space is left"), "{text}");
    }
    // Results that need no artifact were recorded.
    assert_eq!(outputs.iter().map(|(_, is_error)| *is_error).collect::<Vec<_>>(), [true, false, true, false]);
}
