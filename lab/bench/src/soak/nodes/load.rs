//! The load: producers of external runs, own runs with commands and an approver, each on the server that responds. What was
//! acknowledged is in a [`Ledger`].

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use futures_util::future::{join, join_all};
use recount_client::request::{AppendEvents, CreateRun, NewEvent, Producer, ResolveApproval, Verdict};
use recount_client::{Client, ClientError, Listing, reply};
use serde_json::value::RawValue;

use super::{LOOK, PATIENCE_SECONDS, Sequence};
use crate::clock;

const PRODUCERS: u64 = 3;
const OWN_RUNS: u64 = 2;
/// Maximum events of one batch.
const BATCH_MAX: u64 = 6;
/// Pause of a producer between batches.
const PRODUCER_PAUSE: Duration = Duration::from_millis(PRODUCER_PAUSE_MS);
const PRODUCER_PAUSE_MS: u64 = 40;
/// Every so many batches, an approval is requested.
const BATCHES_PER_APPROVAL: u64 = 20;
/// Pause of the approver between two looks.
const APPROVER_PAUSE: Duration = Duration::from_millis(APPROVER_PAUSE_MS);
const APPROVER_PAUSE_MS: u64 = 200;
/// How long a client waits for a response before it tries the other server.
const RESPONSE_WAIT: Duration = Duration::from_secs(RESPONSE_WAIT_SECONDS);
const RESPONSE_WAIT_SECONDS: u64 = 3;

/// What was acknowledged, and counts.
#[derive(Default)]
pub(super) struct Ledger {
    /// Texts of each external run, in order.
    pub(super) runs: BTreeMap<String, Vec<String>>,
    pub(super) own_runs: Vec<String>,
    /// Keys of requests that create runs; each creates one, with the key as title.
    pub(super) titles: BTreeSet<String>,
    /// Approvals whose resolution was acknowledged.
    pub(super) approved: BTreeSet<String>,
    pub(super) acknowledged: u64,
    /// When the most recently acknowledged append was sent.
    pub(super) last_sent_ns: u64,
    last_acknowledged_ns: u64,
    /// The longest time without an acknowledgement since the measure started.
    pub(super) gap_max_ns: u64,
    repeated: u64,
    approvals: u64,
    finished: u64,
    pub(super) resumed: u64,
    pub(super) interrupted: u64,
    /// Own runs that did not finish, by the code of their ending.
    not_finished: BTreeMap<String, u64>,
    pub(super) events: u64,
    pub(super) ended_by_themselves: u64,
    /// Requests that were refused with `store_full`.
    pub(super) full: u64,
    /// What the store responded after a loss.
    pub(super) corrupt: Option<String>,
}

impl Ledger {
    /// Measures the longest time without an acknowledgement from now on.
    pub(super) fn measure_from(&mut self, now: u64) {
        (self.last_acknowledged_ns, self.gap_max_ns) = (now, 0);
    }

    fn acknowledge(&mut self, sent_ns: u64) {
        let now = clock::now_ns();
        self.gap_max_ns = self.gap_max_ns.max(now.saturating_sub(self.last_acknowledged_ns));
        self.last_acknowledged_ns = now;
        self.last_sent_ns = self.last_sent_ns.max(sent_ns);
    }

    pub(super) fn add(&mut self, other: &Ledger) {
        self.acknowledged += other.acknowledged;
        self.repeated += other.repeated;
        self.approvals += other.approvals;
        self.finished += other.finished;
        self.resumed += other.resumed;
        self.interrupted += other.interrupted;
        for (ending, count) in &other.not_finished {
            *self.not_finished.entry(ending.clone()).or_default() += count;
        }
        self.events += other.events;
        self.ended_by_themselves += other.ended_by_themselves;
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} events acknowledged, {} stored, {} requests repeated, {} approvals, {} own runs ended (failed: {:?}), {} calls \
             interrupted, {} streams resumed, {} servers ended by themselves",
            self.acknowledged,
            self.events,
            self.repeated,
            self.approvals,
            self.finished,
            self.not_finished,
            self.interrupted,
            self.resumed,
            self.ended_by_themselves
        )
    }
}

