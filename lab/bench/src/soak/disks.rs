//! Runs agents on slow and failing disks, with the real SQLite store. A command's output must be recorded completely,
//! or the log must record that it is not. What a follower received must equal what the store holds after it was
//! reopened.
//!
//! Each disk has its own store, engine and agent, and is drawn from a seed. [`FaultyDisk`] draws which calls of SQLite
//! are delayed or fail. Start at [`run`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use recount_agent::model::{ModelsSettings, Registry};
use recount_agent::sandbox::{Mode, Sandbox, SandboxContext, SandboxSettings};
use recount_agent::tools::Tools;
use recount_agent::{Agent, Settings, Workspaces};
use recount_engine::{Delivery, Engine, Error, Framing, NewRun, Redactor, RunConfig};
use recount_event::family::run::{Queued, RunKind};
use recount_event::family::shell::Stream;
use recount_event::{Event, ForeignId, Json, Payload, RunId, codec};
use recount_faulty_disk::{FaultCounts, FaultyDisk};
use recount_log::{ReadBound, Store};
use recount_log_sqlite::{SqliteOptions, SqliteStore};
use recount_run::Command;
use recount_world::World;

use crate::clock;

/// Concurrent stories: each mostly waits.
const STORIES_AT_ONCE: usize = 6;
/// The maximum delay of a disk, in turn. Most disks are fast, or few stories would fit into an hour.
const DELAYS_MS: [u64; 8] = [50, 50, 200, 50, 50, 1_000, 50, 5_000];
/// A delay is at most this part of the whole time, so that a short soak is short.
const DELAY_DIVISOR: u64 = 40;
/// How long a story may take, on the slowest disk.
const STORY_SECONDS_MAX: u64 = 600;
/// The interval between attempts to resolve a prompt while the disk fails.
const RETRY_MS: u64 = 20;
/// Few pages, so that the log is checkpointed during a story.
const CHECKPOINT_PAGES: u32 = 32;
const RESERVE_BYTES: u64 = 64 << 10;
const WORKERS: usize = 4;
const WHOLE: ReadBound = ReadBound { count: usize::MAX, bytes: usize::MAX };

/// Two commands with long output on both streams, a file, a question to a person, and text before and after.
const SCRIPT: &str = r#"
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
/// The bytes that each of these commands writes to its two streams.
const WRITTEN: [u64; 2] = [108_894, 23_893];

/// Frames are the stored bytes, a line each.
struct DiskLines;

impl Framing for DiskLines {
    fn frame(&self, _cursor: u64, record: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(record);
        out.extend_from_slice(b"\n");
    }
}

#[derive(Default)]
struct Tally {
    stories: u64,
    not_started: u64,
    events: u64,
    whole: u64,
    incomplete: u64,
    disks: FaultCounts,
}

