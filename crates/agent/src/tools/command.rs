//! Runs one command for a tool and reports its output and end. Used for the shell and for git.
//!
//! It must never know the purpose of a command.
//!
//! Start at [`run`]. `tool.shell.command` is durable before the process starts, and output is reported as it arrives.
//! The outcome contains the events of the end.

use std::sync::Arc;
use std::time::Duration;

use recount_event::family::shell::{Command, Exited, Stream};
use recount_event::{Draft, ForeignId, Payload};
use recount_redact::Redactor;
use tokio::time::Instant;

use crate::limits::{DRAIN_WAIT, READ_AT_ONCE_BYTES};
use crate::sandbox::process::{Exit, FullWorkspace, Limit, Process, signal_name};
use crate::sandbox::{Sandbox, SandboxCommand, SandboxSettings};
use crate::tool::{Cancel, EventReporter, Job, Outcome, OutcomeStatus, OutputInLog, RunLost};
use crate::tools::ending::{CallFailure, first_line};
use crate::tools::limits;
use crate::tools::output::{OutputStream, OutputTotals};

/// The command to run.
pub(crate) struct CommandPlan {
    pub(crate) argv: Vec<String>,
    /// In one line, for people.
    pub(crate) title: String,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) timeout: Duration,
    pub(crate) kind: &'static str,
}

/// Why a command was stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Cancelled,
    WallClock,
    OutputCap,
    /// The worker has lost the run.
    RunLost,
}

/// A command that was started.
struct RunningCommand {
    process: Process,
    streams: [OutputStream; 2],
    buffer: Box<[u8]>,
    totals: OutputTotals,
    exit: Option<Exit>,
    cut: Option<Cut>,
    wall: Instant,
    drain: Drain,
    output_left: u64,
    /// The output exceeded its limit; the rest was not read.
    capped: bool,
    cancel: Cancel,
}

pub(crate) async fn run(sandbox: &Sandbox, job: Job<'_>, plan: CommandPlan) -> Outcome {
    match carry_out(sandbox, job, plan).await {
        Ok(outcome) => outcome,
        Err(failure) => failure.into(),
    }
}

async fn carry_out(sandbox: &Sandbox, job: Job<'_>, plan: CommandPlan) -> Result<Outcome, CallFailure> {
    let Job { call, tool_name, terms, reporter, artifacts, redactor, cancel, .. } = job;
    if cancel.is_cancelled() {
        return Err(CallFailure::cancelled());
    }
    let CommandPlan { argv, title, environment, timeout, kind } = plan;
    let order = SandboxCommand { argv, root: &terms.root, network: terms.network, environment };
    let mut command = command_event(sandbox, &order, call, kind);
    command.tool_name = Some(tool_name.to_owned());
    let from_sequence = reporter.report(vec![Payload::ToolShellCommand(Box::new(command)).into()]).await?;

    let started = recount_world::moment();
    let process = match sandbox.start(order).await {
        Ok(process) => process,
        Err(error) => return Err(CallFailure::failed("spawn_failed", error.to_string())),
    };
    let mut running =
        RunningCommand::new(process, redactor, started + timeout, terms.output_bytes_max, cancel);
    let mut events = running.report_output(call, reporter).await?;

    let exited = running.exited(call);
    let mut ended = CommandEnd {
        title,
        exit: running.exit.expect("a finished command has a result"),
        cut: running.cut,
        seconds: timeout.as_secs_f64(),
        output_bytes_max: terms.output_bytes_max,
        settings: sandbox.settings().clone(),
        stdout: running.streams[0].excerpt(),
        stderr: running.streams[1].excerpt(),
        notes: exited.left_open.iter().flatten().map(|stream| still_open_note(*stream)).collect(),
    };
    let mut artifact = None;
    if ended.stdout.1 || ended.stderr.1 {
        let is_binary = running.totals.is_binary;
        let mime = if is_binary { "application/octet-stream" } else { "text/plain; charset=utf-8" };
        let output = OutputInLog {
            call: call.clone(),
            mime: mime.to_owned(),
            summary: Some(first_line(&ended.title)),
            size_bytes: running.totals.bytes,
            from_sequence,
        };
        match artifacts.store_output(output).await {
            Ok(stored) => {
                events.push(stored.created);
                ended.notes.push(format!("the complete output is stored as {}", &*stored.id));
                artifact = Some(stored.id);
            }
            // The log has the complete output; only the artifact is missing.
            Err(error) => {
                tracing::warn!(%error, "the output of a command was not stored as an artifact");
                ended.notes.push(format!("the output could not be stored as an artifact: {error}"));
            }
        }
    }
    events.push(Payload::ToolShellExited(Box::new(exited)).into());
    Ok(ended.outcome(events, artifact))
}

