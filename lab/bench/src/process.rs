//! Other processes: the server under test and the load client, and their resource use.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;

use crate::clock;
use crate::http::Connection;

/// Killed on drop: no server outlives a measure.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// From the start of the process until it listened, in milliseconds.
    pub(crate) ready_ms: f64,
}

impl Server {
    /// Starts the product on a data folder.
    pub(crate) fn product(data: &Path) -> Result<Server> {
        Server::product_at(data, "127.0.0.1:0")
    }

    /// Starts the product at a fixed address.
    pub(crate) fn product_at(data: &Path, address: &str) -> Result<Server> {
        let data = data.to_str().context("the data folder's name is not text")?;
        Server::start(&["serve", "--bind", address, "--data", data])
    }

    /// Starts the product with a configuration file, with its store on disk or in memory.
    pub(crate) fn configured(data: &Path, config: &Path, in_memory: bool) -> Result<Server> {
        let data = data.to_str().context("the data folder's name is not text")?;
        let config = config.to_str().context("the configuration's name is not text")?;
        let store = if in_memory { "yes" } else { "no" };
        Server::start(&[
            "serve",
            "--bind",
            "127.0.0.1:0",
            "--data",
            data,
            "--config",
            config,
            "--in-memory",
            store,
        ])
    }

    /// Starts the product on a database.
    pub(crate) fn on_database(data: &Path, url: &str) -> Result<Server> {
        let data = data.to_str().context("the data folder's name is not text")?;
        Server::start(&["serve", "--bind", "127.0.0.1:0", "--data", data, "--store", url])
    }

    /// Starts a standby of a database, which has an owner. Returns when it passes connections to the owner.
    pub(crate) fn standby(data: &Path, url: &str, address: SocketAddr) -> Result<Server> {
        let start = clock::now_ns();
        let child = Command::new(std::env::current_exe()?)
            .args(["serve", "--bind", &address.to_string(), "--store", url, "--data"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("the standby cannot be started")?;
        let mut server = Server { child, address, ready_ms: 0.0 };
        let passes = || {
            let ready = Connection::open(address).and_then(|mut connection| connection.get("/readyz"));
            ready.is_ok_and(|response| response.status == 200)
        };
        while !passes() {
            if let Some(status) = server.child.try_wait()? {
                bail!("the standby ended: {status}");
            }
            clock::pause(20);
        }
        server.ready_ms = clock::seconds_since(start) * 1e3;
        Ok(server)
    }

    /// Starts this program with other arguments; it must print `listening on http://…` on standard error.
    pub(crate) fn start(words: &[&str]) -> Result<Server> {
        let start = clock::now_ns();
        let mut child = Command::new(std::env::current_exe()?)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("the server cannot be started")?;
        let errors = child.stderr.take().context("standard error is piped")?;
        let mut output = String::new();
        let mut lines = BufReader::new(errors).lines();
        for line in lines.by_ref() {
            let line = line?;
            if let Some((_, address)) = line.split_once("listening on http://") {
                let ready_ms = clock::seconds_since(start) * 1e3;
                let address = address.trim().parse().context("the server names no address")?;
                // Later output is forwarded, so that the server never blocks.
                drop(recount_world::thread("server-words", move || {
                    for line in lines.map_while(Result::ok) {
                        eprintln!("server: {line}");
                    }
                }));
                return Ok(Server { child, address, ready_ms });
            }
            output.push_str(&line);
            output.push('\n');
        }
        let _status = child.wait()?;
        bail!("the server did not start: {output}")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the server to stop, and waits for its end.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.end()
    }

    /// Kills the server at once.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        let _status = self.child.wait()?;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        }
        for _ in 0..200 {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            clock::pause(50);
        }
        self.child.kill()?;
        let _status = self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("a server could not be ended: {error:#}");
        }
    }
}

/// A program that keeps every processor busy, at normal priority.
pub(crate) struct Spinners(Child);

impl Spinners {
    /// Starts it; it waits for its signal.
    pub(crate) fn prepare() -> Result<Spinners> {
        let program = std::env::current_exe()?;
        let start = |command: &mut Command| command.arg("spin").stdin(Stdio::piped()).spawn();
        // A real-time policy would be inherited; machines without this tool rarely use one.
        let usual = start(Command::new("chrt").args(["--other", "0"]).arg(&program));
        let child = usual.or_else(|_| start(&mut Command::new(&program)));
        Ok(Spinners(child.context("what keeps the processors busy cannot be started")?))
    }

    pub(crate) fn go(&self) -> Result<()> {
        let mut line = self.0.stdin.as_ref().context("standard input is piped")?;
        Ok(line.write_all(b"go\n")?)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            eprintln!("what keeps the processors busy could not be ended: {error}");
        }
    }
}

