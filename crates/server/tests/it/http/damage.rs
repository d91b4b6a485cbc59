//! Damaged bytes in the store: the server starts beside them, never sends them, says which events they are, and serves
//! everything else.

use std::path::Path;
use std::sync::Arc;

use recount_engine::{Engine, Scrubbed};
use recount_event::Code;
use recount_face_aep::SseFraming;
use recount_log::Store as _;
use recount_log_sqlite::{SqliteOptions, SqliteStore};
use recount_world::World;
use serde_json::{Value, json};

use crate::house::{House, STORY, check_problem, elements, text};
use crate::http::damaged_rows::found;
use crate::http::web_socket::{WebSocket, wish};
use crate::wire::Frame;

/// What only one event of one run holds.
const MARK: &str = "the words that will not stay as they are";

struct Told {
    whole: String,
    damaged: String,
    /// Of the damaged run.
    task: String,
    /// Every envelope there was.
    feed: Vec<String>,
}

/// Flips a bit of a text wherever it is in the database.
pub(crate) fn change_text(folder: &Path, text: &str) {
    let database = folder.join("recount.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text.as_bytes())).collect();
    assert!(!places.is_empty(), "{text:?} is in the database");
    places.into_iter().for_each(|place| bytes[place + 4] ^= 1);
    std::fs::write(&database, bytes).unwrap();
}

/// Two runs, one of them not at its end unless `ended`, of which the fourth event is damaged when this returns.
async fn damaged(folder: &Path, sealed: bool, ended: bool) -> Told {
    let house = House::sqlite(folder).await;
    let whole = house.told_run().await;
    let made = house.post("/v1/tasks", r#"{"kind":"external"}"#).await.data();
    let (task, damaged) = (text(&made["id"]), text(&made["latest_run_id"]));
    house.tell(&damaged, 0, &STORY[..2]).await;
    house.tell(&damaged, 1, &[("ext.mark.made", &format!(r#"{{"text":"{MARK}"}}"#))]).await;
    house.tell(&damaged, 2, &STORY[2..4]).await;
    if ended {
        house.tell(&damaged, 3, &STORY[4..]).await;
    }
    let feed = house.envelopes("/v1/events").await;
    assert_eq!(house.running.stop().await, 0);
    if sealed {
        recount_server::verify::seal(folder).await.unwrap();
    }
    change_text(folder, MARK);
    Told { whole, damaged, task, feed }
}

/// Reads a list to its end. Answers what was told, and the gaps.
async fn pages(house: &House, target: &str, cursor: &str) -> (Vec<String>, Vec<Value>) {
    let (mut told, mut gaps, mut after) = (Vec::new(), Vec::new(), -1);
    loop {
        let reply = house.get(&format!("{target}?{cursor}={after}&limit=1000")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        told.extend(elements(reply.text()));
        let page = reply.json();
        gaps.extend(page.get("gap").cloned());
        let next = page["next"].as_i64().unwrap();
        assert!(next >= after, "{page}");
        after = next;
        if page["has_more"] == false {
            return (told, gaps);
        }
    }
}

/// What one round of the scrub finds.
async fn scrubbed(folder: &Path) -> Scrubbed {
    let store = Arc::new(SqliteStore::open(SqliteOptions::new(folder)).unwrap());
    let engine = Engine::open(store.clone(), World::real(), Arc::new(SseFraming)).await.unwrap();
    let found = engine.admin().scrub(|| std::future::ready(())).await.unwrap();
    assert_eq!((&found, found.rounds), (&engine.admin().scrubbed(), 1));
    store.close().await.unwrap();
    found
}

async fn check(sealed: bool, first: u64, last: u64) {
    let folder = tempfile::tempdir().unwrap();
    let Told { whole, damaged, feed, .. } = damaged(folder.path(), sealed, false).await;
    let house = House::sqlite(folder.path()).await;
    assert_eq!(found(&house).await, f64::from(u8::from(!sealed)), "the start reads what is not sealed");

    let (events, gaps) = pages(&house, &format!("/v1/runs/{whole}/events"), "after_sequence").await;
    assert_eq!((events.len(), gaps), (STORY.len() + 1, vec![]));

    let (events, gaps) = pages(&house, &format!("/v1/runs/{damaged}/events"), "after_sequence").await;
    assert!(events.iter().all(|event| feed.contains(event)), "nothing altered: {events:?}");
    assert_eq!(events.len() as u64 + (last - first + 1), 6);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    let gap = &gaps[0];
    assert_eq!((gap["reason"].as_str(), gap["run_id"].as_str()), (Some("damaged"), Some(&*damaged)));
    assert_eq!((gap["first_sequence"].as_u64(), gap["last_sequence"].as_u64()), (Some(first), Some(last)));

    let (events, gaps) = pages(&house, "/v1/events", "after_position").await;
    assert!(events.iter().all(|event| feed.contains(event)), "nothing altered: {events:?}");
    assert_eq!(events.len() as u64 + (last - first + 1), feed.len() as u64);
    assert!(gaps.iter().all(|gap| gap["run_id"] == *damaged && gap["reason"] == "damaged"), "{gaps:?}");

    // The same in streams, in frames without an id.
    for target in [format!("/v1/runs/{damaged}/events"), "/v1/events/stream".to_owned()] {
        let frames = house.listen(&target).await.until_caught_up().await;
        let gaps = frames.iter().filter_map(|frame| match frame {
            Frame::Named { event, data } if event == "gap" => Some(data),
            _ => None,
        });
        let gaps: Vec<_> = gaps.collect();
        assert!(!gaps.is_empty() && gaps.iter().all(|gap| gap.contains(&damaged)), "{target}: {frames:?}");
        let told = crate::wire::events(&frames);
        assert!(told.iter().all(|(_, event)| feed.contains(event)), "{told:?}");
    }

    assert_eq!(found(&house).await, 1.0, "one place, by whatever reads it was found");

    // What would have to build on it is refused; everything else goes on.
    let refused = house.append(&damaged, 3, &STORY[4..5]).await;
    let problem = check_problem(&refused, Code::RunDamaged, "an event behind damaged ones");
    let told = format!("{damaged} is damaged from sequence {first} to {last}");
    assert!(problem["detail"].as_str().unwrap().contains(&told), "{problem}");
    house.told_run().await;
    assert_eq!(house.get("/readyz").await.status, 200);
    assert_eq!(house.running.stop().await, 0);

    let findings = scrubbed(folder.path()).await.findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains(&told), "{findings:?}");

    // It has a runtime of its own.
    let data = folder.path().to_owned();
    let looking = tokio::task::spawn_blocking(move || recount_server::verify::offline(&data, &[]));
    let survey = looking.await.unwrap().unwrap();
    let wrong: Vec<_> = survey.reports.iter().filter(|report| !report.problems.is_empty()).collect();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!(wrong[0].run_id.as_deref(), Some(&*damaged));
    assert!(wrong[0].problems[0].contains(&format!("events {first} to {last} are damaged")), "{wrong:?}");
}

#[tokio::test]
async fn a_run_damaged_where_it_is_sealed_is_told_as_a_gap() {
    check(true, 0, 5).await;
}

#[tokio::test]
async fn a_server_starts_beside_a_damaged_commit_and_flags_its_run() {
    check(false, 3, 3).await;
}

/// Appended to it is nothing any more, and it is pruned neither alone nor by policy; with its task it goes.
#[tokio::test]
async fn a_damaged_run_is_left_by_pruning_and_goes_with_its_task() {
    for (sealed, ended) in [(true, true), (true, false), (false, true), (false, false)] {
        let folder = tempfile::tempdir().unwrap();
        let Told { whole, damaged, task, .. } = damaged(folder.path(), sealed, ended).await;
        let house = House::sqlite(folder.path()).await;
        let one = house.post(&format!("/v1/runs/{damaged}/prune"), "{}").await;
        check_problem(&one, Code::RunDamaged, "pruning a damaged run");
        let swept = house.post("/v1/prune", r#"{"max_events":0}"#).await;
        let mut expected = json!({"runs": 1, "events": STORY.len(), "has_more": false});
        if ended {
            expected["damaged"] = json!(1);
        }
        assert_eq!(swept.data(), expected, "{sealed}");
        let gone = house.ask("DELETE", &format!("/v1/tasks/{task}"), &[], None).await;
        assert_eq!((gone.status, gone.data()["runs"].as_u64()), (200, Some(1)), "{}", gone.text());
        check_problem(&house.get(&format!("/v1/runs/{damaged}")).await, Code::RunErased, "a deleted run");
        let (events, gaps) = pages(&house, "/v1/events", "after_position").await;
        assert!(events.iter().all(|event| event.contains(&whole)), "{events:?}");
        assert!(gaps.iter().all(|gap| gap["reason"] != "damaged"), "{gaps:?}");
        assert_eq!(house.running.stop().await, 0);
        let data = folder.path().to_owned();
        let looking = tokio::task::spawn_blocking(move || recount_server::verify::offline(&data, &[]));
        let survey = looking.await.unwrap().unwrap();
        assert!(survey.reports.iter().all(|report| report.problems.is_empty()), "{:?}", survey.reports);
        assert_eq!(scrubbed(folder.path()).await.findings, [""; 0]);
    }
}

/// What a subscriber of one run receives over AAEP, and how its socket is closed.
async fn heard(house: &House, own: Value) -> (Vec<Value>, Option<u16>) {
    let (mut socket, _) = WebSocket::subscribed(house.address, None, own).await;
    let (texts, closed) = socket.until_closed().await;
    let events = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    (events, closed.map(|(code, _)| code))
}

#[tokio::test]
async fn a_subscriber_of_a_damaged_run_hears_that_its_record_is_damaged_and_nothing_after() {
    for (sealed, ended) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = tempfile::tempdir().unwrap();
        let Told { damaged, .. } = damaged(folder.path(), sealed, ended).await;
        let house = House::sqlite(folder.path()).await;
        for own in [json!({ "run_id": damaged }), json!({ "run_id": damaged, "from": "start" })] {
            let what = format!("sealed {sealed}, ended {ended}, {own}");
            let (events, closed) = heard(&house, own).await;
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
            // What is whole before it is sent; nothing is said to be under way.
            let started = types.iter().filter(|name| name.ends_with("session.started")).count();
            assert_eq!(started, usize::from(!sealed), "{what}: {types:?}");
            let said = |words: &str| events.iter().any(|event| event.to_string().contains(words));
            assert!(!said("Thinking") && !said("no longer stored"), "{what}: {events:?}");
            // A client that reconnects by itself stops there.
            let own = json!({ "run_id": damaged });
            let reply = house.post("/aaep/v1/subscriptions", &wish(json!({}), own).to_string()).await;
            let headers = [("last-event-id", last["event_id"].as_str().unwrap())];
            let reply = house.ask("GET", reply.header("location").unwrap(), &headers, None).await;
            assert_eq!(reply.status, 404, "{what}: {}", reply.text());
        }
        assert_eq!(house.running.stop().await, 0);
    }
}