fn command_event(sandbox: &Sandbox, order: &SandboxCommand<'_>, call: &ForeignId, kind: &str) -> Command {
    let mut command = Command::new(call.clone(), order.argv.clone(), order.root.display().to_string());
    command.env_keys = Some(sandbox.variables(order));
    command.sandbox_layer = Some(sandbox.label(order.network));
    command.kind = Some(kind.to_owned());
    command
}

impl RunningCommand {
    fn new(
        mut process: Process,
        redactor: &Arc<Redactor>,
        wall: Instant,
        output_bytes_max: u64,
        cancel: Cancel,
    ) -> Self {
        let (stdout, stderr) = process.outputs().expect("the outputs are taken only here");
        RunningCommand {
            process,
            streams: [
                OutputStream::new(Stream::Stdout, stdout, redactor),
                OutputStream::new(Stream::Stderr, stderr, redactor),
            ],
            buffer: vec![0; 2 * READ_AT_ONCE_BYTES].into_boxed_slice(),
            totals: OutputTotals::default(),
            exit: None,
            cut: None,
            wall,
            drain: Drain::new(),
            output_left: output_bytes_max,
            capped: false,
            cancel,
        }
    }

    /// Reports output as it arrives, until the command has ended. Returns the last events, which are reported with the
    /// end.
    async fn report_output(
        &mut self,
        call: &ForeignId,
        reporter: &mut dyn EventReporter,
    ) -> Result<Vec<Draft>, CallFailure> {
        loop {
            let is_over = self.is_over();
            let mut drafts = Vec::new();
            for stream in &mut self.streams {
                stream.flush(call, &mut self.totals, &mut drafts, is_over);
            }
            if is_over && drafts.len() <= limits::FINAL_CHUNKS_MAX {
                return Ok(drafts);
            }
            if drafts.is_empty() {
                self.step(self.due()).await;
                continue;
            }
            let mut reporting = reporter.report(drafts);
            let reported: Result<u64, RunLost> = loop {
                tokio::select! {
                    biased;
                    reported = &mut reporting => break reported,
                    // Output that becomes due meanwhile is flushed next; waiting for it here would return immediately
                    // again and again.
                    () = self.step(None) => {}
                }
            };
            if reported.is_err() {
                self.cut = Some(Cut::RunLost);
                self.process.kill();
                self.process.ended().await;
                return Err(CallFailure::cancelled());
            }
        }
    }

    /// The event of the end.
    fn exited(&self, call: &ForeignId) -> Exited {
        let exit = self.exit.expect("a finished command has a result");
        let [stdout, stderr] = &self.streams;
        let left_open: Vec<Stream> =
            self.streams.iter().filter(|stream| stream.is_left_open()).map(OutputStream::stream).collect();
        let mut exited = Exited::new(
            call.clone(),
            exit.code.map(i64::from),
            exit.signal.map(signal_name),
            stdout.bytes_reported(),
            stderr.bytes_reported(),
            self.capped || !left_open.is_empty(),
        );
        exited.signal_number = exit.signal.and_then(|number| u64::try_from(number).ok());
        exited.left_open = (!left_open.is_empty()).then_some(left_open);
        exited
    }

    /// Whether the command has ended and all of its output was read.
    fn is_over(&self) -> bool {
        self.exit.is_some() && self.streams.iter().all(OutputStream::has_ended)
    }

