//! Runs one command for a tool and tells what happens: the same for the shell and for git.
//!
//! Look at [`run`]. `tool.shell.command` is durable before anything starts, output is told as it comes, and what
//! is told of the end goes with the outcome. It must never know what a command is for.

use std::time::Duration;

use recount_event::family::shell::{Command, Exited, Stream};
use recount_event::{Draft, ForeignId, Payload};
use tokio::time::Instant;

use crate::limits::{DRAIN_WAIT, READ_AT_ONCE_BYTES};
use crate::sandbox::process::{Exit, FullWorkspace, Limit, Process, signal_name};
use crate::sandbox::{Order, Sandbox, SandboxSettings};
use crate::tool::{Cancel, Gone, How, Job, Outcome, OutputInLog};
use crate::tools::ending::{Stop, first_line};
use crate::tools::limits;
use crate::tools::output::{OutputTold, Side};

/// What is run.
pub(crate) struct CommandPlan {
    pub(crate) argv: Vec<String>,
    /// In one line, for people.
    pub(crate) title: String,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) timeout: Duration,
    pub(crate) kind: &'static str,
}

/// Why a command is over before it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Cancelled,
    WallClock,
    OutputCap,
    /// Nobody is told any more.
    Gone,
}

/// A command on its way.
struct RunningCommand {
    process: Process,
    sides: [Side; 2],
    room: Box<[u8]>,
    all: OutputTold,
    exit: Option<Exit>,
    cut: Option<Cut>,
    wall: Instant,
    drain: Drain,
    output_left: u64,
    /// Output went beyond what the command may write; the rest was not read.
    capped: bool,
    cancel: Cancel,
}

pub(crate) async fn run(sandbox: &Sandbox, job: Job<'_>, wanted: CommandPlan) -> Outcome {
    match carry_out(sandbox, job, wanted).await {
        Ok(outcome) => outcome,
        Err(stop) => stop.into(),
    }
}

async fn carry_out(sandbox: &Sandbox, job: Job<'_>, wanted: CommandPlan) -> Result<Outcome, Stop> {
    let Job { call, tool_name, terms, teller, keeper, redactor, cancel, .. } = job;
    if cancel.is_cancelled() {
        return Err(Stop::cancelled());
    }
    let order = Order {
        argv: wanted.argv,
        root: &terms.root,
        network: terms.network,
        environment: wanted.environment,
    };
    let mut command = Command::new(call.clone(), order.argv.clone(), terms.root.display().to_string());
    command.env_keys = Some(sandbox.variables(&order));
    command.sandbox_layer = Some(sandbox.label(terms.network));
    command.tool_name = Some(tool_name.to_owned());
    command.kind = Some(wanted.kind.to_owned());
    let from_sequence = teller.tell(vec![Payload::ToolShellCommand(Box::new(command)).into()]).await?;

    let began = recount_world::moment();
    let mut process = match sandbox.start(order).await {
        Ok(process) => process,
        Err(error) => return Err(Stop::failed("spawn_failed", error.to_string())),
    };
    let (stdout, stderr) = process.outputs().expect("nobody has taken them before");
    let mut watch = RunningCommand {
        process,
        sides: [Side::new(Stream::Stdout, stdout, redactor), Side::new(Stream::Stderr, stderr, redactor)],
        room: vec![0; 2 * READ_AT_ONCE_BYTES].into_boxed_slice(),
        all: OutputTold::default(),
        exit: None,
        cut: None,
        wall: began + wanted.timeout,
        drain: Drain::new(),
        output_left: terms.output_bytes_max,
        capped: false,
        cancel,
    };
    let mut events = loop {
        let is_over = watch.is_over();
        let mut drafts = Vec::new();
        for side in &mut watch.sides {
            side.tell(call, &mut watch.all, &mut drafts, is_over);
        }
        if is_over && drafts.len() <= limits::CHUNKS_TOLD_LAST {
            break drafts;
        }
        if drafts.is_empty() {
            let due = watch.due();
            watch.step(due).await;
            continue;
        }
        let mut telling = teller.tell(drafts);
        let told: Result<u64, Gone> = loop {
            tokio::select! {
                biased;
                told = &mut telling => break told,
                // What becomes due meanwhile is told next; waiting for it here would end at once, again and again.
                () = watch.step(None) => {}
            }
        };
        if told.is_err() {
            watch.cut = Some(Cut::Gone);
            watch.process.kill();
            watch.process.ended().await;
            return Err(Stop::cancelled());
        }
    };
    let RunningCommand { exit, cut, mut sides, all, capped, .. } = watch;
    let left_open: Vec<Stream> = sides.iter().filter(|side| side.is_left_open()).map(Side::stream).collect();
    let exit = exit.expect("a command is over when it has ended");
    let mut ended = CommandEnd {
        title: wanted.title,
        exit,
        cut,
        seconds: wanted.timeout.as_secs_f64(),
        output_bytes_max: terms.output_bytes_max,
        settings: sandbox.settings().clone(),
        stdout: sides[0].excerpt(),
        stderr: sides[1].excerpt(),
        notes: left_open.iter().map(|stream| held_open(*stream)).collect(),
    };
    let mut exited = Exited::new(
        call.clone(),
        exit.code.map(i64::from),
        exit.signal.map(signal_name),
        sides[0].bytes_told(),
        sides[1].bytes_told(),
        capped || !left_open.is_empty(),
    );
    exited.signal_number = exit.signal.and_then(|number| u64::try_from(number).ok());
    exited.left_open = (!left_open.is_empty()).then_some(left_open);
    let mut artifact = None;
    if ended.stdout.1 || ended.stderr.1 {
        let mime = if all.is_binary { "application/octet-stream" } else { "text/plain; charset=utf-8" };
        let output = OutputInLog {
            call: call.clone(),
            mime: mime.to_owned(),
            summary: Some(first_line(&ended.title)),
            size_bytes: all.bytes,
            from_sequence,
        };
        match keeper.keep_output(output).await {
            Ok(kept) => {
                events.push(kept.created);
                ended.notes.push(format!("the whole output is kept as {}", &*kept.id));
                artifact = Some(kept.id);
            }
            // The log has all of it; only its name as an artifact is missing.
            Err(error) => {
                tracing::warn!(%error, "the output of a command is not kept as an artifact");
                ended.notes.push(format!("the output could not be kept as an artifact: {error}"));
            }
        }
    }
    events.push(Payload::ToolShellExited(Box::new(exited)).into());
    Ok(ended.outcome(events, artifact))
}