/// Runs stories for so many minutes. `false`: a promise was broken.
pub(super) async fn run(folder: &Path, minutes: f64, seed: u64) -> Result<bool> {
    println!("seed {seed}, {minutes} minutes, agents on slow and failing disks under SQLite");
    let off = SandboxSettings { mode: Mode::Off, ..SandboxSettings::default() };
    let sandbox = Sandbox::probe(off, SandboxContext::default()).await;
    let sandbox = Arc::new(sandbox.map_err(|why| anyhow!("commands cannot be run: {why}"))?);
    let tally = RefCell::new(Tally::default());
    let calm = folder.join("calm");
    story(&calm, None, sandbox.clone(), &tally).await.context("on a disk that works")?;
    ensure!(tally.take().whole == 2, "on a disk that works both commands are recorded whole");
    let total = Duration::from_secs_f64(minutes * 60.0);
    let longest = total / u32::try_from(DELAY_DIVISOR)?;
    let until = clock::now_ns() + (minutes * 60e9) as u64;
    let (broken, next) = (RefCell::new(Vec::new()), Cell::new(seed));
    let delays = DELAYS_MS.map(Duration::from_millis).into_iter().cycle();
    let disks = (seed..).zip(delays).take_while(|_| clock::now_ns() < until && broken.borrow().is_empty());
    let stories = disks.map(|(seed, delay)| {
        next.set(seed + 1);
        let (sandbox, tally, broken) = (sandbox.clone(), &tally, &broken);
        async move {
            let place = folder.join(format!("disk-{seed}"));
            let outcome = story(&place, Some((seed, delay.min(longest))), sandbox, tally).await;
            if let Err(why) = outcome {
                println!("broken: seed {seed}, delays up to {delay:?}: {why:#}");
                broken.borrow_mut().push(seed);
            } else {
                std::fs::remove_dir_all(&place)?;
            }
            anyhow::Ok(())
        }
    });
    let outcomes: Vec<Result<()>> = stream::iter(stories).buffer_unordered(STORIES_AT_ONCE).collect().await;
    outcomes.into_iter().collect::<Result<()>>()?;
    let (tally, broken) = (tally.into_inner(), broken.into_inner());
    let FaultCounts { delays, full, failed_writes, failed_syncs } = tally.disks;
    println!(
        "seeds {seed} to {}: {} stories, {} of them refused at their start, {} events; {} commands recorded whole, {} as \
         incomplete; {delays} delays, {full} writes without space, {failed_writes} failed writes, {failed_syncs} failed \
         syncs; {} broken",
        next.get() - 1,
        tally.stories,
        tally.not_started,
        tally.events,
        tally.whole,
        tally.incomplete,
        broken.len(),
    );
    Ok(broken.is_empty())
}

/// Runs one story on one disk, without faults if no seed and no delay is given. An error is a broken promise.
async fn story(
    place: &Path,
    disk_is: Option<(u64, Duration)>,
    sandbox: Arc<Sandbox>,
    tally: &RefCell<Tally>,
) -> Result<()> {
    let (data, work) = (place.join("data"), place.join("work"));
    std::fs::create_dir_all(&data)?;
    std::fs::create_dir_all(&work)?;
    let place = place.canonicalize()?;
    let disk = FaultyDisk::writing_through()?;
    let options = SqliteOptions {
        vfs: Some(disk.name.clone()),
        checkpoint_pages: CHECKPOINT_PAGES,
        reserve_bytes: RESERVE_BYTES,
        ..SqliteOptions::new(data.canonicalize()?)
    };
    let engine = open_engine(options, &place, &sandbox).await?;
    if let Some((seed, delay_max)) = disk_is {
        disk.draw_faults(seed, delay_max);
    }
    let followed_run =
        tokio::time::timeout(Duration::from_secs(STORY_SECONDS_MAX), run_story(&engine, &place)).await;
    let counts = disk.heal();
    engine.shutdown().await;
    drop(engine);
    let followed_run = followed_run.map_err(|_| anyhow!("it did not end within {STORY_SECONDS_MAX} s"))??;
    {
        let mut tally = tally.borrow_mut();
        tally.stories += 1;
        tally.disks.delays += counts.delays;
        tally.disks.full += counts.full;
        tally.disks.failed_writes += counts.failed_writes;
        tally.disks.failed_syncs += counts.failed_syncs;
        tally.not_started += u64::from(followed_run.is_none());
    }
    let stored = reopen(&data, followed_run.as_ref().map(|(run, _)| *run)).await?;
    let Some((_, followed)) = followed_run else { return Ok(()) };
    ensure!(
        stored == followed,
        "a follower received {} events, and {} are stored, the same up to number {}",
        followed.len(),
        stored.len(),
        stored.iter().zip(&followed).take_while(|(one, other)| one == other).count()
    );
    let events: Vec<Event> = stored
        .iter()
        .map(|bytes| codec::decode(bytes).map_err(|why| anyhow!("{why}")))
        .collect::<Result<_>>()?;
    if let Some(illegal) = recount_run::audit(&events) {
        bail!("the run is illegal: {illegal:?}");
    }
    let last = events.last().context("a run has events")?;
    ensure!(
        matches!(last.payload(), Payload::RunFinished(_) | Payload::RunFailed(_)),
        "the run ends with {}",
        last.type_name()
    );
    let [whole, incomplete] = check_outputs(&events)?;
    let mut tally = tally.borrow_mut();
    tally.events += events.len() as u64;
    tally.whole += whole;
    tally.incomplete += incomplete;
    Ok(())
}

