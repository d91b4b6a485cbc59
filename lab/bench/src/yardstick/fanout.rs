//! A hand-written fan-out loop: one thread, every socket, one shared buffer of frames, a cursor for each reader.
//!
//! Each millisecond it frames due events and writes to every reader all missing frames, up to 64 KiB at a time. It
//! stores nothing and reads nothing after the request.

use std::io::Write as _;
use std::net::TcpStream;

use anyhow::Result;

use crate::clock::{self, now_ns};
use crate::scene;

/// Maximum bytes of one write.
const WRITE_BYTES_MAX: usize = 64 << 10;
const TICK_NS: u64 = 1_000_000;

struct FanoutReader {
    stream: TcpStream,
    at: usize,
    is_closed: bool,
}

pub(crate) fn serve(rate: u64, events: u64) -> Result<()> {
    let listener = super::listen()?;
    let mut readers = Vec::new();
    let start = loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let path = super::request(&stream)?;
        if let Some((_, start)) = path.split_once("/go?start=") {
            break start.parse()?;
        }
        stream.write_all(super::HEAD)?;
        stream.write_all(super::CAUGHT_UP)?;
        stream.set_nonblocking(true)?;
        readers.push(FanoutReader { stream, at: 0, is_closed: false });
    };
    let mut log = Vec::with_capacity(usize::try_from(events)? * (scene::STORED_BYTES + 24));
    let mut framed = 0;
    let mut tick: u64 = start;
    clock::sleep_until_ns(start);
    loop {
        let due = super::due(now_ns().saturating_sub(start), rate, events);
        while framed < due {
            let due_ns = start + framed * 1_000_000_000 / rate;
            write!(log, "id: {}\ndata: ", framed + 2)?;
            log.extend_from_slice(&scene::stored(framed + 2, due_ns));
            log.extend_from_slice(b"\n\n");
            framed += 1;
        }
        let mut behind = false;
        for reader in readers.iter_mut().filter(|reader| !reader.is_closed) {
            behind |= reader.write(&log);
        }
        if framed == events && !behind {
            break;
        }
        tick += TICK_NS;
        clock::sleep_until_ns(tick);
        tick = tick.max(now_ns());
    }
    // Readers see the end of their streams.
    drop(readers);
    std::thread::park();
    Ok(())
}

impl FanoutReader {
    /// Writes what the socket accepts. Returns whether data remains.
    fn write(&mut self, log: &[u8]) -> bool {
        while self.at < log.len() {
            let until = log.len().min(self.at + WRITE_BYTES_MAX);
            match self.stream.write(&log[self.at..until]) {
                Ok(written) => self.at += written,
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => return true,
                Err(_) => {
                    self.is_closed = true;
                    return false;
                }
            }
        }
        false
    }
}
