//! The load: producers, approvals, readers of every kind. What was acknowledged is recorded in a [`Book`].

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;
use recount_client::reply;
use recount_client::request::{AppendEvents, CreateRun, NewEvent, Producer, ResolveApproval, Verdict};
use recount_client::{ClientError, Source, TailItem, Until};
use recount_server::export::ExportDigest;
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt as _;

use super::SoakCourse;

const PRODUCERS: u64 = 6;
const FOLLOWERS: u64 = 12;
const BULK_READERS: u64 = 2;
const STALLED: u64 = 4;
/// Maximum events of one batch; maximum batches of one run.
const BATCH_MAX: u64 = 64;
const RUN_BATCHES_MAX: u64 = 400;
/// Then another run requests approvals: the calls stay open, and a run may have 256 of them.
const APPROVALS_A_RUN: u64 = 200;
/// Maximum pause of a producer between batches.
const REST_SECONDS_MAX: f64 = 0.05;
/// Maximum time of a follower, and of a client that reads nothing.
const FOLLOW_SECONDS_MAX: u64 = 10;
const STALL_SECONDS_MAX: u64 = 45;
const APPROVAL_EVERY_SECONDS: f64 = 1.0;
/// The retry interval of a call while the server is down.
const AGAIN: Duration = Duration::from_millis(AGAIN_MS);
const AGAIN_MS: u64 = 50;

/// What the server has acknowledged, and the work done.
#[derive(Default)]
pub(super) struct Book {
    /// Events each run must have.
    pub(super) runs: BTreeMap<String, u64>,
    /// The newest acknowledged event of each open run: its sequence and its text.
    newest: BTreeMap<String, (u64, String)>,
    pub(super) acknowledged: u64,
    pub(super) batches: u64,
    pub(super) repeated: u64,
    pub(super) approvals: u64,
    pub(super) followed: u64,
    pub(super) bulk: u64,
    pub(super) stalled: u64,
    pub(super) kills: u64,
    pub(super) backups: u64,
    pub(super) ready_ms_max: f64,
}

impl Book {
    pub(super) fn started_again(&mut self, ready_ms: f64) {
        self.kills += 1;
        self.ready_ms_max = self.ready_ms_max.max(ready_ms);
    }
}

/// Runs all kinds of load until the soak ends.
pub(super) async fn all(course: &SoakCourse) -> Result<()> {
    tokio::try_join!(
        try_join_all((0..PRODUCERS).map(|number| produce(course, number))),
        try_join_all((0..FOLLOWERS).map(|_| follow_now_and_then(course))),
        try_join_all((0..BULK_READERS).map(|_| read_whole_runs(course))),
        try_join_all((0..STALLED).map(|_| stall(course))),
        ask_for_approvals(course),
    )?;
    Ok(())
}

fn event(event_type: &str, data: String) -> Result<NewEvent> {
    Ok(NewEvent { event_type: event_type.to_owned(), data: RawValue::from_string(data)? })
}

/// Retries a call while the server is down; a permanent refusal is a broken promise.
async fn insist<T>(course: &SoakCourse, call: impl AsyncFn() -> Result<T, ClientError>) -> Option<T> {
    loop {
        match call().await {
            Ok(answer) => return Some(answer),
            Err(why) if why.may_pass() => {
                course.book.borrow_mut().repeated += 1;
                tokio::time::sleep(AGAIN).await;
            }
            Err(why) => {
                course.broke(format!("a good request was refused: {why}"));
                return None;
            }
        }
    }
}

async fn create(course: &SoakCourse, title: &str) -> Option<String> {
    let request =
        CreateRun { kind: "external".to_owned(), title: Some(title.to_owned()), ..CreateRun::default() };
    let run = insist(course, async || course.client.create_run(&request).await).await?.id;
    course.book.borrow_mut().runs.insert(run.clone(), 1);
    Some(run)
}

