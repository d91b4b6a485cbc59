//! Yardsticks: minimal programs that do the same job, written as well as possible.
//!
//! A yardstick that is needlessly slow would flatter the product. So each is compared with a raw limit of the machine,
//! measured in the same run (`raw.rs`); one that does not reach its share fails the bench.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::{Context as _, Result, bail};

pub(crate) mod broadcast;
pub(crate) mod empty;
pub(crate) mod fanout;
pub(crate) mod file;
pub(crate) mod group;
pub(crate) mod plain;
pub(crate) mod postgres;
pub(crate) mod segment;
pub(crate) mod sqlite;
pub(crate) mod sync;

/// The head of an event stream without chunks.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
/// Marks a reader as caught up.
const CAUGHT_UP: &[u8] = b"event: caught_up\ndata: {}\n\n";

/// Serves one of the server yardsticks until the process ends.
pub(crate) fn serve(words: &[String]) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["empty"] => empty::serve(),
        ["file", path] => file::serve(path),
        ["fanout", rate, events] => fanout::serve(rate.parse()?, events.parse()?),
        ["broadcast", rate, events] => broadcast::serve(rate.parse()?, events.parse()?),
        _ => bail!("unknown yardstick: {words:?}"),
    }
}

fn listen() -> Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    announce(listener.local_addr()?)?;
    Ok(listener)
}

fn announce(address: SocketAddr) -> Result<()> {
    writeln!(std::io::stderr().lock(), "listening on http://{address}")?;
    Ok(())
}

/// Reads the head of a request. Returns its path.
fn request(stream: &TcpStream) -> Result<String> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().context("a request without a line")??;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    Ok(first.split(' ').nth(1).unwrap_or("/").to_owned())
}

/// How many of `events` are due `elapsed_ns` after the first, at `rate` per second.
fn due(elapsed_ns: u64, rate: u64, events: u64) -> u64 {
    let due = u128::from(elapsed_ns) * u128::from(rate) / 1_000_000_000 + 1;
    u64::try_from(due).unwrap_or(u64::MAX).min(events)
}
