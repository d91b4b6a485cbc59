//! One command from start to end: its output as it comes, and the end of all that came from it.
//!
//! Look at [`Process`]. Where there is a warden, that holds the command; without one a process group is all that
//! can be killed. It must never know tools, or what a command is for.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::Stdio;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Pid, Signal};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::limits::{MODEL_ERROR_MESSAGE_BYTES_MAX, TERM_GRACE};
use crate::sandbox::known::Workspace;
use crate::sandbox::limits;
pub use crate::sandbox::plan::{Exit, Full, FullWorkspace, Limit};
use crate::sandbox::plan::{News, SandboxPlan, Wish};

/// A command that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    holder: Holder,
    /// When a command that was asked to end is not waited for any longer.
    kill_at: Option<Instant>,
    exit: Option<Exit>,
}

#[derive(Debug)]
enum Holder {
    Warden { warden: Child, line: UnixStream, heard: Vec<u8>, workspace: Workspace },
    Group { leader: Child, group: Pid },
}

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{program} could not be started: {source}")]
    Spawn { program: String, source: io::Error },
    #[error("{0}")]
    Refused(String),
    #[error("it did not start within {} s", limits::START_WAIT.as_secs())]
    TooLong,
}

impl Process {
    /// Starts a command under a warden, which is `helper` started for that. What it comes to know of the workspace is noted
    /// there. The command reads `input`; without one its standard input is empty.
    pub(crate) async fn warded(
        helper: &Path,
        plan: &SandboxPlan,
        workspace: Workspace,
        input: Option<OwnedFd>,
    ) -> Result<Process, StartError> {
        let spawn = |source| StartError::Spawn { program: helper.display().to_string(), source };
        let mut text = serde_json::to_vec(plan).map_err(|error| StartError::Refused(error.to_string()))?;
        text.push(b'\n');
        if text.len() > limits::PLAN_BYTES_MAX {
            return Err(StartError::Refused(
                "the command with its settings is too long to be started".into(),
            ));
        }
        let (line, theirs) = UnixStream::pair().map_err(spawn)?;
        let theirs = theirs.into_std().map_err(spawn)?;
        theirs.set_nonblocking(false).map_err(spawn)?;
        let mut command = Command::new(helper);
        command
            .arg(crate::sandbox::WORD)
            .env_clear()
            .envs(std::env::var_os("TMPDIR").map(|at| ("TMPDIR", at)));
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let (stdout, stderr, warden) = spawn_with_pipes(command).map_err(spawn)?;
        let holder = Holder::Warden { warden, line, heard: Vec::new(), workspace };
        let mut process =
            Process { stdout: Some(stdout), stderr: Some(stderr), holder, kill_at: None, exit: None };
        let started = async {
            process.begin_plan(&text[..1], input).await.map_err(spawn)?;
            process.say_all(&text[1..]).await.map_err(spawn)?;
            process.news().await.map_err(spawn)
        };
        let news = match tokio::time::timeout(limits::START_WAIT, started).await {
            Ok(news) => news?,
            Err(_) => return Err(StartError::TooLong),
        };
        match news {
            Some(News::Started) => Ok(process),
            Some(News::NotStarted { why }) => Err(StartError::Refused(match process.complaint() {
                said if said.is_empty() => why,
                said => format!("{why}: {said}"),
            })),
            Some(News::Ended(..)) | None => Err(StartError::Refused(format!(
                "{} has no entrance for sandboxes: {}",
                helper.display(),
                process.complaint()
            ))),
        }
    }

    /// Starts a command as the leader of a process group and no more. It reads `input`, if there is one.
    pub(crate) fn grouped(plan: &SandboxPlan, input: Option<OwnedFd>) -> Result<Process, StartError> {
        Process::unconfined(&plan.argv, &plan.cwd, &plan.environment, input)
    }

