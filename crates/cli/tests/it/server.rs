//! The real binary as a server in a process of its own, and its verbs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long anything in these tests may take; reached only when it will never come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Between two looks at a condition: a loop without a pause takes a processor from what it waits for.
const LOOK: Duration = Duration::from_millis(5);

/// Waits before the next look at a condition.
pub(crate) async fn look_again() {
    tokio::time::sleep(LOOK).await; // tidy: between two looks at a condition
}

/// The same without a runtime.
pub(crate) fn wait_to_look() {
    std::thread::park_timeout(LOOK);
}

/// A server that is killed when its test is over.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    /// What it said before it listened.
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
        let mut heard = Vec::new();
        loop {
            let line = words.recv_timeout(PATIENCE);
            let Ok(line) = line else { panic!("the server does not listen; it said: {heard:?}") };
            if let Some(address) = line.strip_prefix("listening on http://") {
                server.address = address.trim().to_owned();
                server.words = heard;
                return server;
            }
            heard.push(line);
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
        Server { child, address: String::new(), words: Vec::new(), _data: None }
    }

    /// Starts and waits until it listens; all it says goes to a file.
    pub(crate) fn logged(command: &mut Command, log: &Path) -> Self {
        let file = std::fs::File::create(log).expect("the log can be made");
        let child = command.stdout(Stdio::null()).stderr(file).spawn().expect("the binary starts");
        let mut server = Server { child, address: String::new(), words: Vec::new(), _data: None };
        let until = recount_world::moment() + PATIENCE;
        while server.address.is_empty() {
            assert!(recount_world::moment() < until, "the server does not listen; see {}", log.display());
            let said = std::fs::read_to_string(log).expect("the log can be read");
            let line = said.lines().find_map(|line| line.strip_prefix("listening on http://"));
            // A line may be there in part.
            let whole = line.filter(|_| said.ends_with('\n'));
            server.address = whole.unwrap_or_default().trim().to_owned();
            wait_to_look();
        }
        server
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) fn interrupt(&self) {
        self.signal("-TERM");
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Kills it at once, as a power cut of the process.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }

    /// Tells it to end, and waits until it has.
    pub(crate) fn stop(&mut self) {
        self.signal("-TERM");
        self.child.wait().expect("it can be waited for");
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
    pub(crate) fn ask(&self, arguments: &[&str]) -> Answer {
        Answer::of(recount().args(["--url", &self.url()]).args(arguments))
    }

    /// Starts a verb that goes on.
    pub(crate) fn follow(&self, arguments: &[&str]) -> Following {
        Following::of(recount().args(["--url", &self.url()]).args(arguments))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been killed before, which is just as well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A verb that goes on, line by line.
pub(crate) struct Following {
    child: Child,
    data: Receiver<String>,
    words: Receiver<String>,
}

impl Following {
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let data = lines_of(child.stdout.take().expect("it is piped"));
        let words = lines_of(child.stderr.take().expect("it is piped"));
        Following { child, data, words }
    }

    pub(crate) fn line(&self) -> String {
        self.data.recv_timeout(PATIENCE).expect("a line of data comes")
    }

    /// Waits for words on standard error that begin so, and answers the line.
    pub(crate) fn words(&self, begin: &str) -> String {
        loop {
            let line = self.words.recv_timeout(PATIENCE).expect("words come");
            if line.starts_with(begin) {
                return line;
            }
        }
    }

    /// As ctrl-c does.
    pub(crate) fn interrupt(&self) {
        let kill = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(kill.expect("kill is there").success());
    }

    /// Waits until it ends; what was not read yet, and the status.
    pub(crate) fn end(mut self) -> (Vec<String>, i32) {
        let rest = self.data.iter().collect();
        let status = self.child.wait().expect("it can be waited for");
        (rest, status.code().unwrap_or(-1))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a verb answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: i32,
    pub(crate) data: String,
    pub(crate) words: String,
}

impl Answer {
    pub(crate) fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().expect("the binary starts");
        let text = |bytes| String::from_utf8(bytes).expect("the output is text");
        Answer { status: status.code().unwrap_or(-1), data: text(stdout), words: text(stderr) }
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

/// The binary, untouched by the environment of who runs the tests.
pub(crate) fn recount() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_recount"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RECOUNT_") {
            command.env_remove(name);
        }
    }
    command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null());
    command
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

pub(crate) fn lines_of(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    recount_world::thread("pipe", move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // The pipe is drained to its end even when nobody listens any more.
            drop(send.send(line));
        }
    });
    receive
}

/// Mebibytes of memory of its own that a process holds now.
#[cfg(target_os = "linux")]
pub(crate) fn held_mib(pid: u32) -> u64 {
    status_mib(pid, "RssAnon:")
}

/// Mebibytes that a process has had at most.
#[cfg(target_os = "linux")]
pub(crate) fn peak_mib(pid: u32) -> u64 {
    status_mib(pid, "VmHWM:")
}

#[cfg(target_os = "linux")]
fn status_mib(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}
