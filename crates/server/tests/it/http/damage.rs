//! Damaged events in the store: the server starts, never sends them, reports which events they are, and serves the
//! rest.

use std::path::Path;
use std::sync::Arc;

use recount_engine::{Engine, ScrubReport};
use recount_event::Code;
use recount_face_aep::SseFraming;
use recount_log::Store as _;
use recount_log_sqlite::{SqliteOptions, SqliteStore};
use recount_world::World;
use serde_json::{Value, json};

use crate::http::damaged_rows::found;
use crate::http::web_socket::{WebSocket, subscription_request};
use crate::test_context::{STORY, TestContext, check_problem, elements, text};
use crate::wire::Frame;

/// A text that only one event of one run contains.
const MARK: &str = "the words that will not stay as they are";

struct DamagedStore {
    whole: String,
    damaged: String,
    /// The task of the damaged run.
    task: String,
    /// Every envelope before the damage.
    feed: Vec<String>,
}

/// Flips a bit in every occurrence of a text in the database.
pub(crate) fn change_text(folder: &Path, text: &str) {
    let database = folder.join("recount.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text.as_bytes())).collect();
    assert!(!places.is_empty(), "{text:?} is in the database");
    places.into_iter().for_each(|place| bytes[place + 4] ^= 1);
    std::fs::write(&database, bytes).unwrap();
}

/// Creates two runs and damages the fourth event of one, which is unfinished unless `ended`.
async fn damaged(folder: &Path, sealed: bool, ended: bool) -> DamagedStore {
    let context = TestContext::sqlite(folder).await;
    let whole = context.run_with_story().await;
    let made = context.post("/v1/tasks", r#"{"kind":"external"}"#).await.data();
    let (task, damaged) = (text(&made["id"]), text(&made["latest_run_id"]));
    context.report(&damaged, 0, &STORY[..2]).await;
    context.report(&damaged, 1, &[("ext.mark.made", &format!(r#"{{"text":"{MARK}"}}"#))]).await;
    context.report(&damaged, 2, &STORY[2..4]).await;
    if ended {
        context.report(&damaged, 3, &STORY[4..]).await;
    }
    let feed = context.envelopes("/v1/events").await;
    assert_eq!(context.running.stop().await, 0);
    if sealed {
        recount_server::verify::seal(folder).await.unwrap();
    }
    change_text(folder, MARK);
    DamagedStore { whole, damaged, task, feed }
}

/// Reads a list to its end. Returns the events and the gaps.
async fn pages(context: &TestContext, target: &str, cursor: &str) -> (Vec<String>, Vec<Value>) {
    let (mut events, mut gaps, mut after) = (Vec::new(), Vec::new(), -1);
    loop {
        let reply = context.get(&format!("{target}?{cursor}={after}&limit=1000")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        events.extend(elements(reply.text()));
        let page = reply.json();
        gaps.extend(page.get("gap").cloned());
        let next = page["next"].as_i64().unwrap();
        assert!(next >= after, "{page}");
        after = next;
        if page["has_more"] == false {
            return (events, gaps);
        }
    }
}

/// The findings of one scrub round.
async fn scrubbed(folder: &Path) -> ScrubReport {
    let store = Arc::new(SqliteStore::open(SqliteOptions::new(folder)).unwrap());
    let engine = Engine::open(store.clone(), World::real(), Arc::new(SseFraming)).await.unwrap();
    let found = engine.admin().scrub(|| std::future::ready(())).await.unwrap();
    assert_eq!((&found, found.rounds), (&engine.admin().scrub_report(), 1));
    store.close().await.unwrap();
    found
}

async fn check(sealed: bool, first: u64, last: u64) {
    let folder = tempfile::tempdir().unwrap();
    let DamagedStore { whole, damaged, feed, .. } = damaged(folder.path(), sealed, false).await;
    let context = TestContext::sqlite(folder.path()).await;
    assert_eq!(found(&context).await, f64::from(u8::from(!sealed)), "the start reads what is not sealed");

    let (events, gaps) = pages(&context, &format!("/v1/runs/{whole}/events"), "after_sequence").await;
    assert_eq!((events.len(), gaps), (STORY.len() + 1, vec![]));

    let (events, gaps) = pages(&context, &format!("/v1/runs/{damaged}/events"), "after_sequence").await;
    assert!(events.iter().all(|event| feed.contains(event)), "nothing altered: {events:?}");
    assert_eq!(events.len() as u64 + (last - first + 1), 6);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    let gap = &gaps[0];
    assert_eq!((gap["reason"].as_str(), gap["run_id"].as_str()), (Some("damaged"), Some(&*damaged)));
    assert_eq!((gap["first_sequence"].as_u64(), gap["last_sequence"].as_u64()), (Some(first), Some(last)));

    let (events, gaps) = pages(&context, "/v1/events", "after_position").await;
    assert!(events.iter().all(|event| feed.contains(event)), "nothing altered: {events:?}");
    assert_eq!(events.len() as u64 + (last - first + 1), feed.len() as u64);
    assert!(gaps.iter().all(|gap| gap["run_id"] == *damaged && gap["reason"] == "damaged"), "{gaps:?}");

    // The same in streams, in frames without an id.
    for target in [format!("/v1/runs/{damaged}/events"), "/v1/events/stream".to_owned()] {
        let frames = context.listen(&target).await.until_caught_up().await;
        let gaps = frames.iter().filter_map(|frame| match frame {
            Frame::Named { event, data } if event == "gap" => Some(data),
            _ => None,
        });
        let gaps: Vec<_> = gaps.collect();
        assert!(!gaps.is_empty() && gaps.iter().all(|gap| gap.contains(&damaged)), "{target}: {frames:?}");
        let sent = crate::wire::events(&frames);
        assert!(sent.iter().all(|(_, event)| feed.contains(event)), "{sent:?}");
    }

    assert_eq!(found(&context).await, 1.0, "one place counts once, whichever read found it");

    // Further events of the run are refused; everything else continues.
    let refused = context.append(&damaged, 3, &STORY[4..5]).await;
    let problem = check_problem(&refused, Code::RunDamaged, "an event after damaged ones");
    let range = format!("{damaged} is damaged from sequence {first} to {last}");
    assert!(problem["detail"].as_str().unwrap().contains(&range), "{problem}");
    context.run_with_story().await;
    assert_eq!(context.get("/readyz").await.status, 200);
    assert_eq!(context.running.stop().await, 0);

    let findings = scrubbed(folder.path()).await.findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains(&range), "{findings:?}");

    // It has a runtime of its own.
    let data = folder.path().to_owned();
    let verified = tokio::task::spawn_blocking(move || recount_server::verify::offline(&data, &[]));
    let survey = verified.await.unwrap().unwrap();
    let wrong: Vec<_> = survey.reports.iter().filter(|report| !report.problems.is_empty()).collect();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!(wrong[0].run_id.as_deref(), Some(&*damaged));
    assert!(wrong[0].problems[0].contains(&format!("events {first} to {last} are damaged")), "{wrong:?}");
}

#[tokio::test]
async fn damage_in_sealed_records_is_reported_as_a_gap() {
    check(true, 0, 5).await;
}

#[tokio::test]
async fn a_server_starts_beside_a_damaged_commit_and_flags_its_run() {
    check(false, 3, 3).await;
}

/// A damaged run takes no events and is not pruned, alone or by policy; it is deleted with its task.
#[tokio::test]
async fn a_damaged_run_is_skipped_by_pruning_and_deleted_with_its_task() {
    for (sealed, ended) in [(true, true), (true, false), (false, true), (false, false)] {
        let folder = tempfile::tempdir().unwrap();
        let DamagedStore { whole, damaged, task, .. } = damaged(folder.path(), sealed, ended).await;
        let context = TestContext::sqlite(folder.path()).await;
        let one = context.post(&format!("/v1/runs/{damaged}/prune"), "{}").await;
        check_problem(&one, Code::RunDamaged, "pruning a damaged run");
        let swept = context.post("/v1/prune", r#"{"max_events":0}"#).await;
        let mut expected = json!({"runs": 1, "events": STORY.len(), "has_more": false});
        if ended {
            expected["damaged"] = json!(1);
        }
        assert_eq!(swept.data(), expected, "{sealed}");
        let deleted = context.request("DELETE", &format!("/v1/tasks/{task}"), &[], None).await;
        assert_eq!((deleted.status, deleted.data()["runs"].as_u64()), (200, Some(1)), "{}", deleted.text());
        check_problem(&context.get(&format!("/v1/runs/{damaged}")).await, Code::RunErased, "a deleted run");
        let (events, gaps) = pages(&context, "/v1/events", "after_position").await;
        assert!(events.iter().all(|event| event.contains(&whole)), "{events:?}");
        assert!(gaps.iter().all(|gap| gap["reason"] != "damaged"), "{gaps:?}");
        assert_eq!(context.running.stop().await, 0);
        let data = folder.path().to_owned();
        let verified = tokio::task::spawn_blocking(move || recount_server::verify::offline(&data, &[]));
        let survey = verified.await.unwrap().unwrap();
        assert!(survey.reports.iter().all(|report| report.problems.is_empty()), "{:?}", survey.reports);
        assert_eq!(scrubbed(folder.path()).await.findings, [""; 0]);
    }
}

/// What a subscriber of one run receives over AAEP, and how its socket is closed.
async fn received(context: &TestContext, own: Value) -> (Vec<Value>, Option<u16>) {
    let (mut socket, _) = WebSocket::subscribed(context.address, None, own).await;
    let (texts, closed) = socket.until_closed().await;
    let events = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    (events, closed.map(|(code, _)| code))
}

#[tokio::test]
async fn a_subscriber_of_a_damaged_run_hears_that_its_record_is_damaged_and_nothing_after() {
    for (sealed, ended) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = tempfile::tempdir().unwrap();
        let DamagedStore { damaged, .. } = damaged(folder.path(), sealed, ended).await;
        let context = TestContext::sqlite(folder.path()).await;
        for own in [json!({ "run_id": damaged }), json!({ "run_id": damaged, "from": "start" })] {
            let what = format!("sealed {sealed}, ended {ended}, {own}");
            let (events, closed) = received(&context, own).await;
            assert_eq!(closed, Some(4000), "{what}");
            let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
            let is_end = |name: &&&str| name.ends_with("session.errored");
            assert!(types.last().is_some_and(|last| is_end(&last)), "{what}: {types:?}");
            assert_eq!(types.iter().filter(is_end).count(), 1, "{what}: {types:?}");
            let last = events.last().unwrap();
            assert!(last["summary_normal"].as_str().unwrap().contains("is damaged"), "{what}: {last}");
            assert_eq!(
                (&last["error_category"], &last["error_code"]),
                (&json!("permanent"), &json!("RUN_DAMAGED"))
            );
            // The whole events before it are sent; no activity is announced.
            let started = types.iter().filter(|name| name.ends_with("session.started")).count();
            assert_eq!(started, usize::from(!sealed), "{what}: {types:?}");
            let is_announced = |words: &str| events.iter().any(|event| event.to_string().contains(words));
            assert!(!is_announced("Thinking") && !is_announced("no longer stored"), "{what}: {events:?}");
            // A client that reconnects stops there.
            let own = json!({ "run_id": damaged });
            let reply = context
                .post("/aaep/v1/subscriptions", &subscription_request(json!({}), own).to_string())
                .await;
            let headers = [("last-event-id", last["event_id"].as_str().unwrap())];
            let reply = context.request("GET", reply.header("location").unwrap(), &headers, None).await;
            assert_eq!(reply.status, 404, "{what}: {}", reply.text());
        }
        assert_eq!(context.running.stop().await, 0);
    }
}
