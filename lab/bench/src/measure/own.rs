//! Own runs for measures: a server with a scripted model, runs started over HTTP, and the stream of their events.
//!
//! Start at [`OwnRunServer`]. It uses only the native face.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::client::sse::Lines;
use crate::clock::now_ns;
use crate::http::Connection;
use crate::process::Server;

/// Bytes read from a stream at a time.
const READ_BYTES: usize = 256 << 10;
/// How long a stream may send nothing.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that executes runs, in a temporary folder.
pub(super) struct OwnRunServer {
    pub(super) server: Server,
    /// The folder in which runs work.
    pub(super) work: PathBuf,
}

impl OwnRunServer {
    /// `script` is the model's output, `sandbox` the isolation of commands.
    pub(super) fn start(folder: &Path, script: &str, sandbox: &str) -> Result<OwnRunServer> {
        OwnRunServer::with(folder, script, sandbox, "", false)
    }

    /// For applications: commands are disabled. `agents` is a part of the configuration.
    pub(super) fn talking(
        folder: &Path,
        script: &str,
        agents: &str,
        in_memory: bool,
    ) -> Result<OwnRunServer> {
        OwnRunServer::with(folder, script, "off", agents, in_memory)
    }

    fn with(
        folder: &Path,
        script: &str,
        sandbox: &str,
        agents: &str,
        in_memory: bool,
    ) -> Result<OwnRunServer> {
        let folder = folder.canonicalize()?;
        let work = folder.join("work");
        std::fs::create_dir_all(&work)?;
        std::fs::write(folder.join("script.toml"), script)?;
        let config = folder.join("recount.toml");
        // Measured runs need no approval.
        std::fs::write(
            folder.join("policy.toml"),
            "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"allow\"\n",
        )?;
        let text = format!(
            "[policy]\nfile = \"policy.toml\"\n\n[workspaces]\nallow = [{work:?}]\n\n[sandbox]\nmode = {sandbox:?}\n\n\
             [models]\ndefault = \"play/it\"\n\n[models.providers.play]\nkind = \"scripted\"\nscript = \"script.toml\"\n\n{agents}"
        );
        std::fs::write(&config, text)?;
        let server = Server::configured(&folder.join("data"), &config, in_memory)?;
        Ok(OwnRunServer { server, work })
    }

    pub(super) fn connect(&self) -> Result<Connection> {
        Connection::open(self.server.address)
    }

    /// Follows a stream and calls `is_last` with every event and its time, until that returns true.
    pub(super) fn follow(&self, path: &str, mut is_last: impl FnMut(&[u8], u64) -> bool) -> Result<()> {
        let address = self.server.address;
        let mut stream = TcpStream::connect(address).context("a reader cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n")?;
        let (mut lines, mut buffer, mut over) = (Lines::default(), vec![0; READ_BYTES], false);
        while !over {
            let got = stream.read(&mut buffer).with_context(|| format!("{path} stopped"))?;
            let now = now_ns();
            lines.take(&buffer[..got], |line| {
                if let Some(event) = line.strip_prefix(b"data: ") {
                    over |= is_last(event, now);
                }
            });
            ensure!(lines.status < 400, "{path} was refused with {}", lines.status);
            ensure!(over || got > 0 && !lines.is_over(), "{path} ended too early");
        }
        Ok(())
    }
}

/// Creates a run. Returns its id.
pub(super) fn order(connection: &mut Connection, order: &Value) -> Result<String> {
    let answer = connection.post("/v1/runs", order.to_string().as_bytes())?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    ensure!(answer.status == 201, "a run was refused with {}: {text}", answer.status);
    let run: Value = serde_json::from_str(&text)?;
    let id = run["data"]["id"].as_str();
    Ok(id.with_context(|| format!("the answer names no run: {text}"))?.to_owned())
}

/// The order of a model run in its own workspace.
pub(super) fn talk() -> Value {
    json!({ "kind": "agent_loop", "request_text": "Go on." })
}

/// Whether an event is of this type.
pub(super) fn is(event: &[u8], type_name: &str) -> bool {
    field(event, b"\"type\":\"").is_some_and(|rest| rest.starts_with(type_name.as_bytes()))
}

/// The run that an event belongs to.
pub(super) fn run_of(event: &[u8]) -> Option<&[u8]> {
    field(event, b"\"run_id\":\"")?.get(..RUN_ID_BYTES)
}

const RUN_ID_BYTES: usize = 30;

/// The text after the first occurrence of `name` in the envelope, which precedes any external text.
fn field<'a>(event: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    memchr::memmem::find(event, name).map(|at| &event[at + name.len()..])
}
