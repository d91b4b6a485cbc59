//! The load: producers of external runs, own runs with commands and an approver, each on the server that responds. What was
//! acknowledged is in a ledger.

use std::cell::Cell;
use std::time::Duration;

use futures_util::future::{join, join_all};
use recount_client::request::{AppendEvents, CreateRun, NewEvent, Producer, ResolveApproval, Verdict};
use recount_client::{Client, ClientError, Listing, reply};
use serde_json::value::RawValue;

use super::tenant::Tenant;
use super::{LOOK, PATIENCE_SECONDS};
use crate::clock;

const PRODUCERS: u64 = 3;
const OWN_RUNS: u64 = 2;
/// A tenant with an unfinished own run does not move, so one that can has a single one at a time, with a pause after it.
const OWN_RUNS_MOVABLE: u64 = 1;
const OWN_RUN_PAUSE: Duration = Duration::from_millis(OWN_RUN_PAUSE_MS);
const OWN_RUN_PAUSE_MS: u64 = 1_500;
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

impl Tenant {
    /// Whether a request was refused because the disk is full, and it is. Counts them.
    fn is_of_full_disk(&self, why: &ClientError) -> bool {
        let is_full = self.course.is_full.get() && why.code() == Some("store_full");
        self.ledger.borrow_mut().full += u64::from(is_full);
        is_full
    }
}