/// An engine with an agent on a new store.
async fn open_engine(options: SqliteOptions, place: &Path, sandbox: &Arc<Sandbox>) -> Result<Engine> {
    let world = World::real();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options)?);
    let redactor = Arc::new(Redactor::shapes());
    let engine =
        Engine::open_with(store, world.clone(), Arc::new(DiskLines), redactor).await.map_err(of_engine)?;
    std::fs::write(place.join("script.toml"), SCRIPT)?;
    let models = serde_json::json!({
        "default": "play/it",
        "providers": { "play": { "kind": "scripted", "script": "script.toml" } },
    });
    let models: ModelsSettings = serde_json::from_value(models)?;
    let models = Registry::build(&models, &|_| None, place, &world.clock).map_err(|why| anyhow!("{why}"))?;
    let mut tools = Tools::standard();
    tools.add_commands(sandbox);
    let workspaces = Workspaces {
        home: place.join("workspaces"),
        allowed: [place.join("work")].into(),
        forbidden: [place.join("data")].into(),
    };
    let settings = Settings {
        sandbox_layer: "off".into(),
        // Declares a sandbox, so that commands need no approval.
        sandboxed: true,
        workspace_instructions: false,
        ..Settings::new(models, tools, workspaces)
    };
    engine
        .work()
        .attach_performer(Arc::new(Agent::new(settings, world)), WORKERS)
        .await
        .map_err(of_engine)?;
    Ok(engine)
}

fn of_engine(error: Error) -> anyhow::Error {
    anyhow!("{error}")
}

/// Starts a run, follows it to its end and resolves its prompts. `None`: the disk did not store its first event.
async fn run_story(engine: &Engine, place: &Path) -> Result<Option<(RunId, Vec<Bytes>)>> {
    let mut queued = Queued::new(RunKind::AgentLoop);
    queued.request_text = Some("go".into());
    queued.workspace_mode = Some("clone".into());
    let order = RunConfig {
        workspace_source: Some(place.join("work").display().to_string()),
        ..RunConfig::default()
    };
    queued.config = Some(order.written());
    let new = NewRun { queued, task: None, session: None, resumed_from: None };
    let run = match engine.write().create_run(new).await {
        Ok((run, _)) => run,
        Err(Error::Failed(_)) => return Ok(None),
        Err(error) => return Err(of_engine(error)),
    };
    let mut follow = engine.read().follow_run(run, None).await.map_err(of_engine)?;
    let mut followed: Vec<Bytes> = Vec::new();
    loop {
        match follow.next().await.map_err(of_engine)? {
            Delivery::Frames { bytes, .. } => {
                let first = followed.len();
                let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                followed.extend(lines.map(|line| bytes.slice_ref(line)));
                for line in &followed[first..] {
                    let event = codec::decode(line).map_err(|why| anyhow!("{why}"))?;
                    answer(engine, run, &event).await?;
                }
            }
            Delivery::Closed => return Ok(Some((run, followed))),
            Delivery::CaughtUp | Delivery::Passed { .. } => {}
            Delivery::Gap { first, last } => bail!("events {first} to {last} are missing"),
            Delivery::Damaged(damage) => bail!("{damage}"),
        }
    }
}