/// Keeps every processor busy from the first line on standard input to its end.
pub(crate) fn spin() -> Result<()> {
    let mut lines = std::io::stdin().lines();
    if lines.next().is_none() {
        return Ok(());
    }
    for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
        drop(recount_world::thread("spin", || {
            loop {
                std::hint::spin_loop();
            }
        }));
    }
    // Ends with its loops when the pipe is closed.
    for line in lines {
        line?;
    }
    Ok(())
}

/// Raises the priority of this thread and its later threads until it is dropped.
pub(crate) struct RaisedPriority {
    before: i32,
}

impl RaisedPriority {
    /// Returns `None` if that is not permitted.
    pub(crate) fn raise() -> Option<RaisedPriority> {
        let before = rustix::process::getpriority_process(None).ok()?;
        rustix::process::setpriority_process(None, before - 10).ok()?;
        Some(RaisedPriority { before })
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        if let Err(error) = rustix::process::setpriority_process(None, self.before) {
            eprintln!("the priority stays raised: {error}");
        }
    }
}

/// A load client in its own process.
pub(crate) struct Client {
    child: Child,
}

impl Client {
    pub(crate) fn start(words: &[String]) -> Result<Client> {
        let child = Command::new(std::env::current_exe()?)
            .arg("client")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the client cannot be started")?;
        Ok(Client { child })
    }

    /// Waits until the client reports that it is ready.
    pub(crate) fn wait_ready(&mut self) -> Result<()> {
        let output = self.child.stdout.as_mut().context("standard output is piped")?;
        let mut received = Vec::new();
        let mut byte = [0];
        while std::io::Read::read(output, &mut byte)? == 1 && byte[0] != b'\n' {
            received.push(byte[0]);
        }
        if received != b"ready" {
            bail!("the client was not ready: it printed {:?}", String::from_utf8_lossy(&received));
        }
        Ok(())
    }

    /// Lets the client continue after its first part, until it is ready again.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("standard input is piped")?;
        Ok(input.write_all(b"go on\n")?)
    }

    /// Starts the load.
    pub(crate) fn go(&mut self) -> Result<()> {
        drop(self.child.stdin.take());
        Ok(())
    }

    /// Waits for the results of the client.
    pub(crate) fn finish<T: DeserializeOwned>(self) -> Result<T> {
        let output = self.child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("the client ended with {}: {text}", output.status);
        }
        let line = text.lines().last().context("the client printed nothing")?;
        serde_json::from_str(line).with_context(|| format!("the client printed {line:?}"))
    }
}

/// Anonymous memory of a process, in KiB.
pub(crate) fn anonymous_kib(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("the system does not report anonymous memory")?.parse()?)
}

/// Seconds of processor time that a process has used.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    // Processor time in nanoseconds, per thread: the usual counters have ticks of 10 ms. The threads of a server do not
    // end while it is measured.
    let mut fine = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        fine += text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let coarse = ticks(after_name, 11..13);
    Ok(if fine > 0.0 { fine } else { coarse })
}

/// Measures the load of other programs, so that a figure can be read together with it.
pub(crate) struct Neighbours {
    start_ns: u64,
    busy: f64,
    ours: f64,
}

impl Neighbours {
    pub(crate) fn watch() -> Neighbours {
        Neighbours { start_ns: clock::now_ns(), busy: busy_seconds(), ours: our_seconds() }
    }

    /// Processors that other programs kept busy in the meantime; child processes count once they have ended.
    pub(crate) fn cores(&self) -> f64 {
        let others = (busy_seconds() - self.busy) - (our_seconds() - self.ours);
        (others / clock::seconds_since(self.start_ns)).max(0.0)
    }
}

fn ticks(text: &str, at: std::ops::Range<usize>) -> f64 {
    let fields = text.split_whitespace().enumerate().filter(|(place, _)| at.contains(place));
    let sum: f64 = fields.filter_map(|(_, field)| field.parse::<f64>().ok()).sum();
    sum / rustix::param::clock_ticks_per_second() as f64
}

/// Busy time of all processors since boot: user, nice, system, interrupts.
fn busy_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    ticks(line, 1..4) + ticks(line, 6..8)
}

/// Processor time of this process and its reaped children.
fn our_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ticks(stat.rsplit_once(") ").map_or("", |(_, rest)| rest), 11..15)
}

/// Lets this process and those it starts hold as many connections as the system allows.
pub(crate) fn raise_file_limit() -> Result<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Bytes of the files under a folder.
pub(crate) fn folder_bytes(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() { folder_bytes(&entry.path())? } else { about.blocks() * 512 };
    }
    Ok(bytes)
}
