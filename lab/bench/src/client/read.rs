//! Reads one stream with many readers in one thread, and feeds it with an open-loop sender.
//!
//! Events are due at set times, whether or not the server keeps up. The delay of an event counts from its due time, so
//! a server that stalls cannot slow the load down.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result, ensure};
use rustix::event::epoll;
use serde::{Deserialize, Serialize};

use super::sse::Reader;
use crate::clock::{self, now_ns};
use crate::histogram::Histogram;
use crate::{http, scene};

/// Readers whose messages are timed.
const SAMPLED: usize = 50;
/// Bytes read from one socket at a time.
const READ_BYTES: usize = 256 << 10;
/// How long readers are read after the last event was due.
const DRAIN_SECONDS: f64 = 20.0;
/// Streams without data for this long after the last event was due count as complete.
const QUIET_SECONDS: f64 = 2.0;
/// The interval at which due events are checked.
const TICK_NS: u64 = 1_000_000;
/// Events one batch may carry.
const BATCH_MAX: u64 = 1000;

/// The streams to read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReadPlan {
    pub(crate) address: SocketAddr,
    /// The server that the client appends to, if it is another one.
    pub(crate) written_at: Option<SocketAddr>,
    pub(crate) path: String,
    pub(crate) readers: usize,
    /// Additional readers that never read a byte.
    pub(crate) stalled: usize,
    /// Events per second, and their total number.
    pub(crate) rate: u64,
    pub(crate) events: u64,
    /// Whether events carry the time when they were sent instead of the due time.
    pub(crate) stamped_when_sent: bool,
    pub(crate) source: Source,
}

/// The source of the events.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Source {
    /// The client itself appends to this run.
    Run(String),
    /// The server itself, once it gets the signal.
    Server,
}

/// The results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReadFound {
    pub(crate) delivered: u64,
    pub(crate) missing: u64,
    pub(crate) repeated: u64,
    /// Readers whose stream ended before the last event.
    pub(crate) closed_early: u64,
    /// From when the first event was due to the last message.
    pub(crate) seconds: f64,
    pub(crate) late: Histogram,
    /// Delay of the client's own appends, from the time in the event to confirmed.
    pub(crate) confirmed: Histogram,
}

struct Socket {
    stream: TcpStream,
    reader: Reader,
    open: bool,
}

fn connect(address: SocketAddr, path: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).context("a reader cannot connect")?;
    stream.set_nodelay(true)?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    Ok(stream)
}

struct Crowd {
    sockets: Vec<Socket>,
    poll: rustix::fd::OwnedFd,
    buffer: Vec<u8>,
    late: Histogram,
}

impl Crowd {
    fn open(plan: &ReadPlan) -> Result<Crowd> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut sockets = Vec::with_capacity(plan.readers);
        let every = plan.readers.div_ceil(SAMPLED).max(1);
        for at in 0..plan.readers {
            let stream = connect(plan.address, &plan.path)?;
            stream.set_nonblocking(true)?;
            epoll::add(&poll, &stream, epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN)?;
            sockets.push(Socket { stream, reader: Reader::new(at % every == 0), open: true });
        }
        Ok(Crowd { sockets, poll, buffer: vec![0; READ_BYTES], late: Histogram::default() })
    }

    /// Reads available data, with a short wait. Returns whether there was any.
    fn turn(&mut self) -> Result<bool> {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 512];
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let count = epoll::wait(&self.poll, &mut events, Some(&wait))?;
        let mut brought = false;
        for event in events.iter().take(count) {
            let at = usize::try_from(event.data.u64()).unwrap_or(0);
            let Some(socket) = self.sockets.get_mut(at) else { continue };
            match socket.stream.read(&mut self.buffer) {
                Ok(0) => Self::close(&self.poll, socket)?,
                Ok(got) => {
                    brought = true;
                    socket.reader.take(&self.buffer[..got], now_ns(), &mut self.late);
                    if socket.reader.is_over() {
                        Self::close(&self.poll, socket)?;
                    }
                }
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => Self::close(&self.poll, socket)?,
            }
        }
        Ok(brought)
    }

    fn close(poll: &rustix::fd::OwnedFd, socket: &mut Socket) -> Result<()> {
        if socket.open {
            socket.open = false;
            epoll::delete(poll, &socket.stream)?;
        }
        Ok(())
    }
}

