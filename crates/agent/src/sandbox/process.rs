//! Runs one command: output pipes, stop and kill, and the exit.
//!
//! A warden controls the command if there is one. Without a warden the command is only a process group, and only that
//! group can be killed. Start at [`Process`]. The module must not depend on tools or on the purpose of a command.

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
pub use crate::sandbox::plan::{Exit, FullReason, FullWorkspace, Limit};
use crate::sandbox::plan::{SandboxPlan, WardenReport, WardenRequest};

/// A running command. Dropping it kills the command.
#[derive(Debug)]
pub struct Process {
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    supervisor: Supervisor,
    /// When a command that is stopping is killed.
    kill_at: Option<Instant>,
    exit: Option<Exit>,
}

#[derive(Debug)]
enum Supervisor {
    Warden { warden: Child, connection: UnixStream, received: Vec<u8>, workspace: Workspace },
    Group { leader: Child, group: Pid },
}

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot start {program}: {source}")]
    Spawn { program: String, source: io::Error },
    #[error("{0}")]
    Refused(String),
    #[error("it did not start within {} s", limits::START_WAIT.as_secs())]
    TooLong,
}

impl Process {
    /// Starts a command under a warden, which is `helper` started with [`crate::sandbox::WARDEN_ARGUMENT`]. Stores the reported
    /// usage of the workspace in `workspace`. The command reads `input`; without it the standard input is empty.
    pub(crate) async fn start_with_warden(
        helper: &Path,
        plan: &SandboxPlan,
        workspace: Workspace,
        input: Option<OwnedFd>,
    ) -> Result<Process, StartError> {
        let spawn = |source| StartError::Spawn { program: helper.display().to_string(), source };
        let mut text = serde_json::to_vec(plan).map_err(|error| StartError::Refused(error.to_string()))?;
        text.push(b'\n');
        if text.len() > limits::PLAN_BYTES_MAX {
            return Err(StartError::Refused("the command with its settings is too long".into()));
        }
        let (connection, warden_end) = UnixStream::pair().map_err(spawn)?;
        let warden_end = warden_end.into_std().map_err(spawn)?;
        warden_end.set_nonblocking(false).map_err(spawn)?;
        let mut command = Command::new(helper);
        command
            .arg(crate::sandbox::WARDEN_ARGUMENT)
            .env_clear()
            .envs(std::env::var_os("TMPDIR").map(|at| ("TMPDIR", at)));
        command.stdin(Stdio::from(OwnedFd::from(warden_end)));
        let (stdout, stderr, warden) = spawn_with_pipes(command).map_err(spawn)?;
        let supervisor = Supervisor::Warden { warden, connection, received: Vec::new(), workspace };
        let mut process =
            Process { stdout: Some(stdout), stderr: Some(stderr), supervisor, kill_at: None, exit: None };
        let started = async {
            process.send_first_byte(&text[..1], input).await.map_err(spawn)?;
            process.send_all(&text[1..]).await.map_err(spawn)?;
            process.receive_report().await.map_err(spawn)
        };
        let report = match tokio::time::timeout(limits::START_WAIT, started).await {
            Ok(report) => report?,
            Err(_) => return Err(StartError::TooLong),
        };
        match report {
            Some(WardenReport::Started) => Ok(process),
            Some(WardenReport::NotStarted { why }) => {
                Err(StartError::Refused(match process.stderr_start() {
                    stderr if stderr.is_empty() => why,
                    stderr => format!("{why}: {stderr}"),
                }))
            }
            Some(WardenReport::Ended(..)) | None => Err(StartError::Refused(format!(
                "{} has no entrance for sandboxes: {}",
                helper.display(),
                process.stderr_start()
            ))),
        }
    }

    /// Starts a command as the leader of a process group, without a warden. It reads `input`, if given.
    pub(crate) fn start_in_group(plan: &SandboxPlan, input: Option<OwnedFd>) -> Result<Process, StartError> {
        Process::unconfined(&plan.argv, &plan.cwd, &plan.environment, input)
    }

