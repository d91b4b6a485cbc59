//! Runs the program of a hook: input, output and limits.
//!
//! Start at [`run`]. The program leads its own process group. The group is killed when the program ended, timed out or
//! wrote too much, and when the future is dropped. The module must not depend on the purpose of hooks.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use recount_event::ForeignId;
use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::time::Instant;

use crate::hooks::limits;
use crate::limits::DRAIN_WAIT;
use crate::sandbox::process::{Exit, Process, signal_name};

/// One run of a program.
pub(super) struct HookRequest<'a> {
    pub(super) argv: &'a [String],
    pub(super) cwd: &'a Path,
    pub(super) environment: &'a [(String, String)],
    pub(super) input: &'a [u8],
    /// When the program is killed, and how long that is after its start.
    pub(super) until: Instant,
    pub(super) timeout: Duration,
}

/// The result of a program: its exit status and output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HookReply {
    pub(super) status: i32,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Whether standard output was not read to its end, because another process holds it open.
    pub(super) left_open: bool,
}

/// Why a hook returned no valid decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HookFault {
    #[error("{0}")]
    NotStarted(String),
    #[error("it did not finish within {} ms and was killed", .0.as_millis())]
    TimedOut(Duration),
    #[error("it wrote more than {} bytes and was killed", limits::HOOK_OUTPUT_BYTES_MAX)]
    Flooded,
    #[error("it was terminated by {}", signal_name(*.0))]
    Signal(i32),
    #[error("it ended with exit status {status}{}", stderr_suffix(stderr))]
    Status { status: i32, stderr: String },
    #[error("another process still has its standard output open, so its response may be incomplete")]
    LeftOpen,
    #[error("its response cannot be read: {0}")]
    Garbled(String),
    #[error("the event of the call {call} cannot be read: {why}")]
    Unread { call: ForeignId, why: String },
}

impl HookFault {
    /// The stable code, in lower case.
    pub(super) fn code(&self) -> &'static str {
        match self {
            HookFault::NotStarted(_) => "not_started",
            HookFault::TimedOut(_) => "timed_out",
            HookFault::Flooded => "flooded",
            HookFault::Signal(_) => "signal",
            HookFault::Status { .. } => "exit_status",
            HookFault::LeftOpen => "left_open",
            HookFault::Garbled(_) => "garbled",
            HookFault::Unread { .. } => "event_unreadable",
        }
    }
}

fn stderr_suffix(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}

/// Runs a program to its end.
pub(super) async fn run(request: HookRequest<'_>) -> Result<HookReply, HookFault> {
    let not_started = |why: String| HookFault::NotStarted(why);
    let (read, write) = std::io::pipe().map_err(|why| not_started(why.to_string()))?;
    let input = pipe::Sender::from_owned_fd(OwnedFd::from(write));
    let input = input.map_err(|why| not_started(why.to_string()))?;
    let process =
        Process::unconfined(request.argv, request.cwd, request.environment, Some(OwnedFd::from(read)));
    let mut process = process.map_err(|why| not_started(why.to_string()))?;
    let (stdout, stderr) = process.outputs().expect("the outputs are taken once");
    let mut talk = HookProcess {
        process,
        input: Some(input),
        unwritten: request.input,
        outputs: [HookOutput::new(stdout), HookOutput::new(stderr)],
        exit: None,
        drain_until: None,
    };
    let reply = tokio::time::timeout_at(request.until, talk.run_to_end()).await;
    // Dropping the process kills the group.
    reply.unwrap_or(Err(HookFault::TimedOut(request.timeout)))
}

/// A running program.
struct HookProcess<'a> {
    process: Process,
    input: Option<pipe::Sender>,
    unwritten: &'a [u8],
    outputs: [HookOutput; 2],
    exit: Option<Exit>,
    /// When pipes that another process holds open are abandoned, if nothing arrives before.
    drain_until: Option<Instant>,
}

struct HookOutput {
    pipe: Option<pipe::Receiver>,
    bytes: Vec<u8>,
    left_open: bool,
}

impl HookOutput {
    fn new(pipe: pipe::Receiver) -> Self {
        HookOutput { pipe: Some(pipe), bytes: Vec::new(), left_open: false }
    }

    /// Reads the next piece. Cancel-safe.
    async fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else { return std::future::pending().await };
        match pipe.read_buf(&mut self.bytes).await {
            Ok(1..) => {}
            Ok(0) => self.pipe = None,
            Err(_) => {
                self.pipe = None;
                self.left_open = true;
            }
        }
    }

    /// Stops waiting for output of another process. Data that is already in the pipe, and its end, are still read.
    fn leave_open(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let mut look = [PollFd::new(pipe, PollFlags::IN)];
        let looked = rustix::event::poll(&mut look, Some(&Timespec::default()));
        if looked.is_err() || !look[0].revents().intersects(PollFlags::IN | PollFlags::HUP) {
            self.pipe = None;
            self.left_open = true;
        }
    }
}