    /// The same for a program that no plan holds: it may do all that the server may.
    pub(crate) fn unconfined(
        argv: &[String],
        cwd: &Path,
        environment: &[(String, String)],
        input: Option<OwnedFd>,
    ) -> Result<Process, StartError> {
        let spawn = |source| StartError::Spawn { program: argv[0].clone(), source };
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).current_dir(cwd).env_clear();
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(input.map_or_else(Stdio::null, Stdio::from));
        let (stdout, stderr, leader) = spawn_with_pipes(command).map_err(spawn)?;
        let group = leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = group.expect("a process that was started and not waited for has a number");
        let holder = Holder::Group { leader, group };
        Ok(Process { stdout: Some(stdout), stderr: Some(stderr), holder, kill_at: None, exit: None })
    }

    /// The ends to read stdout and stderr from, once. Nothing is read ahead of who reads.
    pub fn outputs(&mut self) -> Option<(pipe::Receiver, pipe::Receiver)> {
        Some((self.stdout.take()?, self.stderr.take()?))
    }

    /// Asks the command to end; what is left of it after [`TERM_GRACE`] is killed.
    pub fn stop(&mut self) {
        if self.kill_at.is_some() {
            return;
        }
        let mut patience = TERM_GRACE;
        match &self.holder {
            Holder::Warden { .. } => {
                self.say(Wish::Stop);
                // The warden keeps the time; this is for a warden that does not.
                patience += limits::WARDEN_PATIENCE;
            }
            Holder::Group { group, .. } => {
                rustix::process::kill_process_group(*group, Signal::TERM).ok();
            }
        }
        self.kill_at = Some(recount_world::moment() + patience);
    }

    /// Kills the command.
    pub fn kill(&mut self) {
        match &self.holder {
            Holder::Warden { .. } => self.say(Wish::Kill),
            Holder::Group { group, .. } => {
                rustix::process::kill_process_group(*group, Signal::KILL).ok();
            }
        }
        self.kill_at.get_or_insert(recount_world::moment() + limits::WARDEN_PATIENCE);
    }

    /// How it ended, once it has. Then nothing of it is left, as far as its holder can tell. Dropping the future
    /// loses nothing.
    pub async fn ended(&mut self) -> Exit {
        loop {
            if let Some(exit) = self.exit {
                return exit;
            }
            let kill_at = self.kill_at;
            let over = async {
                match kill_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                exit = end_of(&mut self.holder) => self.exit = Some(exit),
                () = over => {
                    self.kill_at = Some(recount_world::moment() + limits::WARDEN_PATIENCE);
                    match &mut self.holder {
                        Holder::Warden { warden, .. } => {
                            warden.start_kill().ok();
                        }
                        Holder::Group { group, .. } => {
                            rustix::process::kill_process_group(*group, Signal::KILL).ok();
                        }
                    }
                }
            }
        }
    }

    async fn news(&mut self) -> io::Result<Option<News>> {
        match &mut self.holder {
            Holder::Warden { line, heard, .. } => hear(line, heard).await,
            Holder::Group { .. } => Ok(None),
        }
    }

    /// Sends the first byte of the plan, and with it what the command reads.
    async fn begin_plan(&mut self, first: &[u8], input: Option<OwnedFd>) -> io::Result<()> {
        let Holder::Warden { line, .. } = &mut self.holder else { return Ok(()) };
        let fds: Vec<_> = input.iter().map(|input| input.as_fd()).collect();
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(&fds));
            }
            Ok(rustix::net::sendmsg(&*line, &[IoSlice::new(first)], &mut control, SendFlags::empty())?)
        };
        line.async_io(Interest::WRITABLE, send).await.map(|_| ())
    }

    async fn say_all(&mut self, text: &[u8]) -> io::Result<()> {
        let Holder::Warden { line, .. } = &mut self.holder else { return Ok(()) };
        let mut rest = text;
        while !rest.is_empty() {
            line.writable().await?;
            match line.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A warden that does not take a word is on its way out.
    fn say(&self, wish: Wish) {
        if let Holder::Warden { line, .. } = &self.holder {
            let mut word = serde_json::to_vec(&wish).expect("a word can be written");
            word.push(b'\n');
            line.try_write(&word).ok();
        }
    }

    /// What was written to stderr, in short.
    fn complaint(&mut self) -> String {
        let mut said = vec![0; MODEL_ERROR_MESSAGE_BYTES_MAX];
        let count = self.stderr.as_ref().and_then(|pipe| pipe.try_read(&mut said).ok()).unwrap_or(0);
        String::from_utf8_lossy(&said[..count]).trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A warden sees that nobody listens; the runtime buries it.
        if let Holder::Group { group, .. } = &self.holder {
            rustix::process::kill_process_group(*group, Signal::KILL).ok();
        }
    }
}

async fn end_of(holder: &mut Holder) -> Exit {
    match holder {
        Holder::Warden { warden, line, heard, workspace } => loop {
            match hear(line, heard).await {
                Ok(Some(News::Ended(exit, known))) => {
                    workspace.note(known);
                    return exit;
                }
                Ok(Some(_)) => {}
                // The warden itself was killed; what it held died with it.
                Ok(None) | Err(_) => {
                    warden.wait().await.ok();
                    return Exit { signal: Some(Signal::KILL.as_raw()), ..Exit::default() };
                }
            }
        },
        Holder::Group { leader, group } => {
            use std::os::unix::process::ExitStatusExt as _;
            let status = leader.wait().await;
            rustix::process::kill_process_group(*group, Signal::KILL).ok();
            match status {
                Ok(status) => Exit { code: status.code(), signal: status.signal(), ..Exit::default() },
                Err(_) => Exit { signal: Some(Signal::KILL.as_raw()), ..Exit::default() },
            }
        }
    }
}

/// The next thing a warden tells; `None` when it is gone. What was heard of it stays when the future is dropped.
async fn hear(line: &UnixStream, heard: &mut Vec<u8>) -> io::Result<Option<News>> {
    loop {
        if let Some(end) = heard.iter().position(|byte| *byte == b'\n') {
            let text: Vec<u8> = heard.drain(..=end).collect();
            return serde_json::from_slice(&text).map(Some).map_err(io::Error::other);
        }
        if heard.len() > limits::NEWS_BYTES_MAX {
            return Ok(None);
        }
        line.readable().await?;
        let mut piece = [0; 1024];
        match line.try_read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(count) => heard.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn spawn_with_pipes(mut command: Command) -> io::Result<(pipe::Receiver, pipe::Receiver, Child)> {
    let (stdout, out) = wide_pipe()?;
    let (stderr, err) = wide_pipe()?;
    command.stdout(out).stderr(err).process_group(0);
    let child = command.spawn()?;
    Ok((stdout, stderr, child))
}

fn wide_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (read, write) = std::io::pipe()?;
    let (read, write) = (OwnedFd::from(read), OwnedFd::from(write));
    // A user who has many is refused more room; a narrow pipe does, too.
    #[cfg(target_os = "linux")]
    rustix::pipe::fcntl_setpipe_size(&read, limits::PIPE_BYTES).ok();
    Ok((pipe::Receiver::from_owned_fd(read)?, write))
}

/// A signal as people write it.
pub fn signal_name(number: i32) -> String {
    const NAMES: &[(i32, &str)] = &[
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    let known = NAMES.iter().find(|(other, _)| *other == number);
    known.map_or_else(|| format!("SIG{number}"), |(_, name)| (*name).to_owned())
}