    /// Starts a program without any restrictions: it has all rights of the server.
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
        let group = group.expect("a process that was started and not waited for has an id");
        let supervisor = Supervisor::Group { leader, group };
        Ok(Process { stdout: Some(stdout), stderr: Some(stderr), supervisor, kill_at: None, exit: None })
    }

    /// Takes the read ends of stdout and stderr; `None` after the first call. Nothing is read in advance.
    pub fn outputs(&mut self) -> Option<(pipe::Receiver, pipe::Receiver)> {
        Some((self.stdout.take()?, self.stderr.take()?))
    }

    /// Asks the command to end. After [`TERM_GRACE`] the rest is killed.
    pub fn stop(&mut self) {
        if self.kill_at.is_some() {
            return;
        }
        let mut patience = TERM_GRACE;
        match &self.supervisor {
            Supervisor::Warden { .. } => {
                self.send_request(WardenRequest::Stop);
                // The warden enforces the grace period; this deadline covers a warden that does not respond.
                patience += limits::WARDEN_PATIENCE;
            }
            Supervisor::Group { group, .. } => {
                rustix::process::kill_process_group(*group, Signal::TERM).ok();
            }
        }
        self.kill_at = Some(recount_world::moment() + patience);
    }

    /// Kills the command.
    pub fn kill(&mut self) {
        match &self.supervisor {
            Supervisor::Warden { .. } => self.send_request(WardenRequest::Kill),
            Supervisor::Group { group, .. } => {
                rustix::process::kill_process_group(*group, Signal::KILL).ok();
            }
        }
        self.kill_at.get_or_insert(recount_world::moment() + limits::WARDEN_PATIENCE);
    }

    /// Waits for the end of the command. Afterwards no process of it is left, as far as the warden or the group can
    /// tell. Cancel-safe.
    pub async fn ended(&mut self) -> Exit {
        loop {
            if let Some(exit) = self.exit {
                return exit;
            }
            let kill_at = self.kill_at;
            let deadline = async {
                match kill_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                exit = wait_for_end(&mut self.supervisor) => self.exit = Some(exit),
                () = deadline => {
                    self.kill_at = Some(recount_world::moment() + limits::WARDEN_PATIENCE);
                    match &mut self.supervisor {
                        Supervisor::Warden { warden, .. } => {
                            warden.start_kill().ok();
                        }
                        Supervisor::Group { group, .. } => {
                            rustix::process::kill_process_group(*group, Signal::KILL).ok();
                        }
                    }
                }
            }
        }
    }

    async fn receive_report(&mut self) -> io::Result<Option<WardenReport>> {
        match &mut self.supervisor {
            Supervisor::Warden { connection, received, .. } => receive_line(connection, received).await,
            Supervisor::Group { .. } => Ok(None),
        }
    }

    /// Sends the first byte of the plan together with the descriptor of the command's input.
    async fn send_first_byte(&mut self, first: &[u8], input: Option<OwnedFd>) -> io::Result<()> {
        let Supervisor::Warden { connection, .. } = &mut self.supervisor else { return Ok(()) };
        let fds: Vec<_> = input.iter().map(|input| input.as_fd()).collect();
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(&fds));
            }
            Ok(rustix::net::sendmsg(&*connection, &[IoSlice::new(first)], &mut control, SendFlags::empty())?)
        };
        connection.async_io(Interest::WRITABLE, send).await.map(|_| ())
    }

    async fn send_all(&mut self, text: &[u8]) -> io::Result<()> {
        let Supervisor::Warden { connection, .. } = &mut self.supervisor else { return Ok(()) };
        let mut rest = text;
        while !rest.is_empty() {
            connection.writable().await?;
            match connection.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Errors are ignored: a warden that does not accept a request is ending.
    fn send_request(&self, request: WardenRequest) {
        if let Supervisor::Warden { connection, .. } = &self.supervisor {
            let mut message = serde_json::to_vec(&request).expect("writing to a string cannot fail");
            message.push(b'\n');
            connection.try_write(&message).ok();
        }
    }

    /// The beginning of what was written to stderr.
    fn stderr_start(&mut self) -> String {
        let mut text = vec![0; MODEL_ERROR_MESSAGE_BYTES_MAX];
        let count = self.stderr.as_ref().and_then(|pipe| pipe.try_read(&mut text).ok()).unwrap_or(0);
        String::from_utf8_lossy(&text[..count]).trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A warden sees the closed connection and ends; the runtime reaps it.
        if let Supervisor::Group { group, .. } = &self.supervisor {
            rustix::process::kill_process_group(*group, Signal::KILL).ok();
        }
    }
}

async fn wait_for_end(supervisor: &mut Supervisor) -> Exit {
    match supervisor {
        Supervisor::Warden { warden, connection, received, workspace } => loop {
            match receive_line(connection, received).await {
                Ok(Some(WardenReport::Ended(exit, known))) => {
                    workspace.store(known);
                    return exit;
                }
                Ok(Some(_)) => {}
                // The warden itself was killed, and the command with it.
                Ok(None) | Err(_) => {
                    warden.wait().await.ok();
                    return Exit { signal: Some(Signal::KILL.as_raw()), ..Exit::default() };
                }
            }
        },
        Supervisor::Group { leader, group } => {
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

/// Receives the next report of a warden; `None` when the connection is closed. Cancel-safe: partial data stays in
/// `received`.
async fn receive_line(connection: &UnixStream, received: &mut Vec<u8>) -> io::Result<Option<WardenReport>> {
    loop {
        if let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let text: Vec<u8> = received.drain(..=end).collect();
            return serde_json::from_slice(&text).map(Some).map_err(io::Error::other);
        }
        if received.len() > limits::WARDEN_REPORT_BYTES_MAX {
            return Ok(None);
        }
        connection.readable().await?;
        let mut piece = [0; 1024];
        match connection.try_read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(count) => received.extend_from_slice(&piece[..count]),
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
    // The kernel may refuse a larger pipe to a user with many pipes; the default size works too.
    #[cfg(target_os = "linux")]
    rustix::pipe::fcntl_setpipe_size(&read, limits::PIPE_BYTES).ok();
    Ok((pipe::Receiver::from_owned_fd(read)?, write))
}

/// The name of a signal, such as `SIGTERM`.
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