/// Sends a batch until it is acknowledged, and records it.
async fn append(course: &SoakCourse, run: &str, seq: u64, events: Vec<NewEvent>, newest: String) -> bool {
    let count = events.len() as u64;
    let producer = Producer { id: "soak".to_owned(), epoch: 1, seq };
    let batch = AppendEvents { producer, events };
    let Some(receipt) = insist(course, async || course.client.append_run_events(run, &batch).await).await
    else {
        return false;
    };
    let mut book = course.book.borrow_mut();
    let events = book.runs.entry(run.to_owned()).or_default();
    if (receipt.first_sequence, receipt.last_sequence) != (*events, *events + count - 1) {
        course.broke(format!("a batch of {count} behind event {events} of {run} landed at {receipt:?}"));
    }
    *events += count;
    book.newest.insert(run.to_owned(), (receipt.last_sequence, newest));
    book.acknowledged += count;
    book.batches += 1;
    true
}

async fn produce(course: &SoakCourse, number: u64) -> Result<()> {
    while !course.stop.get() {
        let Some(run) = create(course, &format!("producer {number}")).await else { return Ok(()) };
        let mut seq = 0;
        append(course, &run, seq, vec![event("run.started", "{}".to_owned())?], "{}".to_owned()).await;
        let batches = 1 + course.below(RUN_BATCHES_MAX);
        while seq < batches && !course.stop.get() {
            seq += 1;
            let words = |place: u64| format!(r#"{{"text":"{number} {seq} {place} {}"}}"#, "x".repeat(200));
            let count = 1 + course.below(BATCH_MAX);
            let events: Result<Vec<_>> =
                (0..count).map(|place| event("user.message", words(place))).collect();
            if !append(course, &run, seq, events?, words(count - 1)).await {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs_f64(REST_SECONDS_MAX * course.below(100) as f64 / 100.0))
                .await;
        }
        let ending = r#"{"final_status":"completed"}"#.to_owned();
        append(course, &run, seq + 1, vec![event("run.finished", ending.clone())?], ending).await;
        course.book.borrow_mut().newest.remove(&run);
    }
    Ok(())
}

/// Checks after each start that the last acknowledged events are stored unchanged.
pub(super) async fn check_acknowledged(course: &SoakCourse) {
    let newest: Vec<_> = course.book.borrow().newest.clone().into_iter().collect();
    for (run, (sequence, words)) in newest {
        let page = insist(course, async || {
            course.client.read_run_events(&run, sequence.checked_sub(1), Some(1)).await
        });
        let found = page.await.and_then(|page| page.data.into_iter().next());
        if !found.is_some_and(|envelope| envelope.get().contains(&words)) {
            course.broke(format!("event {sequence} of {run} was acknowledged and is missing"));
        }
    }
}

/// Requests approvals and resolves them, repeatedly.
async fn ask_for_approvals(course: &SoakCourse) -> Result<()> {
    let mut run = String::new();
    for seq in (1..=APPROVALS_A_RUN).cycle() {
        course.rest(APPROVAL_EVERY_SECONDS).await;
        if course.stop.get() {
            break;
        }
        if seq == 1 {
            let Some(next) = create(course, "asks").await else { return Ok(()) };
            run = next;
            append(course, &run, 0, vec![event("run.started", "{}".to_owned())?], "{}".to_owned()).await;
        }
        let approval = format!("{run}.{seq}");
        let request = format!(
            r#"{{"approval_id":"{approval}","tool_call_id":"call_{seq}","kind":"shell","summary":"go on"}}"#
        );
        append(course, &run, seq, vec![event("approval.requested", request.clone())?], request).await;
        let answer =
            ResolveApproval { decision: Verdict::Approve, comment: None, remember: None, shown_digest: None };
        let resolved = loop {
            match course.client.answer_prompt(&approval, &answer).await {
                Ok(resolved) => break Some(resolved),
                // A kill lost the response; the resolution counts all the same.
                Err(ClientError::Problem(why)) if why.code == "approval_not_pending" => {
                    match course.client.get_prompt::<reply::Approval>(&approval).await {
                        Ok(resolved) => break Some(resolved),
                        Err(why) if why.may_pass() => tokio::time::sleep(AGAIN).await,
                        Err(why) => {
                            course.broke(format!("{approval} was answered and cannot be read: {why}"));
                            break None;
                        }
                    }
                }
                Err(why) if why.may_pass() => tokio::time::sleep(AGAIN).await,
                Err(why) => {
                    course.broke(format!("the answer to {approval} was refused: {why}"));
                    break None;
                }
            }
        };
        if let Some(resolved) = resolved
            && resolved.status != "approved"
        {
            course.broke(format!("{approval} was approved and is {}", resolved.status));
        }
        let mut book = course.book.borrow_mut();
        book.approvals += 1;
        // The resolution is an event too.
        *book.runs.entry(run.clone()).or_default() += 1;
    }
    Ok(())
}

fn some_run(course: &SoakCourse) -> Option<String> {
    let book = course.book.borrow();
    let count = book.runs.len() as u64;
    let at = usize::try_from(course.below(count)).unwrap_or(0);
    book.runs.keys().nth(at).cloned()
}

/// Follows a run or the feed for a while: checks that each event arrives once and in order, across kills.
async fn follow_now_and_then(course: &SoakCourse) -> Result<()> {
    while !course.stop.get() {
        let source = match (course.below(4), some_run(course)) {
            (0, _) | (_, None) => Source::Feed,
            (_, Some(run)) => Source::Run(run),
        };
        let of_run = matches!(source, Source::Run(_));
        let mut tail = course.client.tail(source.clone(), None, Until::Ended);
        let mut last: Option<u64> = None;
        let read = async {
            while let Some(message) = tail.next().await {
                match message {
                    Ok(TailItem::Event { cursor, .. }) => {
                        let expected = last.map_or(u64::from(!of_run), |last| last + 1);
                        if cursor != expected {
                            course
                                .broke(format!("a reader of {source:?} was given {cursor}, not {expected}"));
                            return;
                        }
                        last = Some(cursor);
                    }
                    Ok(_) => {}
                    Err(why) if why.may_pass() => return,
                    Err(why) => {
                        course.broke(format!("a reader of {source:?} was refused: {why}"));
                        return;
                    }
                }
            }
        };
        let stay = 1.0 + course.below(FOLLOW_SECONDS_MAX) as f64;
        tokio::select! {
            () = read => tokio::time::sleep(AGAIN).await,
            () = course.rest(stay) => {}
        }
        course.book.borrow_mut().followed += 1;
    }
    Ok(())
}

/// Reads complete runs by pages and sums their bytes.
async fn read_whole_runs(course: &SoakCourse) -> Result<()> {
    while !course.stop.get() {
        let Some(run) = some_run(course) else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let Some(digest) = insist(course, async || course.client.get_run_digest(&run).await).await else {
            break;
        };
        if let Some(difference) = read_whole_run(course, &run, digest.events, &digest.head).await {
            course.broke(difference);
        }
        course.book.borrow_mut().bulk += 1;
        tokio::time::sleep(AGAIN).await;
    }
    Ok(())
}

async fn read_whole_run(course: &SoakCourse, run: &str, events: u64, head: &str) -> Option<String> {
    let mut sum = ExportDigest::new(run);
    let mut read = 0;
    while read < events {
        let page = insist(course, async || {
            course.client.read_run_events(run, read.checked_sub(1), Some(1000)).await
        })
        .await?;
        if page.data.is_empty() {
            break;
        }
        for envelope in page.data {
            if read < events {
                read += 1;
                if let Err(why) = sum.event(envelope.get().as_bytes()) {
                    return Some(why);
                }
            }
        }
    }
    sum.finish(events, head).err()
}

/// Opens a stream and never reads from it.
async fn stall(course: &SoakCourse) -> Result<()> {
    while !course.stop.get() {
        if let Ok(mut socket) = tokio::net::TcpStream::connect(&course.address).await {
            let request = format!(
                "GET /v1/events/stream HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n\r\n",
                course.address
            );
            // The server may have stopped by now.
            drop(socket.write_all(request.as_bytes()).await);
            course.book.borrow_mut().stalled += 1;
            course.rest(course.below(STALL_SECONDS_MAX) as f64).await;
        } else {
            tokio::time::sleep(AGAIN).await;
        }
    }
    Ok(())
}
