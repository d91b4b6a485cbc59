//! The catalogue is a fold: it can be deleted, rebuilt and checked. An unreadable event is damage.

use std::sync::Arc;

use recount_engine::{BatchId, Engine, ListQuery, NewRun, check_catalogue};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, ForeignId, PromptKind, RunId, door};
use recount_log::{Append, Guard, MemoryStore, RowPut, RowRange, Store, StreamAppend};
use recount_run::{CancelledBy, Command};
use recount_world::World;

use crate::scene::Bare;

const START_MS: u64 = 1_777_803_825_000;

async fn open(store: &Arc<MemoryStore>) -> Engine {
    Engine::open(store.clone(), World::seeded(7, START_MS), Arc::new(Bare)).await.unwrap()
}

async fn run_with_approval(engine: &Engine, approval: &str) -> RunId {
    let new =
        NewRun { queued: Queued::new(RunKind::External), task: None, session: None, resumed_from: None };
    let (run, _) = engine.write().create_run(new).await.unwrap();
    let approval_data =
        format!(r#"{{"approval_id":"{approval}","tool_call_id":"c","kind":"k","summary":"s"}}"#);
    let drafts = vec![
        door::draft("run.started", "{}").unwrap(),
        door::draft("approval.requested", &approval_data).unwrap(),
    ];
    let batch_id = BatchId { producer: ForeignId::parse("p").unwrap(), epoch: 0, seq: 0 };
    engine.write().ingest(run, batch_id, drafts).await.unwrap();
    run
}

async fn listed(engine: &Engine, status: Option<&str>, limit: usize) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let query = ListQuery { after, limit, status: status.map(str::to_owned) };
        let page = engine.read().list_prompts(PromptKind::Approval, &query).await.unwrap();
        ids.extend(page.items.into_iter().map(|row| row.id().to_string()));
        after = page.end.next;
        if !page.end.has_more {
            return ids;
        }
    }
}

async fn answer(engine: &Engine, run: RunId, approval: &str) {
    let approval_id = ForeignId::parse(approval).unwrap();
    let command = Command::ResolveApproval {
        approval_id,
        approve: true,
        by: "me".into(),
        comment: None,
        remember: None,
    };
    engine.write().submit(run, command).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn approvals_are_listed_in_the_order_of_their_requests() {
    let engine = open(&Arc::new(MemoryStore::new())).await;
    let mut runs = Vec::new();
    for name in ["m", "a", "z", "b"] {
        runs.push((name, run_with_approval(&engine, name).await));
    }
    for limit in 1..6 {
        assert_eq!(listed(&engine, None, limit).await, ["b", "z", "a", "m"]);
        assert_eq!(listed(&engine, Some("pending"), limit).await, ["b", "z", "a", "m"]);
    }
    answer(&engine, runs[1].1, "a").await;
    for limit in 1..6 {
        assert_eq!(listed(&engine, None, limit).await, ["b", "z", "a", "m"]);
        assert_eq!(listed(&engine, Some("pending"), limit).await, ["b", "z", "m"]);
        assert_eq!(listed(&engine, Some("approved"), limit).await, ["a"]);
    }
}

/// Deletes every row of the catalogue.
async fn delete_catalogue(store: &MemoryStore) {
    for space in [
        "runs",
        "task_runs",
        "session_runs",
        "approvals",
        "approvals_listed",
        "approvals_pending",
        "clarifications",
        "clarifications_listed",
        "clarifications_pending",
        "handoffs",
        "handoffs_listed",
        "handoffs_pending",
        "deadlines",
    ] {
        let space: Arc<str> = format!("catalogue.{space}").into();
        let all = RowRange::first(&space, "", 1000);
        let rows = store.rows(all).await.unwrap().into_iter();
        let rows =
            rows.map(|row| RowPut { space: space.clone(), key: row.key, guard: Guard::Any, value: None });
        store.append(Append { rows: rows.collect(), ..Append::default() }).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_catalogue_is_reported_and_rebuilt() {
    let store = Arc::new(MemoryStore::new());
    let engine = open(&store).await;
    let run = run_with_approval(&engine, "one").await;
    run_with_approval(&engine, "two").await;
    answer(&engine, run, "one").await;
    assert_eq!(check_catalogue(&*store).await.unwrap(), [""; 0]);
    drop(engine);
    delete_catalogue(&store).await;
    let problems = check_catalogue(&*store).await.unwrap();
    assert!(
        problems.len() >= 6 && problems.iter().all(|problem| problem.ends_with("is missing")),
        "{problems:?}"
    );
    // A store has one observer, so the engine with the missing catalogue gets a copy of the log.
    let copy = Arc::new(MemoryStore::new());
    for stream in store.streams(None, 10).await.unwrap() {
        let all = store.read(&stream, 0, recount_log::ReadBound { count: 100, bytes: usize::MAX });
        let records = all.await.unwrap().into_iter().map(|record| record.bytes).collect();
        let streams = vec![StreamAppend { stream, expected_tail: 0, records }];
        copy.append(Append { streams, ..Append::default() }).await.unwrap();
    }
    let engine = open(&copy).await;
    assert_eq!(check_catalogue(&*copy).await.unwrap(), [""; 0]);
    assert_eq!(listed(&engine, Some("pending"), 10).await, ["two"]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_catalogue_row_is_reported() {
    let store = Arc::new(MemoryStore::new());
    let engine = open(&store).await;
    let run = run_with_approval(&engine, "one").await;
    for (key, value) in [(format!("default/{run}"), "{}"), ("default/run_unknown".to_owned(), "{}")] {
        let value = Some(bytes::Bytes::from(value));
        let rows = vec![RowPut { space: "catalogue.runs".into(), key: key.into(), guard: Guard::Any, value }];
        store.append(Append { rows, ..Append::default() }).await.unwrap();
    }
    let problems = check_catalogue(&*store).await.unwrap();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("does not match the log"), "{problems:?}");
    assert!(problems[1].contains("does not belong to anything"), "{problems:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_event_is_damage_and_not_retryable() {
    let store = Arc::new(MemoryStore::new());
    let engine = open(&store).await;
    let run = run_with_approval(&engine, "one").await;
    let sleeps = recount_engine::limits::WRITER_IDLE * 2;
    tokio::time::sleep(sleeps).await;
    assert_eq!(engine.admin().awake(), 0, "the next command reads the run again");
    let records = vec![bytes::Bytes::from_static(b"{\"x\":1}")];
    let streams = vec![StreamAppend { stream: run.to_string().into(), expected_tail: 3, records }];
    store.append(Append { streams, ..Append::default() }).await.unwrap();
    let cancel = Command::Cancel { by: CancelledBy::Operator, reason: String::new() };
    let error = engine.write().submit(run, cancel).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreCorrupt);
    assert!(!error.code().row().retryable);
    assert!(error.to_string().contains("cannot be read at 3"), "{error}");
}