    /// When the next output must be flushed or released.
    fn due(&self) -> Option<Instant> {
        self.streams.iter().filter_map(OutputStream::due).min()
    }

    /// Waits for the next thing to happen, or until `due`. Dropping the future loses nothing.
    async fn step(&mut self, due: Option<Instant>) {
        let [out, err] = &mut self.streams;
        let (out_room, err_room) = (out.has_room(), err.has_room());
        let (wall, over) = (self.wall, self.exit.is_some());
        let open_sides_are_idle = [&*out, &*err].iter().all(|stream| stream.has_ended() || stream.is_idle());
        let drained_by = self.drain.count(over && open_sides_are_idle, recount_world::moment());
        let (buffer, more) = self.buffer.split_at_mut(READ_AT_ONCE_BYTES);
        tokio::select! {
            exit = self.process.ended(), if !over => {
                self.exit = Some(exit);
                self.streams.iter_mut().for_each(OutputStream::command_ended);
            }
            () = self.cancel.cancelled(), if self.cut.is_none() && !over => {
                self.cut = Some(Cut::Cancelled);
                self.process.stop();
            }
            () = tokio::time::sleep_until(wall), if self.cut.is_none() && !over => {
                self.cut = Some(Cut::WallClock);
                self.process.stop();
            }
            count = out.read(clamp(buffer, self.output_left), self.output_left), if out_room => self.count_read(count),
            count = err.read(clamp(more, self.output_left), self.output_left), if err_room => self.count_read(count),
            () = until(drained_by) => {
                self.streams.iter_mut().for_each(OutputStream::leave_open);
                self.drain = Drain::new();
            }
            () = until(due) => {}
            // Everything is read and reported, and the command is still running.
            () = std::future::pending() => {}
        }
    }

    /// Counts what was read. At most one byte beyond the limit is read, which shows that there is more.
    fn count_read(&mut self, count: usize) {
        let beyond = count as u64 > self.output_left;
        self.output_left = self.output_left.saturating_sub(count as u64);
        if beyond {
            self.cut.get_or_insert(Cut::OutputCap);
            self.capped = true;
            self.process.kill();
            for stream in &mut self.streams {
                stream.end();
            }
        }
    }
}

/// How long to wait for the pipes of a command that has ended. Only waiting counts, not the time that a slow disk
/// takes.
struct Drain {
    left: Duration,
    since: Option<Instant>,
}

impl Drain {
    fn new() -> Self {
        Drain { left: DRAIN_WAIT, since: None }
    }

    /// Counts the time since the last call if that was a wait. Returns the end of the wait that begins now, if
    /// `is_wait`.
    fn count(&mut self, is_wait: bool, now: Instant) -> Option<Instant> {
        if let Some(since) = self.since {
            self.left = self.left.saturating_sub(now.duration_since(since));
        }
        self.since = is_wait.then_some(now);
        self.since.map(|since| since + self.left)
    }
}

fn still_open_note(stream: Stream) -> String {
    format!("another process still has {stream} open; later output is not recorded")
}

