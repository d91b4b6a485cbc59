//! A handler that does nothing: it reads a request with its body and returns an empty object.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{Context as _, Result};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// Serves until the process ends, each connection on its own thread.
pub(crate) fn serve() -> Result<()> {
    for stream in super::listen()?.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        drop(recount_world::thread("empty", move || {
            // A client that disconnects is done.
            drop(answer(stream));
        }));
    }
    Ok(())
}

fn answer(mut stream: TcpStream) -> Result<()> {
    let mut buffer = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        let head_end = loop {
            if let Some(at) = memchr::memmem::find(&buffer, b"\r\n\r\n") {
                break at + 4;
            }
            let got = stream.read(&mut piece)?;
            if got == 0 {
                return Ok(());
            }
            buffer.extend_from_slice(&piece[..got]);
        };
        let head = std::str::from_utf8(&buffer[..head_end])?.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let end = head_end + length.context("a request without a length")?.trim().parse::<usize>()?;
        while buffer.len() < end {
            let got = stream.read(&mut piece)?;
            anyhow::ensure!(got > 0, "half a request");
            buffer.extend_from_slice(&piece[..got]);
        }
        buffer.drain(..end);
        stream.write_all(ANSWER)?;
    }
}
