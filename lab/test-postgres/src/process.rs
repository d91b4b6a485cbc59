//! Runs the processes of one PostgreSQL: starts, signals and ends them.
//!
//! A shell is between this process and PostgreSQL. It reads from a pipe, which ends when this process ends in whatever way;
//! then it ends PostgreSQL by its id and removes the folder. The module must not depend on the content of a cluster. Start at
//! [`Process::start`].

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::installation::Installation;
use crate::limits::LOG_LINES_MAX;

/// Arguments: the folder, then the command of PostgreSQL. Its processes are continued before they are ended, because they may
/// be frozen; if they are when this process ends, the system sends SIGHUP to the group of the shell. The shell closes its
/// output, so that the pipe ends with the last process of PostgreSQL. The id is written by the process that becomes PostgreSQL, so
/// that it comes before the log.
const WATCHER: &str = r#"
trap "" HUP
folder=$1; shift
sh -c 'echo "$$"; exec "$@"' postgres "$@" </dev/null 2>&1 &
postgres=$!
exec >/dev/null 2>&1
read -r order
kill -CONT "$postgres" $(cat "/proc/$postgres/task/$postgres/children")
kill -QUIT "$postgres"
wait "$postgres"
[ "$order" = "keep" ] || rm -rf "$folder"
"#;

/// What the log contains once connections are accepted.
const READY: &str = "ready to accept";

/// What the log contains if another process has the port.
const IN_USE: &str = "Address already in use";

type Log = Arc<Mutex<VecDeque<String>>>;

/// A running PostgreSQL. If it is dropped, it ends and its folder is removed.
pub(crate) struct Process {
    watcher: Child,
    postgres: Pid,
    log: Log,
    /// Ends after the last process of PostgreSQL.
    reader: Option<JoinHandle<()>>,
}

/// Why PostgreSQL did not start.
pub(crate) enum StartError {
    PortInUse,
    Other(anyhow::Error),
}

impl From<StartError> for anyhow::Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::PortInUse => anyhow!("the port of PostgreSQL is in use by another process"),
            StartError::Other(why) => why,
        }
    }
}

impl Process {
    /// Starts PostgreSQL on the cluster in `data` below the folder, and waits until it accepts connections.
    pub(crate) fn start(
        installation: &Installation,
        folder: &Path,
        port: u16,
        settings: &[(String, String)],
    ) -> Result<Self, StartError> {
        let mut shell = installation.command("/bin/sh");
        shell.args(["-c", WATCHER, "watcher"]).arg(folder).arg(installation.program("postgres"));
        shell.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]);
        for (name, value) in settings {
            shell.args(["-c", &format!("{name}={value}")]);
        }
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Whatever kills the group of this process must not kill what cleans up after it.
        shell.process_group(0);
        let started = shell.spawn().context("cannot run /bin/sh").and_then(|mut watcher| {
            let output = watcher.stdout.take().context("the output of the shell is a pipe")?;
            let mut lines = BufReader::new(output);
            let mut first = String::new();
            lines.read_line(&mut first)?;
            let postgres = first.trim().parse().ok().and_then(Pid::from_raw);
            Ok((watcher, postgres.context("the shell writes the id of PostgreSQL")?, lines))
        });
        let (watcher, postgres, mut lines) = started.map_err(StartError::Other)?;
        let log = Log::default();
        let ready = wait_until_ready(&mut lines, &log);
        let mut process = Process { watcher, postgres, log, reader: None };
        if !ready {
            let log = process.log().join("\n");
            process.end_watcher(true);
            let why = anyhow!("PostgreSQL ended before it accepted connections:\n{log}");
            return Err(if log.contains(IN_USE) { StartError::PortInUse } else { StartError::Other(why) });
        }
        let log = process.log.clone();
        process.reader =
            Some(recount_world::thread(
                "postgres-log",
                move || {
                    while next_line(&mut lines, &log).is_some() {}
                },
            ));
        Ok(process)
    }

    /// Ends PostgreSQL with a signal and keeps its folder.
    pub(crate) fn end(mut self, signal: Signal) -> Result<()> {
        kill_process(self.postgres, signal).context("cannot signal PostgreSQL")?;
        self.wait_for_end();
        self.end_watcher(true);
        Ok(())
    }

    pub(crate) fn freeze(&self) -> Result<Frozen> {
        let mut frozen = Frozen(Vec::new());
        // The parent first, so that it starts no further process.
        frozen.stop(self.postgres)?;
        let id = self.postgres.as_raw_nonzero();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        for child in children.split_whitespace() {
            let child =
                child.parse().ok().and_then(Pid::from_raw).context("the system lists ids of processes")?;
            frozen.stop(child)?;
        }
        Ok(frozen)
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Waits until every process of PostgreSQL has ended: the pipe of its log ends with the last one.
    fn wait_for_end(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader of the log does not panic");
        }
    }

    /// Lets the shell end PostgreSQL, and waits for the shell.
    fn end_watcher(&mut self, keep: bool) {
        let stdin = self.watcher.stdin.take();
        if let Some(mut stdin) = stdin.filter(|_| keep) {
            stdin.write_all(b"keep\n").expect("the shell reads its input until it ends");
        }
        self.watcher.wait().expect("the shell is a child of this process");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end_watcher(false);
        self.wait_for_end();
    }
}

/// A PostgreSQL whose processes are stopped. It continues when this is dropped.
#[must_use]
pub struct Frozen(Vec<Pid>);

impl Frozen {
    /// Stops a process and waits until it has stopped, unless it has ended.
    fn stop(&mut self, process: Pid) -> Result<()> {
        match kill_process(process, Signal::STOP) {
            Err(Errno::SRCH) => return Ok(()),
            sent => sent.context("cannot stop a process of PostgreSQL")?,
        }
        self.0.push(process);
        let runs = |stat: String| {
            // The state follows the name, which is in parentheses.
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            !matches!(state, Some('T' | 'Z' | 'X'))
        };
        while std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).is_ok_and(runs) {
            std::thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for process in self.0.drain(..) {
            // A process that was ended meanwhile needs no signal.
            kill_process(process, Signal::CONT).ok();
        }
    }
}

/// Whether PostgreSQL accepts connections. `false`: its log has ended.
fn wait_until_ready(lines: &mut BufReader<ChildStdout>, log: &Log) -> bool {
    while let Some(line) = next_line(lines, log) {
        if line.contains(READY) {
            return true;
        }
    }
    false
}

/// Reads one line and keeps it. `None`: the log has ended.
fn next_line(lines: &mut BufReader<ChildStdout>, log: &Log) -> Option<String> {
    let mut line = Vec::new();
    lines.read_until(b'\n', &mut line).ok().filter(|count| *count > 0)?;
    let line = String::from_utf8_lossy(&line).trim_end().to_owned();
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    if log.len() == LOG_LINES_MAX {
        log.pop_front();
    }
    log.push_back(line.clone());
    Some(line)
}
