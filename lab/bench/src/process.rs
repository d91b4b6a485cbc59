//! Other processes: the server under test and the load client, and their resource use.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;

use crate::clock;

/// Ends with its value: no server outlives a measure.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// From the start of the process to the moment it listened, in milliseconds.
    pub(crate) ready_ms: f64,
}

impl Server {
    /// The product on a data folder.
    pub(crate) fn product(data: &Path) -> Result<Server> {
        Server::product_at(data, "127.0.0.1:0")
    }

    /// The same at a fixed address.
    pub(crate) fn product_at(data: &Path, address: &str) -> Result<Server> {
        let data = data.to_str().context("the data folder's name is not text")?;
        Server::start(&["serve", "--bind", address, "--data", data])
    }

    /// The product with a configuration file, with its store on the disk or in memory.
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

    /// This program with other arguments; it must print `listening on http://…` on standard error.
    pub(crate) fn start(words: &[&str]) -> Result<Server> {
        let start = clock::now_ns();
        let mut child = Command::new(std::env::current_exe()?)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("the server cannot be started")?;
        let errors = child.stderr.take().context("standard error was asked for")?;
        let mut said = String::new();
        let mut lines = BufReader::new(errors).lines();
        for line in lines.by_ref() {
            let line = line?;
            if let Some((_, address)) = line.split_once("listening on http://") {
                let ready_ms = clock::seconds_since(start) * 1e3;
                let address = address.trim().parse().context("the server names no address")?;
                // Whatever it says from now on is passed on, so that it never waits for a reader.
                drop(recount_world::thread("server-words", move || {
                    for line in lines.map_while(Result::ok) {
                        eprintln!("server: {line}");
                    }
                }));
                return Ok(Server { child, address, ready_ms });
            }
            said.push_str(&line);
            said.push('\n');
        }
        let _status = child.wait()?;
        bail!("the server did not start: {said}")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to go, and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.end()
    }

    /// Kills it at once, as a power cut of the process.
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

/// A program that keeps every processor busy, at the usual priority whatever ours is.
pub(crate) struct Spinners(Child);

impl Spinners {
    /// Starts it; it waits for its signal.
    pub(crate) fn prepare() -> Result<Spinners> {
        let program = std::env::current_exe()?;
        let start = |command: &mut Command| command.arg("spin").stdin(Stdio::piped()).spawn();
        // A real-time policy would be handed on; where this tool is missing there is hardly one.
        let usual = start(Command::new("chrt").args(["--other", "0"]).arg(&program));
        let child = usual.or_else(|_| start(&mut Command::new(&program)));
        Ok(Spinners(child.context("what keeps the processors busy cannot be started")?))
    }

    pub(crate) fn go(&self) -> Result<()> {
        let mut line = self.0.stdin.as_ref().context("standard input was asked for")?;
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
    // Ends, and the loops with it, when the other end is closed.
    for line in lines {
        line?;
    }
    Ok(())
}

/// This thread, and those it starts, at a raised priority until it is dropped.
pub(crate) struct Raised {
    before: i32,
}

impl Raised {
    /// `None` where that is not allowed.
    pub(crate) fn raise() -> Option<Raised> {
        let before = rustix::process::getpriority_process(None).ok()?;
        rustix::process::setpriority_process(None, before - 10).ok()?;
        Some(Raised { before })
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Err(error) = rustix::process::setpriority_process(None, self.before) {
            eprintln!("the priority stays raised: {error}");
        }
    }
}

/// A load client in a process of its own.
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
        let output = self.child.stdout.as_mut().context("standard output was asked for")?;
        let mut word = Vec::new();
        let mut byte = [0];
        while std::io::Read::read(output, &mut byte)? == 1 && byte[0] != b'\n' {
            word.push(byte[0]);
        }
        if word != b"ready" {
            bail!("the client was not ready: it said {:?}", String::from_utf8_lossy(&word));
        }
        Ok(())
    }

    /// Lets the client, which was ready for a first look, go on to the next time that it is ready.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("standard input was asked for")?;
        Ok(input.write_all(b"go on\n")?)
    }

    /// Lets the client begin.
    pub(crate) fn go(&mut self) -> Result<()> {
        drop(self.child.stdin.take());
        Ok(())
    }

    /// What the client found.
    pub(crate) fn finish<T: DeserializeOwned>(self) -> Result<T> {
        let output = self.child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("the client ended with {}: {text}", output.status);
        }
        let line = text.lines().last().context("the client said nothing")?;
        serde_json::from_str(line).with_context(|| format!("the client said {line:?}"))
    }
}

/// Anonymous memory of a process, in KiB.
pub(crate) fn anonymous_kib(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("the system does not tell anonymous memory")?.parse()?)
}

/// Seconds of processor time that a process has used.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    // Nanoseconds on a processor, thread by thread: the usual counters only know ticks of 10 ms. The
    // threads of a server do not end while it is measured.
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

/// Watches which programs use the processors, so that a figure can be read together with the other load.
pub(crate) struct Neighbours {
    start_ns: u64,
    busy: f64,
    ours: f64,
}

impl Neighbours {
    pub(crate) fn watch() -> Neighbours {
        Neighbours { start_ns: clock::now_ns(), busy: busy_seconds(), ours: our_seconds() }
    }

    /// Processors that others kept busy meanwhile; processes of ours count once they have ended.
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

/// Of all processors since they started: user, nice, system, interrupts.
fn busy_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    ticks(line, 1..4) + ticks(line, 6..8)
}

/// Of this process and those it has waited for.
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
