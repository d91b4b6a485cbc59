//! Applications that run turns: each on one open connection, one turn after the other, over its own sessions. Each turn
//! is read to its end.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

use super::sse::Lines;
use crate::clock::{now_ns, seconds_since};
use crate::histogram::Histogram;
use crate::http;

/// How long a response may send nothing.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes read from a response at a time.
const READ_BYTES: usize = 16 << 10;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TurnsPlan {
    pub(crate) address: SocketAddr,
    pub(crate) agent: String,
    pub(crate) connections: usize,
    /// Sessions of all connections together.
    pub(crate) sessions: usize,
    pub(crate) seconds: f64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct TurnsFound {
    pub(crate) turns: u64,
    pub(crate) seconds: f64,
    /// From the request to the first byte of the stream, and to its last frame.
    pub(crate) first: Histogram,
    pub(crate) whole: Histogram,
    /// Turns with an unexpected end.
    pub(crate) odd: u64,
}

/// One application.
struct Application {
    stream: TcpStream,
    /// The complete requests that send messages to its sessions.
    requests: Vec<Vec<u8>>,
}

pub(super) fn run(plan: &TurnsPlan) -> Result<TurnsFound> {
    let applications = (0..plan.connections).map(|at| application(plan, at)).collect::<Result<Vec<_>>>()?;
    super::wait_for_start()?;
    let start = now_ns();
    let mut found = TurnsFound::default();
    std::thread::scope(|scope| {
        let talks: Vec<_> = applications
            .into_iter()
            .map(|application| scope.spawn(move || talk(application, start, plan.seconds)))
            .collect();
        for talk in talks {
            let one = talk.join().map_err(|_| anyhow!("an application died"))??;
            found.turns += one.turns;
            found.odd += one.odd;
            found.first.merge(&one.first);
            found.whole.merge(&one.whole);
        }
        anyhow::Ok(())
    })?;
    found.seconds = seconds_since(start);
    Ok(found)
}

fn application(plan: &TurnsPlan, at: usize) -> Result<Application> {
    let mut connection = http::Connection::open(plan.address)?;
    let own = (plan.sessions + plan.connections - 1 - at) / plan.connections;
    let mut requests = Vec::with_capacity(own);
    for _ in 0..own {
        let body = format!(r#"{{"agent":{{"name":"{}"}}}}"#, plan.agent);
        let answer = connection.post("/aap/sessions", body.as_bytes())?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(answer.status == 201, "a session was refused with {}: {text}", answer.status);
        let made: serde_json::Value = serde_json::from_str(&text)?;
        let session = made["sessionId"].as_str().context("the answer names no session")?;
        requests.push(request(plan.address, session));
    }
    let stream = TcpStream::connect(plan.address).context("an application cannot connect")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(Application { stream, requests })
}

fn request(address: SocketAddr, session: &str) -> Vec<u8> {
    let body = r#"{"stream":"delta","messages":[{"role":"user","content":"And then?"}]}"#;
    let length = body.len();
    format!(
        "POST /aap/sessions/{session}/turns HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn talk(mut application: Application, start: u64, seconds: f64) -> Result<TurnsFound> {
    let mut found = TurnsFound::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut next = 0;
    while seconds_since(start) < seconds {
        let request = &application.requests[next % application.requests.len()];
        next += 1;
        let start = now_ns();
        application.stream.write_all(request)?;
        let (mut lines, mut first, mut ended_well) = (Lines::default(), None, false);
        while !lines.is_over() {
            let got = application.stream.read(&mut buffer).context("a turn stopped")?;
            ensure!(got > 0, "the server closed the connection in a turn");
            lines.take(&buffer[..got], |line| {
                first.get_or_insert_with(now_ns);
                ended_well |= line.starts_with(b"data: {\"stopReason\":\"end_turn\"");
            });
        }
        let now = now_ns();
        ensure!(lines.status == 200, "a turn was refused with {}", lines.status);
        found.turns += 1;
        found.odd += u64::from(!ended_well);
        found.first.add(first.unwrap_or(now) - start);
        found.whole.add(now - start);
    }
    Ok(found)
}