impl Sequence {
    /// Whether a request was refused because the disk is full, and it is. Counts them.
    fn is_of_full_disk(&self, why: &ClientError) -> bool {
        let is_full = self.is_full.get() && why.code() == Some("store_full");
        self.ledger.borrow_mut().full += u64::from(is_full);
        is_full
    }
}

/// Runs all load until the sequence stops, and waits until it has ended.
pub(super) async fn all(sequence: &Sequence) {
    let producers = join_all((0..PRODUCERS).map(|number| produce(sequence, number)));
    let own = async {
        let is_over = Cell::new(false);
        let runs = async {
            join_all((0..OWN_RUNS).map(|number| run_agents(sequence, number))).await;
            is_over.set(true);
        };
        join(runs, approve(sequence, &is_over)).await;
    };
    join(producers, own).await;
}

fn event(event_type: &str, data: &serde_json::Value) -> NewEvent {
    let data = RawValue::from_string(data.to_string()).expect("a value is JSON");
    NewEvent { event_type: event_type.to_owned(), data }
}

/// Performs a request on whichever server responds, until one does. `None`: it was refused for good, which breaks a guarantee
/// unless events were lost on purpose, or the sequence is broken.
pub(super) async fn insist<T>(
    sequence: &Sequence,
    call: impl AsyncFn(&Client) -> Result<T, ClientError>,
) -> Option<T> {
    let start = clock::now_ns();
    loop {
        let server = sequence.preferred.get();
        match tokio::time::timeout(RESPONSE_WAIT, call(&sequence.clients[server])).await {
            Ok(Ok(reply)) => return Some(reply),
            Ok(Err(why)) if !why.may_pass() && why.code() != Some("store_full") => {
                if why.code() == Some("store_corrupt") && sequence.expects_loss.get() {
                    sequence.ledger.borrow_mut().corrupt = Some(why.to_string());
                } else if !sequence.expects_loss.get() {
                    sequence.broke(format!("server {server} refused a good request: {why}"));
                }
                return None;
            }
            Ok(Err(why)) => {
                if why.code() == Some("store_full") && !sequence.is_of_full_disk(&why) {
                    sequence
                        .broke(format!("server {server} refused a request, and the disk is not full: {why}"));
                }
                sequence.ledger.borrow_mut().repeated += 1;
            }
            Err(_) => sequence.ledger.borrow_mut().repeated += 1,
        }
        if sequence.is_broken() || sequence.ledger.borrow().corrupt.is_some() {
            return None;
        }
        if clock::seconds_since(start) > PATIENCE_SECONDS {
            sequence.broke(format!("no server performed a request within {PATIENCE_SECONDS} s"));
            return None;
        }
        if sequence.preferred.get() == server {
            sequence.preferred.set(1 - server);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Creates a run once, however many times the request is sent.
pub(super) async fn create(sequence: &Sequence, kind: &str, title: String) -> Option<String> {
    let request = CreateRun {
        kind: kind.to_owned(),
        request_text: (kind == "agent_loop").then(|| "go".to_owned()),
        title: Some(title.clone()),
        ..CreateRun::default()
    };
    let created = insist(sequence, async |client| client.once(&title).create_run(&request).await).await?;
    sequence.ledger.borrow_mut().titles.insert(title);
    Some(created.id)
}

/// Appends a batch once, however many times it is sent.
async fn append(sequence: &Sequence, run: &str, first: u64, seq: u64, events: Vec<NewEvent>) -> Option<u64> {
    let count = events.len() as u64;
    let producer = Producer { id: "soak".to_owned(), epoch: 1, seq };
    let batch = AppendEvents { producer, events };
    let sent = Cell::new(0);
    let receipt = insist(sequence, async |client| {
        sent.set(clock::now_ns());
        client.append_run_events(run, &batch).await
    })
    .await?;
    let mut ledger = sequence.ledger.borrow_mut();
    ledger.acknowledge(sent.get());
    ledger.acknowledged += count;
    drop(ledger);
    if receipt.last_sequence + 1 != receipt.first_sequence + count || receipt.first_sequence < first {
        sequence.broke(format!("a batch of {count} events after {first} of {run} is at {receipt:?}"));
    }
    Some(receipt.last_sequence + 1)
}

/// Appends to one external run, and requests an approval in it now and then.
async fn produce(sequence: &Sequence, number: u64) -> Option<()> {
    let run = create(sequence, "external", format!("producer-{number}")).await?;
    sequence.ledger.borrow_mut().runs.insert(run.clone(), Vec::new());
    let started = vec![event("run.started", &serde_json::json!({}))];
    let mut next = append(sequence, &run, 1, 0, started).await?;
    for seq in 1.. {
        if sequence.stop.get() {
            break;
        }
        if seq % BATCHES_PER_APPROVAL == 0 {
            let (approval, call) = (format!("{run}.{seq}"), format!("call_{seq}"));
            let request = serde_json::json!({
                "approval_id": approval, "tool_call_id": call, "kind": "shell", "summary": "go on"
            });
            next = append(sequence, &run, next, seq, vec![event("approval.requested", &request)]).await?;
            sequence.ledger.borrow_mut().approvals += 1;
        } else {
            let texts: Vec<String> =
                (0..1 + seq % BATCH_MAX).map(|index| format!("{number} {seq} {index}")).collect();
            let messages =
                texts.iter().map(|text| event("user.message", &serde_json::json!({ "text": text })));
            next = append(sequence, &run, next, seq, messages.collect()).await?;
            sequence.ledger.borrow_mut().runs.entry(run.clone()).or_default().extend(texts);
        }
        tokio::time::sleep(PRODUCER_PAUSE).await;
    }
    Some(())
}

/// Starts own runs one after the other, and waits for their ends.
async fn run_agents(sequence: &Sequence, number: u64) -> Option<()> {
    for turn in 0.. {
        if sequence.stop.get() {
            break;
        }
        let run = create(sequence, "agent_loop", format!("agent-{number}.{turn}")).await?;
        sequence.ledger.borrow_mut().own_runs.push(run.clone());
        let start = clock::now_ns();
        loop {
            let found = insist(sequence, async |client| client.get_run(&run).await).await?;
            if ["finished", "failed", "cancelled"].contains(&found.status.as_str()) {
                let mut ledger = sequence.ledger.borrow_mut();
                ledger.finished += 1;
                if found.status != "finished" {
                    *ledger.not_finished.entry(found.ending.unwrap_or(found.status)).or_default() += 1;
                }
                break;
            }
            if sequence.stop.get() && clock::seconds_since(start) > 2.0 * PATIENCE_SECONDS {
                sequence.broke(format!("{run} does not end; it is {}", found.status));
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    Some(())
}

/// Approves all that is pending, until the own runs have ended and nothing is pending.
async fn approve(sequence: &Sequence, is_over: &Cell<bool>) -> Option<()> {
    let listing = Listing { status: Some("pending".to_owned()), ..Listing::default() };
    loop {
        let was_over = is_over.get();
        let list = async |client: &Client| client.list_prompts::<reply::Approval>(&listing).await;
        let pending = insist(sequence, list).await?.data;
        if pending.is_empty() && was_over && sequence.stop.get() {
            return Some(());
        }
        for approval in pending {
            let yes = ResolveApproval {
                decision: Verdict::Approve,
                comment: None,
                remember: None,
                shown_digest: None,
            };
            let client = &sequence.clients[sequence.preferred.get()];
            let resolving = tokio::time::timeout(RESPONSE_WAIT, client.answer_prompt(&approval.id, &yes));
            match resolving.await {
                Ok(Ok(_)) => {
                    // A resolution may be among the events that were lost on purpose.
                    let is_first = sequence.ledger.borrow_mut().approved.insert(approval.id.clone());
                    if !is_first && !sequence.expects_loss.get() {
                        sequence.broke(format!("{} was resolved twice", approval.id));
                    }
                }
                // An earlier request was performed, and its response was lost.
                Ok(Err(why)) if why.may_pass() || why.code() == Some("approval_not_pending") => {}
                Ok(Err(why)) if sequence.is_of_full_disk(&why) => {}
                Ok(Err(why)) => {
                    sequence.broke(format!("the resolution of {} was refused: {why}", approval.id))
                }
                Err(_) => {}
            }
        }
        tokio::time::sleep(APPROVER_PAUSE).await;
    }
}
