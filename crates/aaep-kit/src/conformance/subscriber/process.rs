//! Starts the subscriber as a process, from a command that contains the address. It does not depend on the protocol.

use std::collections::VecDeque;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recount_world::{Kind, World};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::TrialError;
use crate::limits;

/// The placeholder for the address in a command.
const URL: &str = "{url}";

pub(super) struct Process {
    child: Child,
    /// The end of its stderr output.
    output: Arc<Mutex<VecDeque<u8>>>,
}

impl Process {
    pub(super) fn start(world: &World, command: &[String], url: &str) -> Result<Process, TrialError> {
        let parts: Vec<String> = command.iter().map(|part| part.replace(URL, url)).collect();
        let (program, arguments) = parts.split_first().ok_or_else(|| TrialError::Start {
            program: String::new(),
            why: std::io::Error::other("the command is empty"),
        })?;
        let mut command = Command::new(program);
        command.args(arguments).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|why| TrialError::Start { program: program.clone(), why })?;
        let output = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(mut stderr) = child.stderr.take() {
            let output = output.clone();
            // It ends with the process, which is killed when its handle is dropped.
            world.tasks.spawn(Kind::Effect, |mut shutdown| async move {
                let mut buffer = vec![0; limits::TRIAL_OUTPUT_BYTES];
                loop {
                    let read = tokio::select! {
                        read = stderr.read(&mut buffer) => read,
                        () = shutdown.requested() => return,
                    };
                    let Ok(read @ 1..) = read else { return };
                    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
                    output.extend(&buffer[..read]);
                    let over = output.len().saturating_sub(limits::TRIAL_OUTPUT_BYTES);
                    output.drain(..over);
                }
            });
        }
        Ok(Process { child, output })
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The last line of its stderr.
    pub(super) fn last_output_line(&self) -> Option<String> {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = output.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    /// Requests it to end (SIGTERM).
    pub(super) fn end(&self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            // It may have ended already.
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        }
    }

    /// Waits until it has ended, for at most `patience`.
    pub(super) async fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        tokio::time::timeout(patience, self.child.wait()).await.ok()?.ok()
    }

    /// Kills it (SIGKILL).
    pub(super) async fn kill(&mut self) {
        // It may have ended already.
        self.child.kill().await.ok();
    }
}
