//! Reads the whole history of a run as fast as possible, with one reader.
//!
//! Timed passes only count bytes, so that reading costs as little as possible on both sides of a comparison. One pass
//! before them checks every message.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::sse::Reader;
use crate::clock::{now_ns, seconds_since};
use crate::histogram::Histogram;

const READ_BYTES: usize = 256 << 10;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReplayPlan {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    /// Messages that the stream must have; checked in the first pass of a plan without `bytes`.
    pub(crate) messages: u64,
    /// Bytes after which a timed pass ends.
    pub(crate) bytes: Option<u64>,
    /// The number of timed passes; their median counts.
    pub(crate) passes: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReplayFound {
    pub(crate) messages: u64,
    pub(crate) missing: u64,
    pub(crate) repeated: u64,
    /// Bytes from the first to the last message's end.
    pub(crate) bytes: u64,
    pub(crate) seconds: Vec<f64>,
}

fn open(plan: &ReplayPlan) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(plan.address)?;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60)))?;
    let request =
        format!("GET {} HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n\r\n", plan.path, plan.address);
    stream.write_all(request.as_bytes())?;
    Ok(stream)
}

pub(super) fn run(plan: &ReplayPlan) -> Result<ReplayFound> {
    let mut found = ReplayFound { messages: 0, missing: 0, repeated: 0, bytes: 0, seconds: Vec::new() };
    let mut buffer = vec![0; READ_BYTES];
    super::wait_for_start()?;
    let Some(wanted) = plan.bytes else {
        let mut stream = open(plan)?;
        let mut reader = Reader::new(false);
        let mut late = Histogram::default();
        let start = now_ns();
        while reader.messages < plan.messages {
            let got = stream.read(&mut buffer).context("the stream stopped")?;
            ensure!(got > 0, "the stream ended after {} messages of {}", reader.messages, plan.messages);
            found.bytes += got as u64;
            reader.take(&buffer[..got], 0, &mut late);
        }
        found.seconds.push(seconds_since(start));
        found.messages = reader.messages;
        found.missing = reader.missing;
        found.repeated = reader.repeated;
        return Ok(found);
    };
    for _ in 0..plan.passes {
        let mut stream = open(plan)?;
        let start = now_ns();
        let mut bytes = 0;
        while bytes < wanted {
            let got = stream.read(&mut buffer).context("the stream stopped")?;
            ensure!(got > 0, "the stream ended after {bytes} bytes of {wanted}");
            bytes += got as u64;
        }
        found.seconds.push(seconds_since(start));
        found.bytes = bytes;
    }
    Ok(found)
}
