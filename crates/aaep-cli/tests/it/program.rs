//! Helpers that run programs as processes: output, exit status and memory. The process tests of `recount` use them too.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Timeout of any wait in these tests; reached only by a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Pause between two checks of a condition: a loop without a pause takes a processor from the awaited work.
pub(crate) const LOOK: Duration = Duration::from_millis(5);

/// Waits before the next check of a condition, without a runtime.
pub(crate) fn wait_to_look() {
    std::thread::park_timeout(LOOK);
}

/// A running command whose output is read line by line.
pub(crate) struct RunningCommand {
    child: Child,
    data: Receiver<String>,
    words: Receiver<String>,
}

impl RunningCommand {
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let data = lines_of(child.stdout.take().expect("it is piped"));
        let words = lines_of(child.stderr.take().expect("it is piped"));
        RunningCommand { child, data, words }
    }

    pub(crate) fn line(&self) -> String {
        self.data.recv_timeout(PATIENCE).expect("a line arrives on standard output")
    }

    /// Waits for a line on standard error that begins with this text; returns the line.
    pub(crate) fn words(&self, begin: &str) -> String {
        loop {
            let line = self.words.recv_timeout(PATIENCE).expect("a line arrives on standard error");
            if line.starts_with(begin) {
                return line;
            }
        }
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let kill = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(kill.expect("kill is installed").success());
    }

    /// Waits for the exit; returns the unread lines and the exit status.
    pub(crate) fn end(mut self) -> (Vec<String>, i32) {
        let rest = self.data.iter().collect();
        let status = self.child.wait().expect("the process can be awaited");
        (rest, status.code().unwrap_or(-1))
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The output and exit status of a finished command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) status: i32,
    pub(crate) data: String,
    pub(crate) words: String,
}

impl CommandOutput {
    pub(crate) fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().expect("the binary starts");
        let text = |bytes| String::from_utf8(bytes).expect("the output is text");
        CommandOutput { status: status.code().unwrap_or(-1), data: text(stdout), words: text(stderr) }
    }

    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!(self.status, 0, "{self:?}");
        self.data
    }

    #[track_caller]
    pub(crate) fn bad(self, status: i32, word: &str) {
        assert!(self.status == status && self.words.contains(word), "not {status} and {word:?}: {self:?}");
    }
}

/// A program, isolated from the environment of the test run.
pub(crate) fn untouched(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RECOUNT_") {
            command.env_remove(name);
        }
    }
    command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null());
    command
}

pub(crate) fn lines_of(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    recount_world::thread("pipe", move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // Drains the pipe to its end even without a receiver.
            drop(send.send(line));
        }
    });
    receive
}

/// Peak memory of a process in mebibytes.
#[cfg(target_os = "linux")]
pub(crate) fn peak_mib(pid: u32) -> u64 {
    status_mib(pid, "VmHWM:")
}

#[cfg(target_os = "linux")]
pub(crate) fn status_mib(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}
