//! Many runs with constant output and their listeners: measures the delay until a question of a run reaches them.
//!
//! One thread reads all streams. Each run has its own open-loop sender: an event is due at a set time, and a question
//! carries that time. Streams of the accessibility face and of the native face are read in the same way.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result, anyhow, ensure};
use rustix::event::epoll;
use serde::{Deserialize, Serialize};

use super::sse::Lines;
use crate::clock::{self, now_ns};
use crate::histogram::Histogram;
use crate::{http, scene};

/// Bytes read from one socket at a time.
const READ_BYTES: usize = 64 << 10;
/// How long all streams may take until their first message.
const READY_SECONDS: f64 = 60.0;
/// How long listeners are read after the last event was due.
const DRAIN_SECONDS: f64 = 10.0;
/// In each cycle of so many events, one is a question and the next one its resolution.
const CYCLE: u64 = 20;

/// Which face listeners use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Face {
    /// A subscription with a rate of one event a second.
    Accessibility,
    /// The native event stream.
    Native,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ListenPlan {
    pub(crate) address: SocketAddr,
    pub(crate) face: Face,
    pub(crate) runs: usize,
    pub(crate) listeners_a_run: usize,
    /// Events per second of each run, and their total number.
    pub(crate) rate: u64,
    pub(crate) events: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ListenFound {
    /// Questions that should reach a listener, and those that did.
    pub(crate) expected: u64,
    pub(crate) received: u64,
    /// Messages of all kinds, and their bytes.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) closed_early: u64,
    /// Delay of questions, from due to received.
    pub(crate) late: Histogram,
    /// Delay of all events, from due to confirmed.
    pub(crate) confirmed: Histogram,
}

struct Ear {
    stream: TcpStream,
    lines: Lines,
    messages: u64,
    open: bool,
}

/// Subscribes, waits for the first message of every stream, then sends and listens.
pub(super) fn run(plan: &ListenPlan) -> Result<ListenFound> {
    let mut senders = Vec::new();
    for _ in 0..plan.runs {
        let mut connection = http::Connection::open(plan.address)?;
        let run = http::create_run(&mut connection)?;
        http::append(
            &mut connection,
            &run,
            &scene::batch(0, 1, &[("turn.started", r#"{"turn_index":0}"#.into())]),
        )?;
        senders.push((connection, run));
    }
    // The cost of the runs must not count as the cost of their listeners.
    super::wait_for_more()?;
    let mut listeners = Listeners::open(plan, &senders)?;
    super::wait_for_start()?;
    let before: u64 = listeners.ears.iter().map(|ear| ear.messages).sum();
    let start = now_ns() + 5_000_000;
    let found = std::thread::scope(|scope| {
        let threads: Vec<_> = senders
            .into_iter()
            .enumerate()
            .map(|(at, (connection, run))| {
                scope.spawn(move || send(plan, at as u64, connection, &run, start))
            })
            .collect();
        listeners.listen(plan, start)?;
        let mut confirmed = Histogram::default();
        for thread in threads {
            confirmed.merge(&thread.join().map_err(|_| anyhow!("a sender died"))??);
        }
        anyhow::Ok(confirmed)
    });
    Ok(ListenFound {
        expected: plan.expected(),
        received: listeners.late.total(),
        messages: listeners.ears.iter().map(|ear| ear.messages).sum::<u64>() - before,
        bytes: listeners.bytes,
        closed_early: listeners.ears.iter().filter(|ear| !ear.open).count() as u64,
        confirmed: found?,
        late: listeners.late,
    })
}

impl ListenPlan {
    fn expected(&self) -> u64 {
        self.events / CYCLE * (self.runs * self.listeners_a_run) as u64
    }

    fn due(&self, start: u64, at_run: u64, event: u64) -> u64 {
        let gap = 1_000_000_000 / self.rate;
        // The runs do not send at the same moment.
        start + event * gap + at_run * gap / self.runs as u64
    }
}

/// All listeners.
struct Listeners {
    ears: Vec<Ear>,
    poll: rustix::fd::OwnedFd,
    buffer: Vec<u8>,
    question: memchr::memmem::Finder<'static>,
    bytes: u64,
    late: Histogram,
}

impl Listeners {
    fn open(plan: &ListenPlan, senders: &[(http::Connection, String)]) -> Result<Listeners> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connection = http::Connection::open(plan.address)?;
        let mut ears = Vec::with_capacity(plan.runs * plan.listeners_a_run);
        for (_, run) in senders {
            for _ in 0..plan.listeners_a_run {
                let path = match plan.face {
                    Face::Native => format!("/v1/runs/{run}/events"),
                    Face::Accessibility => subscribe(&mut connection, run)?,
                };
                let mut stream = TcpStream::connect(plan.address).context("a listener cannot connect")?;
                stream.set_nodelay(true)?;
                write!(
                    stream,
                    "GET {path} HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n\r\n",
                    plan.address
                )?;
                stream.set_nonblocking(true)?;
                let at = epoll::EventData::new_u64(ears.len() as u64);
                epoll::add(&poll, &stream, at, epoll::EventFlags::IN)?;
                ears.push(Ear { stream, lines: Lines::default(), messages: 0, open: true });
            }
        }
        let name: &[u8] = match plan.face {
            Face::Native => b"\"clarification.requested\"",
            Face::Accessibility => b"agent.awaiting.clarification\"",
        };
        let mut listeners = Listeners {
            ears,
            poll,
            buffer: vec![0; READ_BYTES],
            question: memchr::memmem::Finder::new(name),
            bytes: 0,
            late: Histogram::default(),
        };
        let start = now_ns();
        while listeners.ears.iter().any(|ear| ear.messages == 0) {
            listeners.turn()?;
            let refused = listeners.ears.iter().find(|ear| !matches!(ear.lines.status, 0 | 200));
            ensure!(
                refused.is_none(),
                "a listener was refused with {:?}",
                refused.map(|ear| ear.lines.status)
            );
            ensure!(clock::seconds_since(start) < READY_SECONDS, "not every listener has received something");
        }
        Ok(listeners)
    }

    /// Listens until every question was received, or nothing more can come.
    fn listen(&mut self, plan: &ListenPlan, start: u64) -> Result<()> {
        let last = plan.due(start, plan.runs as u64, plan.events);
        while now_ns() < last
            || (self.late.total() < plan.expected() && clock::seconds_since(last) < DRAIN_SECONDS)
        {
            self.turn()?;
        }
        Ok(())
    }

    /// Reads available data, with a short wait.
    fn turn(&mut self) -> Result<()> {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 512];
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let count = epoll::wait(&self.poll, &mut events, Some(&wait))?;
        for event in events.iter().take(count) {
            let at = usize::try_from(event.data.u64()).unwrap_or(0);
            let Some(ear) = self.ears.get_mut(at).filter(|ear| ear.open) else { continue };
            let got = match ear.stream.read(&mut self.buffer) {
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => continue,
                Ok(got) => got,
                Err(_) => 0,
            };
            if got == 0 {
                ear.open = false;
                epoll::delete(&self.poll, &ear.stream)?;
                continue;
            }
            self.bytes += got as u64;
            let (now, messages) = (now_ns(), &mut ear.messages);
            let (question, late) = (&self.question, &mut self.late);
            ear.lines.take(&self.buffer[..got], |line| {
                if !line.starts_with(b"data:") {
                    return;
                }
                *messages += 1;
                if question.find(line).is_some()
                    && let Some(due_ns) = due_in(line)
                {
                    late.add(now.saturating_sub(due_ns));
                }
            });
        }
        Ok(())
    }
}

fn due_in(line: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(line, scene::MARK)? + scene::MARK.len();
    std::str::from_utf8(line.get(at..at + scene::MARK_DIGITS)?).ok()?.parse().ok()
}

/// Subscribes to one run with one event per second and questions. Returns the path of the stream.
fn subscribe(connection: &mut http::Connection, run: &str) -> Result<String> {
    let request = serde_json::json!({
        "type": "subscription.request",
        "aaep_version": "1.0.0",
        "subscriber_id": "bench",
        "capabilities": {
            "supported_conformance_levels": [1, 2, 3],
            "supports_confirmation_reply": true,
            "supports_clarification_reply": true,
            "preferred_verbosity": "normal",
            "max_events_per_second": 1,
        },
        "extensions": { "recount": { "run_id": run } },
    });
    let answer = connection.post("/aaep/v1/subscriptions", request.to_string().as_bytes())?;
    let body = String::from_utf8_lossy(&answer.body);
    ensure!((200..300).contains(&answer.status), "a subscription was refused with {}: {body}", answer.status);
    let accepted: serde_json::Value = serde_json::from_str(&body)?;
    let id = accepted["subscription_id"].as_str().context("a subscription has an id")?;
    Ok(format!("/aaep/v1/events?subscription_id={id}"))
}

/// Appends each event of one run when it is due. Events that became due during an append go with the next.
fn send(
    plan: &ListenPlan,
    at_run: u64,
    mut connection: http::Connection,
    run: &str,
    start: u64,
) -> Result<Histogram> {
    let mut confirmed = Histogram::default();
    let (mut sent, mut seq) = (0, 2);
    while sent < plan.events {
        clock::sleep_until_ns(plan.due(start, at_run, sent));
        let now = now_ns();
        let mut until = sent + 1;
        while until < plan.events && plan.due(start, at_run, until) <= now {
            until += 1;
        }
        let events: Vec<_> =
            (sent..until).map(|event| event_at(run, event, plan.due(start, at_run, event))).collect();
        http::append(&mut connection, run, &scene::batch(0, seq, &events))?;
        let now = now_ns();
        for event in sent..until {
            confirmed.add(now.saturating_sub(plan.due(start, at_run, event)));
        }
        (sent, seq) = (until, seq + 1);
    }
    Ok(confirmed)
}

/// Model output, and near the end of each cycle a question, which no listener resolves.
fn event_at(run: &str, event: u64, due_ns: u64) -> (&'static str, String) {
    let number = event / CYCLE;
    match event % CYCLE {
        18 => {
            let data = format!(
                r#"{{"clarification_id":"{run}_{number}","question":"due={due_ns:019} Shall I go on?"}}"#
            );
            ("clarification.requested", data)
        }
        _ => {
            let data =
                r#"{"turn_index":0,"block_index":0,"delta":"It rains over the sea, and the boats stay. "}"#;
            ("assistant.text_delta", data.to_owned())
        }
    }
}