/// Reads until every reader has everything, or no more data comes.
pub(super) fn run(plan: &ReadPlan) -> Result<ReadFound> {
    let mut crowd = Crowd::open(plan)?;
    let stalled: Vec<TcpStream> = (0..plan.stalled)
        .map(|_| {
            let stream = connect(plan.address, &plan.path)?;
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096)?;
            Ok(stream)
        })
        .collect::<Result<_>>()?;
    let start = now_ns();
    while !crowd.sockets.iter().all(|socket| socket.reader.caught_up) {
        crowd.turn()?;
        ensure!(clock::seconds_since(start) < 60.0, "not every reader is level after a minute");
        if let Some(refused) = crowd.sockets.iter().find(|s| !matches!(s.reader.status(), 0 | 200)) {
            anyhow::bail!("a reader was refused with {}", refused.reader.status());
        }
    }
    super::wait_for_start()?;
    let before: u64 = crowd.sockets.iter().map(|socket| socket.reader.messages).sum();
    let start = now_ns() + 5 * TICK_NS;
    let feed = feed(plan, start)?;
    let due_last = start + plan.events.max(1) * 1_000_000_000 / plan.rate.max(1);
    let expected = plan.events;
    let mut last_brought = start;
    let done = |crowd: &Crowd| {
        crowd.sockets.iter().all(|socket| {
            !socket.open || socket.reader.messages >= expected + before / plan.readers.max(1) as u64
        })
    };
    loop {
        if crowd.turn()? {
            last_brought = now_ns();
        }
        if done(&crowd) && now_ns() > start {
            break;
        }
        let over = now_ns() > due_last;
        let quiet = over && clock::seconds_since(last_brought.max(due_last)) > QUIET_SECONDS;
        if quiet || clock::seconds_since(due_last) > DRAIN_SECONDS {
            break;
        }
    }
    let confirmed = match feed {
        Some(feed) => feed.join().map_err(|_| anyhow::anyhow!("the sender died"))??,
        None => Histogram::default(),
    };
    drop(stalled);
    let sum = |of: fn(&Reader) -> u64| crowd.sockets.iter().map(|socket| of(&socket.reader)).sum::<u64>();
    let everything = before / plan.readers.max(1) as u64 + expected;
    Ok(ReadFound {
        delivered: sum(|reader| reader.messages) - before,
        missing: sum(|reader| reader.missing),
        repeated: sum(|reader| reader.repeated),
        closed_early: crowd
            .sockets
            .iter()
            .filter(|socket| !socket.open && socket.reader.messages < everything)
            .count() as u64,
        seconds: last_brought.saturating_sub(start) as f64 / 1e9,
        late: crowd.late,
        confirmed,
    })
}

type Feed = std::thread::JoinHandle<Result<Histogram>>;

fn feed(plan: &ReadPlan, start: u64) -> Result<Option<Feed>> {
    let plan = plan.clone();
    match plan.source.clone() {
        Source::Server => {
            // The response is not awaited, because the first events may come before it.
            let mut stream = TcpStream::connect(plan.address)?;
            write!(stream, "GET /go?start={start} HTTP/1.1\r\nhost: {}\r\n\r\n", plan.address)?;
            Ok(Some(spawn(move || {
                let mut answer = [0; 512];
                let _bytes = stream.read(&mut answer)?;
                Ok(Histogram::default())
            })))
        }
        Source::Run(run) => {
            let mut connection = http::Connection::open(plan.written_at.unwrap_or(plan.address))?;
            Ok(Some(spawn(move || send(&plan, &run, &mut connection, start))))
        }
    }
}

fn spawn(body: impl FnOnce() -> Result<Histogram> + Send + 'static) -> Feed {
    std::thread::spawn(body)
}

/// Appends each event when it is due. Events that became due during an append go with the next.
fn send(plan: &ReadPlan, run: &str, connection: &mut http::Connection, start: u64) -> Result<Histogram> {
    let mut confirmed = Histogram::default();
    let (mut sent, mut seq) = (0, 1);
    let due_of = |event: u64| start + event * 1_000_000_000 / plan.rate;
    let path_run = run.to_owned();
    while sent < plan.events {
        let next_tick = start + (due_of(sent) - start).div_ceil(TICK_NS) * TICK_NS;
        clock::sleep_until_ns(next_tick);
        let now = now_ns();
        let due = ((now.saturating_sub(start)) as u128 * u128::from(plan.rate) / 1_000_000_000) as u64 + 1;
        let until = due.min(plan.events).min(sent + BATCH_MAX).max(sent + 1);
        let stamp = |event| if plan.stamped_when_sent { now } else { due_of(event) };
        let events: Vec<_> = (sent..until).map(|event| (scene::TYPE, scene::data(stamp(event)))).collect();
        http::append(connection, &path_run, &scene::batch(0, seq, &events))?;
        let done = now_ns();
        for event in sent..until {
            confirmed.add(done.saturating_sub(stamp(event)));
        }
        seq += 1;
        sent = until;
    }
    Ok(confirmed)
}