impl HookProcess<'_> {
    async fn run_to_end(&mut self) -> Result<HookReply, HookFault> {
        loop {
            if self.outputs.iter().map(|output| output.bytes.len()).sum::<usize>()
                > limits::HOOK_OUTPUT_BYTES_MAX
            {
                return Err(HookFault::Flooded);
            }
            if let Some(exit) = self.exit
                && self.outputs.iter().all(|output| output.pipe.is_none())
            {
                return self.reply(exit);
            }
            self.step().await;
        }
    }

    async fn step(&mut self) {
        let [stdout, stderr] = &mut self.outputs;
        let (is_over, drain_until) = (self.exit.is_some(), self.drain_until);
        tokio::select! {
            // Data that has arrived is read before a pipe is abandoned.
            biased;
            exit = self.process.ended(), if !is_over => {
                self.exit = Some(exit);
                self.input = None;
                self.drain_until = Some(drain_end());
            }
            () = stdout.read() => self.drain_until = drain_until.map(|_| drain_end()),
            () = stderr.read() => self.drain_until = drain_until.map(|_| drain_end()),
            written = write(&mut self.input, self.unwritten) => match written {
                Ok(count) if count < self.unwritten.len() => self.unwritten = &self.unwritten[count..],
                // Everything is written, or the program does not read its input, which is allowed.
                Ok(_) | Err(_) => self.input = None,
            },
            () = until(drain_until) => {
                self.outputs.iter_mut().for_each(HookOutput::leave_open);
                self.drain_until = Some(drain_end());
            }
        }
    }

    fn reply(&mut self, exit: Exit) -> Result<HookReply, HookFault> {
        let left_open = self.outputs[0].left_open;
        let [stdout, stderr] = self.outputs.each_mut().map(|output| std::mem::take(&mut output.bytes));
        match (exit.code, exit.signal) {
            (Some(status), _) => Ok(HookReply { status, stdout, stderr, left_open }),
            (None, signal) => Err(HookFault::Signal(signal.unwrap_or_default())),
        }
    }
}

async fn write(input: &mut Option<pipe::Sender>, unwritten: &[u8]) -> std::io::Result<usize> {
    match input {
        Some(input) => input.write(unwritten).await,
        None => std::future::pending().await,
    }
}

/// The deadline for more output, from now.
fn drain_end() -> Instant {
    recount_world::moment() + DRAIN_WAIT
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal};

    use super::*;

    async fn runs(line: &str, input: &[u8]) -> Result<HookReply, HookFault> {
        let timeout = Duration::from_secs(60);
        run(HookRequest {
            argv: &["/bin/sh".to_owned(), "-c".to_owned(), line.to_owned()],
            cwd: Path::new("/"),
            environment: &[("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            input,
            until: recount_world::moment() + timeout,
            timeout,
        })
        .await
    }

    fn replied(status: i32, stdout: &[u8], stderr: &[u8]) -> Result<HookReply, HookFault> {
        Ok(HookReply { status, stdout: stdout.to_vec(), stderr: stderr.to_vec(), left_open: false })
    }

    /// More than the capacity of a pipe, in both directions at once.
    #[tokio::test]
    async fn long_inputs_may_be_read_completely_or_not_at_all() {
        let long = vec![b'x'; 400_000];
        assert_eq!(runs("cat; echo end >&2; exit 5", &long).await, replied(5, &long, b"end\n"));
        assert_eq!(runs("head -c 3", &long).await, replied(0, b"xxx", b""));
        assert_eq!(runs("exit 2", &long).await, replied(2, b"", b""));
        assert_eq!(runs("cat", b"").await, replied(0, b"", b""));
    }

    #[tokio::test]
    async fn output_limit_is_exact_to_the_byte() {
        let most = limits::HOOK_OUTPUT_BYTES_MAX;
        let reply = runs(&format!("head -c {} /dev/zero; printf . >&2", most - 1), b"").await.unwrap();
        assert_eq!((reply.stdout.len(), reply.stderr.len()), (most - 1, 1));
        let flood = runs(&format!("head -c {most} /dev/zero; printf . >&2"), b"").await;
        assert_eq!(flood, Err(HookFault::Flooded));
    }

    /// A process in its own session is not in the group, and is not waited for.
    #[tokio::test]
    async fn pipes_that_another_process_holds_open_are_abandoned() {
        // The shell continues after the program left the group: only then nothing holds the pipe of `$( )`.
        let line = "exec 3>&1; echo $(setsid sh -c 'echo $$; exec sleep 600 >&3' &)";
        let reply = runs(line, b"").await.unwrap();
        let outlived: i32 = String::from_utf8(reply.stdout).unwrap().trim().parse().unwrap();
        assert!(reply.left_open);
        // It is still running.
        rustix::process::kill_process(Pid::from_raw(outlived).unwrap(), Signal::KILL).unwrap();
    }
}