impl RunningCommand {
    /// Whether the command is gone and all of its output was taken.
    fn is_over(&self) -> bool {
        self.exit.is_some() && self.sides.iter().all(Side::has_ended)
    }

    /// When something that waits is to be told.
    fn due(&self) -> Option<Instant> {
        self.sides.iter().filter_map(Side::due).min()
    }

    /// Does the next thing that can be done, or nothing if it is `due` that something is told. Dropping the future loses
    /// nothing.
    async fn step(&mut self, due: Option<Instant>) {
        let [out, err] = &mut self.sides;
        let (out_room, err_room) = (out.has_room(), err.has_room());
        let (wall, over) = (self.wall, self.exit.is_some());
        let open_sides_are_idle = [&*out, &*err].iter().all(|side| side.has_ended() || side.is_idle());
        let drained_by = self.drain.count(over && open_sides_are_idle, recount_world::moment());
        let (room, more) = self.room.split_at_mut(READ_AT_ONCE_BYTES);
        tokio::select! {
            exit = self.process.ended(), if !over => {
                self.exit = Some(exit);
                self.sides.iter_mut().for_each(Side::command_ended);
            }
            () = self.cancel.cancelled(), if self.cut.is_none() && !over => {
                self.cut = Some(Cut::Cancelled);
                self.process.stop();
            }
            () = tokio::time::sleep_until(wall), if self.cut.is_none() && !over => {
                self.cut = Some(Cut::WallClock);
                self.process.stop();
            }
            count = out.read(clamp(room, self.output_left), self.output_left), if out_room => self.took(count),
            count = err.read(clamp(more, self.output_left), self.output_left), if err_room => self.took(count),
            () = until(drained_by) => {
                self.sides.iter_mut().for_each(Side::leave_open);
                self.drain = Drain::new();
            }
            () = until(due) => {}
            // Everything is read and told, and the command goes on.
            () = std::future::pending() => {}
        }
    }

    /// Counts what was read. Of what is beyond the cap one byte at most is read, which shows that there is more.
    fn took(&mut self, count: usize) {
        let beyond = count as u64 > self.output_left;
        self.output_left = self.output_left.saturating_sub(count as u64);
        if beyond {
            self.cut.get_or_insert(Cut::OutputCap);
            self.capped = true;
            self.process.kill();
            for side in &mut self.sides {
                side.end();
            }
        }
    }
}

/// How long the pipes of a command that has ended were listened to in vain. What a slow disk takes does not count.
struct Drain {
    left: Duration,
    since: Option<Instant>,
}

impl Drain {
    fn new() -> Self {
        Drain { left: DRAIN_WAIT, since: None }
    }

    /// Counts the time since the last call, where that was a wait. Answers when the wait that begins now, if it
    /// `is_wait`, is over.
    fn count(&mut self, is_wait: bool, now: Instant) -> Option<Instant> {
        if let Some(since) = self.since {
            self.left = self.left.saturating_sub(now.duration_since(since));
        }
        self.since = is_wait.then_some(now);
        self.since.map(|since| since + self.left)
    }
}

