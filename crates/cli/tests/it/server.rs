//! The real binary as a server in a process of its own, and its verbs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[path = "../../../aaep-cli/tests/it/program.rs"]
mod program;

pub(crate) use program::*;

/// Waits before the next look at a condition.
pub(crate) async fn look_again() {
    tokio::time::sleep(LOOK).await; // tidy: between two looks at a condition
}

/// The scheme and the address of the line that a server prints when it listens.
fn listening_at(line: &str) -> Option<(&str, &str)> {
    let url = line.strip_prefix("listening on ")?.trim();
    url.split_once("://").or_else(|| url.split_once(':'))
}

/// A server that is killed when its test is over.
pub(crate) struct Server {
    child: Child,
    scheme: String,
    pub(crate) address: String,
    /// The lines that it printed before it listened.
    pub(crate) words: Vec<String>,
    /// Its data folder, where no test needs it.
    _data: Option<tempfile::TempDir>,
}

impl Server {
    /// Starts on a free port, with a data folder that goes with it.
    pub(crate) fn fresh() -> Self {
        let data = tempfile::tempdir().expect("a folder can be made");
        let mut server = Server::start(data.path());
        server._data = Some(data);
        server
    }

    /// Starts on a free port.
    pub(crate) fn start(data: &Path) -> Self {
        Server::start_at(data, "127.0.0.1:0")
    }

    /// Starts and waits until it listens.
    pub(crate) fn start_at(data: &Path, bind: &str) -> Self {
        Server::spawn(data, bind).listening()
    }

    /// Waits until it listens.
    pub(crate) fn listening(self) -> Self {
        let mut server = self;
        let words = lines_of(server.child.stderr.take().expect("it is piped"));
        let mut printed = Vec::new();
        loop {
            let line = words.recv_timeout(PATIENCE);
            let Ok(line) = line else { panic!("the server does not listen; it said: {printed:?}") };
            if let Some((scheme, address)) = listening_at(&line) {
                server.scheme = scheme.to_owned();
                server.address = address.to_owned();
                server.words = printed;
                return server;
            }
            printed.push(line);
        }
    }

    /// Starts and does not wait.
    pub(crate) fn spawn(data: &Path, bind: &str) -> Self {
        let mut command = recount();
        command.args(["serve", "--bind", bind, "--log", "warn", "--data"]).arg(data);
        Server::of(&mut command)
    }

    /// Starts a command that becomes a server.
    pub(crate) fn of(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        Server::of_child(child)
    }

    fn of_child(child: Child) -> Self {
        let scheme = "http".to_owned();
        Server { child, scheme, address: String::new(), words: Vec::new(), _data: None }
    }

    /// Starts and waits until it listens; all its output goes to a file.
    pub(crate) fn logged(command: &mut Command, log: &Path) -> Self {
        let file = std::fs::File::create(log).expect("the log can be made");
        let child = command.stdout(Stdio::null()).stderr(file).spawn().expect("the binary starts");
        let mut server = Server::of_child(child);
        let until = recount_world::moment() + PATIENCE;
        while server.address.is_empty() {
            assert!(recount_world::moment() < until, "the server does not listen; see {}", log.display());
            let log_text = std::fs::read_to_string(log).expect("the log can be read");
            let line = log_text.lines().find_map(listening_at).map(|(_, address)| address);
            // A line may be there in part.
            let whole = line.filter(|_| log_text.ends_with('\n'));
            server.address = whole.unwrap_or_default().trim().to_owned();
            wait_to_look();
        }
        server
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it, and waits until it has stopped.
    pub(crate) fn interrupt(&self) {
        self.signal("-TERM");
    }

    pub(crate) fn url(&self) -> String {
        match &*self.scheme {
            "unix" => format!("unix:{}", self.address),
            scheme => format!("{scheme}://{}", self.address),
        }
    }

    /// Kills it at once, as a power cut of the process.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }

    /// Ends it, and waits until it has ended.
    pub(crate) fn stop(&mut self) {
        self.signal("-TERM");
        self.child.wait().expect("it can be waited for");
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().expect("it can be waited for")
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it can be waited for").is_some()
    }

    /// Lets it do nothing until it may go on.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(kill.expect("kill is there").success());
    }

    /// Runs a verb against it.
    pub(crate) fn ask(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(recount().args(["--url", &self.url()]).args(arguments))
    }

    /// Starts a verb that goes on.
    pub(crate) fn follow(&self, arguments: &[&str]) -> RunningCommand {
        RunningCommand::of(recount().args(["--url", &self.url()]).args(arguments))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been killed before, which is just as well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The binary, untouched by the environment of the person who runs the tests.
pub(crate) fn recount() -> Command {
    untouched(env!("CARGO_BIN_EXE_recount"))
}

/// The tools for AAEP, untouched likewise.
pub(crate) fn aaep() -> Command {
    untouched(aaep_program())
}

/// Where the program `aaep` is: beside the binary, built with the workspace.
pub(crate) fn aaep_program() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_recount")).with_file_name("aaep");
    assert!(program.is_file(), "{} is missing; cargo build -p recount-aaep-cli builds it", program.display());
    program
}

/// For tests of a program that finds no server. One that is skipped would pass without having checked anything.
#[track_caller]
pub(crate) fn the_usual_address_is_free() {
    let found = std::net::TcpStream::connect("127.0.0.1:8765");
    assert!(
        found.is_err(),
        "something listens on 127.0.0.1:8765, and this test needs that no server answers; stop it"
    );
}

/// Mebibytes of memory of its own that a process holds now.
#[cfg(target_os = "linux")]
pub(crate) fn held_mib(pid: u32) -> u64 {
    status_mib(pid, "RssAnon:")
}
