//! Many runs that talk all the time, each with listeners of its own, and how late a question of a run reaches them.
//!
//! One thread reads all streams. Each run has a sender of its own, an open loop: an event is due at a set time, and a
//! question carries that time. Streams of the accessibility face and of the native face are read alike.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result, anyhow, ensure};
use rustix::event::epoll;
use serde::{Deserialize, Serialize};

use super::sse::Lines;
use crate::clock::{self, now_ns};
use crate::histogram::Histogram;
use crate::{http, scene};

/// Bytes taken from one socket at a time.
const READ_BYTES: usize = 64 << 10;
/// How long all streams may take to bring their first message.
const READY_SECONDS: f64 = 60.0;
/// After the last event was due, listeners are given this long.
const DRAIN_SECONDS: f64 = 10.0;
/// Of these many events of a run one is a question, and the next one its answer.
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
    /// Events a second of each run, and how many of each in all.
    pub(crate) rate: u64,
    pub(crate) events: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ListenFound {
    /// Questions that were to reach a listener, and those that did.
    pub(crate) expected: u64,
    pub(crate) heard: u64,
    /// Messages of all kinds, and their bytes.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) closed_early: u64,
    /// Of questions: from due to heard.
    pub(crate) late: Histogram,
    /// Of all events: from due to confirmed.
    pub(crate) confirmed: Histogram,
}

struct Ear {
    stream: TcpStream,
    lines: Lines,
    messages: u64,
    open: bool,
}

/// Subscribes, waits until every stream has brought something, sends and listens.
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
    // What the runs themselves cost is not what their listeners cost.
    super::stand_ready_for_more()?;
    let mut hall = Hall::open(plan, &senders)?;
    super::stand_ready()?;
    let before: u64 = hall.ears.iter().map(|ear| ear.messages).sum();
    let start = now_ns() + 5_000_000;
    let found = std::thread::scope(|scope| {
        let threads: Vec<_> = senders
            .into_iter()
            .enumerate()
            .map(|(at, (connection, run))| {
                scope.spawn(move || send(plan, at as u64, connection, &run, start))
            })
            .collect();
        hall.listen(plan, start)?;
        let mut confirmed = Histogram::default();
        for thread in threads {
            confirmed.merge(&thread.join().map_err(|_| anyhow!("a sender died"))??);
        }
        anyhow::Ok(confirmed)
    });
    Ok(ListenFound {
        expected: plan.expected(),
        heard: hall.late.total(),
        messages: hall.ears.iter().map(|ear| ear.messages).sum::<u64>() - before,
        bytes: hall.bytes,
        closed_early: hall.ears.iter().filter(|ear| !ear.open).count() as u64,
        confirmed: found?,
        late: hall.late,
    })
}

impl ListenPlan {
    fn expected(&self) -> u64 {
        self.events / CYCLE * (self.runs * self.listeners_a_run) as u64
    }

    fn due(&self, start: u64, at_run: u64, event: u64) -> u64 {
        let gap = 1_000_000_000 / self.rate;
        // Runs do not speak in the same moment.
        start + event * gap + at_run * gap / self.runs as u64
    }
}

/// All listeners.
struct Hall {
    ears: Vec<Ear>,
    poll: rustix::fd::OwnedFd,
    buffer: Vec<u8>,
    question: memchr::memmem::Finder<'static>,
    bytes: u64,
    late: Histogram,
}

impl Hall {
    fn open(plan: &ListenPlan, senders: &[(http::Connection, String)]) -> Result<Hall> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut door = http::Connection::open(plan.address)?;
        let mut ears = Vec::with_capacity(plan.runs * plan.listeners_a_run);
        for (_, run) in senders {
            for _ in 0..plan.listeners_a_run {
                let path = match plan.face {
                    Face::Native => format!("/v1/runs/{run}/events"),
                    Face::Accessibility => subscribe(&mut door, run)?,
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
        let mut hall = Hall {
            ears,
            poll,
            buffer: vec![0; READ_BYTES],
            question: memchr::memmem::Finder::new(name),
            bytes: 0,
            late: Histogram::default(),
        };
        let start = now_ns();
        while hall.ears.iter().any(|ear| ear.messages == 0) {
            hall.turn()?;
            let refused = hall.ears.iter().find(|ear| !matches!(ear.lines.status, 0 | 200));
            ensure!(
                refused.is_none(),
                "a listener was refused with {:?}",
                refused.map(|ear| ear.lines.status)
            );
            ensure!(clock::seconds_since(start) < READY_SECONDS, "not every listener has heard something");
        }
        Ok(hall)
    }

    /// Until every question was heard, or nothing more can come.
    fn listen(&mut self, plan: &ListenPlan, start: u64) -> Result<()> {
        let last = plan.due(start, plan.runs as u64, plan.events);
        while now_ns() < last
            || (self.late.total() < plan.expected() && clock::seconds_since(last) < DRAIN_SECONDS)
        {
            self.turn()?;
        }
        Ok(())
    }

    /// Takes what is there, waiting a little for it.
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

/// A subscription to one run that takes one event a second and answers questions; the path of its stream.
fn subscribe(door: &mut http::Connection, run: &str) -> Result<String> {
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
    let answer = door.post("/aaep/v1/subscriptions", request.to_string().as_bytes())?;
    let body = String::from_utf8_lossy(&answer.body);
    ensure!((200..300).contains(&answer.status), "a subscription was refused with {}: {body}", answer.status);
    let accepted: serde_json::Value = serde_json::from_str(&body)?;
    let id = accepted["subscription_id"].as_str().context("a subscription has an id")?;
    Ok(format!("/aaep/v1/events?subscription_id={id}"))
}

/// Appends each event of one run when it is due; what became due during an append goes with the next.
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
            (sent..until).map(|event| said(run, event, plan.due(start, at_run, event))).collect();
        http::append(&mut connection, run, &scene::batch(0, seq, &events))?;
        let now = now_ns();
        for event in sent..until {
            confirmed.add(now.saturating_sub(plan.due(start, at_run, event)));
        }
        (sent, seq) = (until, seq + 1);
    }
    Ok(confirmed)
}

/// Words of the model, and near the end of each cycle a question, which nobody answers.
fn said(run: &str, event: u64, due_ns: u64) -> (&'static str, String) {
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