/// Resolves a prompt, with retries while the disk fails.
async fn answer(engine: &Engine, run: RunId, event: &Event) -> Result<()> {
    let command = match event.payload() {
        Payload::ClarificationRequested(requested) => Command::AnswerClarification {
            clarification_id: requested.clarification_id.clone(),
            response: Json::parse("\"yes\"").map_err(|why| anyhow!("{why}"))?,
            by: "ann".to_owned(),
            blocks: None,
            config: None,
        },
        Payload::ApprovalRequested(requested) => Command::ResolveApproval {
            approval_id: requested.approval_id.clone(),
            approve: true,
            by: "ann".to_owned(),
            comment: None,
            remember: None,
        },
        _ => return Ok(()),
    };
    // A rejection: it was resolved although the response was lost, or the run has ended.
    while let Err(Error::Failed(_)) = engine.write().submit(run, command.clone()).await {
        tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
    }
    Ok(())
}

/// Reopens the store on a working disk, checks it, and reads a run.
async fn reopen(data: &Path, run: Option<RunId>) -> Result<Vec<Bytes>> {
    let options = SqliteOptions { reserve_bytes: RESERVE_BYTES, ..SqliteOptions::new(data) };
    let store = SqliteStore::open(options).context("the store cannot be opened again")?;
    let mut problems = store.integrity().await?.problems;
    problems.extend(recount_engine::check_catalogue(&store).await.map_err(of_engine)?);
    let records = match run {
        Some(run) => store.read(&run.to_string().into(), 0, WHOLE).await?,
        None => Vec::new(),
    };
    store.close().await?;
    ensure!(problems.is_empty(), "the store has problems: {}", problems.join("; "));
    Ok(records.into_iter().map(|record| record.bytes).collect())
}

/// The logged output of one command.
#[derive(Default)]
struct Output {
    recorded: [u64; 2],
    /// The byte counts of its exit, and whether they are complete.
    exited: Option<([u64; 2], bool)>,
}

/// Compares each command's recorded output with its exit. Returns how many were recorded whole, and how many in part.
fn check_outputs(events: &[Event]) -> Result<[u64; 2]> {
    let mut commands: BTreeMap<ForeignId, Output> = BTreeMap::new();
    let mut counts = [0, 0];
    for event in events {
        match event.payload() {
            Payload::ToolShellCommand(command) => {
                commands.insert(command.tool_call_id.clone(), Output::default());
            }
            Payload::ToolShellOutputChunk(chunk) => {
                let output = commands.get_mut(&chunk.tool_call_id).context("output of no command")?;
                let bytes = chunk.byte_count().context("a chunk without a length")?;
                output.recorded[usize::from(chunk.stream == Stream::Stderr)] += bytes;
            }
            Payload::ToolShellExited(exited) => {
                let output = commands.get_mut(&exited.tool_call_id).context("the exit of no command")?;
                output.exited = Some(([exited.stdout_bytes, exited.stderr_bytes], !exited.truncated));
            }
            Payload::ToolCompleted(end)
            | Payload::ToolFailed(end)
            | Payload::ToolTimedOut(end)
            | Payload::ToolCancelled(end) => {
                let Some(output) = commands.remove(&end.tool_call_id) else { continue };
                let whole = match output.exited {
                    Some((counted, true)) => {
                        ensure!(
                            output.recorded == counted && counted == WRITTEN,
                            "a command wrote {WRITTEN:?} bytes, its exit counts {counted:?}, and {:?} are recorded",
                            output.recorded
                        );
                        true
                    }
                    Some((_, false)) => false,
                    None => {
                        let was_not_started = end.code.as_deref() == Some("spawn_failed");
                        ensure!(
                            was_not_started || end.output_incomplete == Some(true),
                            "a command without an exit is not marked as incomplete: {end:?}"
                        );
                        false
                    }
                };
                counts[usize::from(!whole)] += 1;
            }
            _ => {}
        }
    }
    ensure!(commands.is_empty(), "{} commands have no outcome", commands.len());
    Ok(counts)
}