fn held_open(stream: Stream) -> String {
    format!("another process still holds {stream} open; what it writes from here on is not recorded")
}

/// Room for so many bytes and one more, where there is as much.
fn clamp(room: &mut [u8], most: u64) -> &mut [u8] {
    let most = usize::try_from(most.saturating_add(1)).map_or(room.len(), |most| most.min(room.len()));
    &mut room[..most]
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// How to go on in a full workspace.
const MAKE_ROOM: &str = "remove what is not needed with a command that only removes, or have an operator raise sandbox.workspace_bytes";

/// Everything that is said of the end.
struct CommandEnd {
    title: String,
    exit: Exit,
    cut: Option<Cut>,
    seconds: f64,
    output_bytes_max: u64,
    settings: SandboxSettings,
    /// Each with whether something was left out.
    stdout: (String, bool),
    stderr: (String, bool),
    /// What else there is to know of the output.
    notes: Vec<String>,
}

impl CommandEnd {
    fn outcome(self, events: Vec<Draft>, artifact: Option<ForeignId>) -> Outcome {
        let how = self.how();
        let said = match (&how, self.exit) {
            (How::Failed { error, .. } | How::TimedOut { error, .. }, _) => error.clone(),
            (How::Cancelled, _) => "cancelled".to_owned(),
            (How::Completed, Exit { code: Some(code), .. }) => format!("exit code {code}"),
            (How::Completed, _) => "completed".to_owned(),
        };
        let mut output = format!("{said}\n");
        for (name, (text, _)) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                output += &format!("--- {name}\n{text}{end}");
            }
        }
        for note in self.notes.iter().chain(&self.bounds()) {
            output += &format!("--- {note}\n");
        }
        let summary = first_line(&format!("{said}: {}", self.title));
        Outcome { how, output, summary, events, artifact, image: None }
    }

    /// What the bounds of the sandbox had to do with a command that they did not end.
    fn bounds(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.exit.lost_to_memory {
            notes.push(format!(
                "the kernel killed a process of this command, because together they used more than {} MiB of memory; \
                 the command itself went on to its end",
                self.settings.memory_bytes >> 20
            ));
        }
        match self.exit.full {
            Some(FullWorkspace { why, at_start: true }) => notes.push(format!(
                "{why}: so this command could remove files and not write (EFBIG, \"File too large\"); {MAKE_ROOM}"
            )),
            Some(FullWorkspace { why, at_start: false }) if self.exit.limit != Some(Limit::Workspace) => {
                notes.push(format!("{why}: the next command can remove files and not write; {MAKE_ROOM}"));
            }
            _ => {}
        }
        notes
    }

    fn how(&self) -> How {
        let cut = self.cut.filter(|cut| self.exit.limit.is_none() || *cut != Cut::OutputCap);
        match (cut, self.exit.limit) {
            (Some(Cut::Cancelled | Cut::Gone), _) => How::Cancelled,
            (Some(Cut::WallClock), _) => How::TimedOut {
                code: "wall_clock",
                error: format!("stopped: it took longer than {} s", self.seconds),
            },
            (Some(Cut::OutputCap), _) => How::Failed {
                code: "output_cap",
                error: format!("stopped: it wrote more than {} bytes", self.output_bytes_max),
            },
            (None, Some(Limit::Memory)) => How::Failed {
                code: "memory_limit",
                error: match self.exit.code {
                    None => {
                        format!(
                            "killed: it used more than {} MiB of memory",
                            self.settings.memory_bytes >> 20
                        )
                    }
                    Some(code) => format!(
                        "a process of it was killed, because together they used more than {} MiB of memory; it \
                         ended with exit code {code}",
                        self.settings.memory_bytes >> 20
                    ),
                },
            },
            (None, Some(Limit::Workspace)) => How::Failed {
                code: "workspace_limit",
                error: match self.exit.full {
                    Some(FullWorkspace { why, .. }) => format!("killed: {why}; {MAKE_ROOM}"),
                    None => format!("killed: it wrote more than the workspace may hold; {MAKE_ROOM}"),
                },
            },
            (None, Some(Limit::Processes)) => How::Failed {
                code: "process_limit",
                error: format!("killed: it ran more than {} processes at once", self.settings.processes),
            },
            (None, None) => match self.exit {
                Exit { code: Some(_), .. } => How::Completed,
                Exit { signal: Some(number), .. } => How::Failed {
                    code: "signal",
                    error: format!("ended by {} (signal {number})", signal_name(number)),
                },
                _ => How::Failed {
                    code: "exit_unknown",
                    error: "it ended, and its exit status is not known".to_owned(),
                },
            },
        }
    }
}