/// A buffer for `most` bytes and one more, if it is large enough.
fn clamp(buffer: &mut [u8], most: u64) -> &mut [u8] {
    let most = usize::try_from(most.saturating_add(1)).map_or(buffer.len(), |most| most.min(buffer.len()));
    &mut buffer[..most]
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// How to continue in a full workspace.
const MAKE_ROOM: &str = "delete files that are not needed, with a command that only deletes, or ask an operator to raise \
     sandbox.workspace_bytes";

/// Everything that the outcome of a command depends on.
struct CommandEnd {
    title: String,
    exit: Exit,
    cut: Option<Cut>,
    seconds: f64,
    output_bytes_max: u64,
    settings: SandboxSettings,
    /// The text of each stream, and whether it was truncated.
    stdout: (String, bool),
    stderr: (String, bool),
    /// Further notes about the output.
    notes: Vec<String>,
}

impl CommandEnd {
    fn outcome(self, events: Vec<Draft>, artifact: Option<ForeignId>) -> Outcome {
        let status = self.status();
        let status_line = match (&status, self.exit) {
            (OutcomeStatus::Failed { error, .. } | OutcomeStatus::TimedOut { error, .. }, _) => error.clone(),
            (OutcomeStatus::Cancelled, _) => "cancelled".to_owned(),
            (OutcomeStatus::Completed, Exit { code: Some(code), .. }) => format!("exit code {code}"),
            (OutcomeStatus::Completed, _) => "completed".to_owned(),
        };
        let mut output = format!("{status_line}\n");
        for (name, (text, _)) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                output += &format!("--- {name}\n{text}{end}");
            }
        }
        for note in self.notes.iter().chain(&self.bounds()) {
            output += &format!("--- {note}\n");
        }
        let summary = first_line(&format!("{status_line}: {}", self.title));
        Outcome { status, output, summary, events, artifact, image: None }
    }

    /// Notes about sandbox limits that affected the command without ending it.
    fn bounds(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.exit.lost_to_memory {
            notes.push(format!(
                "the kernel killed a process of this command because its processes used more than {} MiB of \
                 memory together; the command itself ran to its end",
                self.settings.memory_bytes >> 20
            ));
        }
        match self.exit.full {
            Some(FullWorkspace { why, at_start: true }) => notes.push(format!(
                "{why}: this command could delete files but not write (EFBIG, \"File too large\"); \
                 {MAKE_ROOM}"
            )),
            Some(FullWorkspace { why, at_start: false }) if self.exit.limit != Some(Limit::Workspace) => {
                notes.push(format!("{why}: the next command can delete files but not write; {MAKE_ROOM}"));
            }
            _ => {}
        }
        notes
    }

    fn status(&self) -> OutcomeStatus {
        let cut = self.cut.filter(|cut| self.exit.limit.is_none() || *cut != Cut::OutputCap);
        match (cut, self.exit.limit) {
            (Some(Cut::Cancelled | Cut::RunLost), _) => OutcomeStatus::Cancelled,
            (Some(Cut::WallClock), _) => OutcomeStatus::TimedOut {
                code: "wall_clock",
                error: format!("stopped: the command ran longer than {} s", self.seconds),
            },
            (Some(Cut::OutputCap), _) => OutcomeStatus::Failed {
                code: "output_cap",
                error: format!("stopped: the command wrote more than {} bytes", self.output_bytes_max),
            },
            (None, Some(Limit::Memory)) => OutcomeStatus::Failed {
                code: "memory_limit",
                error: match self.exit.code {
                    None => {
                        format!(
                            "killed: the command used more than {} MiB of memory",
                            self.settings.memory_bytes >> 20
                        )
                    }
                    Some(code) => format!(
                        "a process was killed because the processes of the command used more than {} MiB of \
                         memory together; the command ended with exit code {code}",
                        self.settings.memory_bytes >> 20
                    ),
                },
            },
            (None, Some(Limit::Workspace)) => OutcomeStatus::Failed {
                code: "workspace_limit",
                error: match self.exit.full {
                    Some(FullWorkspace { why, .. }) => format!("killed: {why}; {MAKE_ROOM}"),
                    None => format!(
                        "killed: the command exceeded the size limit of the workspace; \
                                     {MAKE_ROOM}"
                    ),
                },
            },
            (None, Some(Limit::Processes)) => OutcomeStatus::Failed {
                code: "process_limit",
                error: format!(
                    "killed: the command ran more than {} processes at once",
                    self.settings.processes
                ),
            },
            (None, None) => match self.exit {
                Exit { code: Some(_), .. } => OutcomeStatus::Completed,
                Exit { signal: Some(number), .. } => OutcomeStatus::Failed {
                    code: "signal",
                    error: format!("ended by {} (signal {number})", signal_name(number)),
                },
                _ => OutcomeStatus::Failed {
                    code: "exit_unknown",
                    error: "the command ended with an unknown exit status".to_owned(),
                },
            },
        }
    }
}