/// Runs all load until the sequence stops, and waits until it has ended.
pub(super) async fn all(tenant: &Tenant) {
    let producers = join_all((0..PRODUCERS).map(|number| produce(tenant, number)));
    let own = async {
        let is_over = Cell::new(false);
        let runs = async {
            let own_runs = if tenant.can_move() { OWN_RUNS_MOVABLE } else { OWN_RUNS };
            join_all((0..own_runs).map(|number| run_agents(tenant, number))).await;
            is_over.set(true);
        };
        join(runs, approve(tenant, &is_over)).await;
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
    tenant: &Tenant,
    call: impl AsyncFn(&Client) -> Result<T, ClientError>,
) -> Option<T> {
    let start = clock::now_ns();
    loop {
        let server = tenant.preferred.get();
        match tokio::time::timeout(RESPONSE_WAIT, call(&tenant.clients[server])).await {
            Ok(Ok(reply)) => {
                tenant.prefer(server);
                return Some(reply);
            }
            Ok(Err(why)) if !why.may_pass() && why.code() != Some("store_full") => {
                if why.code() == Some("store_corrupt") && tenant.course.expects_loss.get() {
                    tenant.ledger.borrow_mut().corrupt = Some(why.to_string());
                } else if !tenant.course.expects_loss.get() {
                    tenant.broke(format!("server {server} refused a good request: {why}"));
                }
                return None;
            }
            Ok(Err(why)) => {
                if why.code() == Some("store_full") && !tenant.is_of_full_disk(&why) {
                    tenant
                        .broke(format!("server {server} refused a request, and the disk is not full: {why}"));
                }
                tenant.ledger.borrow_mut().repeated += 1;
            }
            Err(_) => tenant.ledger.borrow_mut().repeated += 1,
        }
        if tenant.course.is_broken() || tenant.ledger.borrow().corrupt.is_some() {
            return None;
        }
        if clock::seconds_since(start) > PATIENCE_SECONDS {
            tenant.broke(format!("no server performed a request within {PATIENCE_SECONDS} s"));
            return None;
        }
        if tenant.preferred.get() == server {
            tenant.preferred.set(1 - server);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Creates a run once, however many times the request is sent.
pub(super) async fn create(tenant: &Tenant, kind: &str, title: String) -> Option<String> {
    let request = CreateRun {
        kind: kind.to_owned(),
        request_text: (kind == "agent_loop").then(|| "go".to_owned()),
        title: Some(title.clone()),
        ..CreateRun::default()
    };
    let created = insist(tenant, async |client| client.once(&title).create_run(&request).await).await?;
    tenant.ledger.borrow_mut().titles.insert(title);
    Some(created.id)
}

/// Appends a batch once, however many times it is sent.
async fn append(tenant: &Tenant, run: &str, first: u64, seq: u64, events: Vec<NewEvent>) -> Option<u64> {
    let count = events.len() as u64;
    let producer = Producer { id: "soak".to_owned(), epoch: 1, seq };
    let batch = AppendEvents { producer, events };
    let sent = Cell::new(0);
    let receipt = insist(tenant, async |client| {
        sent.set(clock::now_ns());
        client.append_run_events(run, &batch).await
    })
    .await?;
    let mut ledger = tenant.ledger.borrow_mut();
    ledger.acknowledge(sent.get());
    ledger.acknowledged += count;
    drop(ledger);
    if receipt.last_sequence + 1 != receipt.first_sequence + count || receipt.first_sequence < first {
        tenant.broke(format!("a batch of {count} events after {first} of {run} is at {receipt:?}"));
    }
    Some(receipt.last_sequence + 1)
}

/// Appends to one external run, and requests an approval in it now and then.
async fn produce(tenant: &Tenant, number: u64) -> Option<()> {
    let run = create(tenant, "external", format!("producer-{number}")).await?;
    tenant.ledger.borrow_mut().runs.insert(run.clone(), Vec::new());
    let started = vec![event("run.started", &serde_json::json!({}))];
    let mut next = append(tenant, &run, 1, 0, started).await?;
    for seq in 1.. {
        if tenant.course.stop.get() {
            break;
        }
        if seq % BATCHES_PER_APPROVAL == 0 {
            let (approval, call) = (format!("{run}.{seq}"), format!("call_{seq}"));
            let request = serde_json::json!({
                "approval_id": approval, "tool_call_id": call, "kind": "shell", "summary": "go on"
            });
            next = append(tenant, &run, next, seq, vec![event("approval.requested", &request)]).await?;
            tenant.ledger.borrow_mut().approvals += 1;
        } else {
            let texts: Vec<String> =
                (0..1 + seq % BATCH_MAX).map(|index| format!("{number} {seq} {index}")).collect();
            let messages =
                texts.iter().map(|text| event("user.message", &serde_json::json!({ "text": text })));
            next = append(tenant, &run, next, seq, messages.collect()).await?;
            tenant.ledger.borrow_mut().runs.entry(run.clone()).or_default().extend(texts);
        }
        tokio::time::sleep(PRODUCER_PAUSE).await;
    }
    Some(())
}

/// Starts own runs one after the other, and waits for their ends.
async fn run_agents(tenant: &Tenant, number: u64) -> Option<()> {
    for turn in 0.. {
        if tenant.course.stop.get() {
            break;
        }
        let run = create(tenant, "agent_loop", format!("agent-{number}.{turn}")).await?;
        tenant.ledger.borrow_mut().own_runs.push(run.clone());
        let start = clock::now_ns();
        loop {
            let found = insist(tenant, async |client| client.get_run(&run).await).await?;
            if ["finished", "failed", "cancelled"].contains(&found.status.as_str()) {
                let mut ledger = tenant.ledger.borrow_mut();
                ledger.finished += 1;
                if found.status != "finished" {
                    *ledger.not_finished.entry(found.ending.unwrap_or(found.status)).or_default() += 1;
                }
                break;
            }
            if tenant.course.stop.get() && clock::seconds_since(start) > 2.0 * PATIENCE_SECONDS {
                tenant.broke(format!("{run} does not end; it is {}", found.status));
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
        if tenant.can_move() {
            tokio::time::sleep(OWN_RUN_PAUSE).await;
        }
    }
    Some(())
}

/// Approves all that is pending, until the own runs have ended and nothing is pending.
async fn approve(tenant: &Tenant, is_over: &Cell<bool>) -> Option<()> {
    let listing = Listing { status: Some("pending".to_owned()), ..Listing::default() };
    loop {
        let was_over = is_over.get();
        let list = async |client: &Client| client.list_prompts::<reply::Approval>(&listing).await;
        let pending = insist(tenant, list).await?.data;
        if pending.is_empty() && was_over && tenant.course.stop.get() {
            return Some(());
        }
        for approval in pending {
            let yes = ResolveApproval {
                decision: Verdict::Approve,
                comment: None,
                remember: None,
                shown_digest: None,
            };
            let client = &tenant.clients[tenant.preferred.get()];
            let resolving = tokio::time::timeout(RESPONSE_WAIT, client.answer_prompt(&approval.id, &yes));
            match resolving.await {
                Ok(Ok(_)) => {
                    // A resolution may be among the events that were lost on purpose.
                    let is_first = tenant.ledger.borrow_mut().approved.insert(approval.id.clone());
                    if !is_first && !tenant.course.expects_loss.get() {
                        tenant.broke(format!("{} was resolved twice", approval.id));
                    }
                }
                // An earlier request was performed, and its response was lost.
                Ok(Err(why)) if why.may_pass() || why.code() == Some("approval_not_pending") => {}
                Ok(Err(why)) if tenant.is_of_full_disk(&why) => {}
                Ok(Err(why)) => tenant.broke(format!("the resolution of {} was refused: {why}", approval.id)),
                Err(_) => {}
            }
        }
        tokio::time::sleep(APPROVER_PAUSE).await;
    }
}
