//! Pruned and erased runs over the wire: every cursor, in bulk, as a stream and in the feed.

use recount_event::Code;
use serde_json::json;

use crate::house::{House, STORY, check_problem, check_reply, elements, text};
use crate::wire::{End, Frame, Listener, events};

/// What stays of a told run: its ending and the marker.
const LEFT: [u64; 2] = [14, 15];

async fn pruned(house: &House) -> String {
    let run = house.told_run().await;
    let reply = house.ask("POST", &format!("/v1/runs/{run}/prune"), &[], None).await;
    check_reply(&reply);
    assert_eq!(reply.json()["object"], "pruned");
    assert_eq!(reply.data(), json!({"run_id": run, "events": 14, "first_sequence": 14}));
    run
}

fn gaps(frames: &[Frame]) -> Vec<String> {
    let gap = |frame: &Frame| match frame {
        Frame::Named { event, data } if event == "gap" => Some(data.clone()),
        _ => None,
    };
    frames.iter().filter_map(gap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_cursor_of_a_pruned_run_is_answered_with_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    for house in [House::memory().await, House::sqlite(folder.path()).await] {
        let run = pruned(&house).await;
        for after in -1..=16_i64 {
            let next = u64::try_from(after + 1).unwrap();
            let gap = (next < 14).then(|| json!({"first_pruned_sequence": next, "last_pruned_sequence": 13}));
            let left: Vec<u64> = LEFT.into_iter().filter(|sequence| *sequence >= next).collect();
            let target = format!("/v1/runs/{run}/events");
            let header = after.to_string();
            for (target, headers) in [
                (format!("{target}?after_sequence={after}"), vec![]),
                (target.clone(), vec![("last-event-id", header.as_str())]),
            ] {
                let bulk = house.ask("GET", &target, &headers, None).await;
                if after > 15 {
                    check_problem(&bulk, Code::CursorAhead, &target);
                    continue;
                }
                assert_eq!(bulk.status, 200, "{}", bulk.text());
                let page = bulk.json();
                assert_eq!(page.get("gap"), gap.as_ref(), "{target}");
                assert_eq!(page["next"], left.last().map_or(after, |last| i64::try_from(*last).unwrap()));
                assert_eq!(page["has_more"], false);
                // Nothing follows for one who comes again.
                if after == 15 && !headers.is_empty() {
                    continue;
                }
                let mut stream = Listener::open(house.address, &target, &headers).await;
                let frames = stream.until_caught_up().await;
                let told: Vec<String> = gap.iter().map(ToString::to_string).collect();
                assert_eq!(gaps(&frames), told, "{target}");
                let heard = events(&frames);
                assert_eq!(heard.iter().map(|(cursor, _)| *cursor).collect::<Vec<_>>(), left, "{target}");
                let data: Vec<String> = heard.into_iter().map(|(_, data)| data).collect();
                assert_eq!(elements(bulk.text()), data, "{target}");
                let place = |wanted: fn(&Frame) -> bool| frames.iter().position(wanted);
                let event = place(|frame| matches!(frame, Frame::Event { .. })).unwrap_or(frames.len());
                let told = place(|frame| matches!(frame, Frame::Named { event, .. } if event == "gap"));
                assert!(told.is_none_or(|told| told < event), "it comes before what is left");
            }
        }
        // Page by page, the cursor only moves on.
        let page = house.get(&format!("/v1/runs/{run}/events?limit=1")).await.json();
        assert_eq!((page["next"].clone(), page["has_more"].clone()), (json!(14), json!(true)));
        let page = house.get(&format!("/v1/runs/{run}/events?limit=1&after_sequence=14")).await.json();
        assert_eq!((page.get("gap"), page["next"].clone()), (None, json!(15)));
        let shown = house.get(&format!("/v1/runs/{run}")).await;
        assert_eq!(shown.data()["first_sequence"], 14);
        assert_eq!(shown.data()["turns"], 2);
        let digest = house.get(&format!("/v1/runs/{run}/digest")).await;
        assert_eq!(
            (digest.data()["events"].clone(), digest.data()["first_sequence"].clone()),
            (json!(16), json!(14))
        );
        assert!(digest.data()["start"].is_string());
        house.running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_feed_tells_the_marker_and_refuses_only_what_lies_below_all_that_is_left() {
    let house = House::memory().await;
    let run = pruned(&house).await;
    let feed = house.envelopes("/v1/events").await;
    assert_eq!(feed.len(), 2);
    assert!(feed[1].contains("\"gap.events_pruned\"") && feed[1].contains(&run));
    for (after, code) in [("-1", None), ("0", None), ("1", Some(410)), ("13", Some(410)), ("14", None)] {
        let target = format!("/v1/events?after_position={after}");
        let accept = [("accept", "text/event-stream")];
        let bulk = house.get(&target).await;
        if code.is_some() {
            check_problem(&bulk, Code::CursorPruned, after);
            check_problem(&house.ask("GET", &target, &accept, None).await, Code::CursorPruned, after);
            continue;
        }
        assert_eq!(bulk.json()["data"].as_array().map(Vec::len), Some(2), "{after}");
        assert_eq!(bulk.json().get("gap"), None);
        let heard = events(&house.listen(&target).await.until_caught_up().await);
        assert_eq!(heard.iter().map(|(position, _)| *position).collect::<Vec<_>>(), [15, 16], "{after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_open_crosses_the_gap() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::sqlite(folder.path()).await;
    let run = house.new_run().await;
    house.tell(&run, 0, &[("run.started", "{}")]).await;
    let note = format!(r#"{{"text":"{}"}}"#, "x".repeat(20_000));
    for seq in 1..=40 {
        house.tell(&run, seq, &vec![("user.message", note.as_str()); 20]).await;
    }
    house.tell(&run, 41, &[("run.finished", r#"{"final_status":"done"}"#)]).await;
    // Sixteen megabytes: more than the sockets hold, so the reader is still on its way.
    let mut reader = house.listen(&format!("/v1/runs/{run}/events")).await;
    let first = reader.event().await.expect("the first event");
    assert_eq!(first.0, 0);
    let reply = house.post(&format!("/v1/runs/{run}/prune"), "{}").await;
    assert_eq!(reply.data()["first_sequence"], 802);
    let frames = reader.until_caught_up().await;
    let told = gaps(&frames);
    let heard = events(&frames);
    let cursors: Vec<u64> = [0].into_iter().chain(heard.iter().map(|(cursor, _)| *cursor)).collect();
    assert_eq!(told.len(), 1, "one gap, told once");
    let before = cursors.len() as u64 - 2;
    let gap = json!({"first_pruned_sequence": before, "last_pruned_sequence": 801});
    assert_eq!(told[0], gap.to_string());
    assert_eq!(cursors, (0..before).chain([802, 803]).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pins_and_policies_decide_what_goes() {
    let house = House::memory().await;
    let (kept, gone) = (house.told_run().await, house.told_run().await);
    let pin = format!("/v1/runs/{kept}/pin");
    for _ in 0..2 {
        let reply = house.ask("PUT", &pin, &[], None).await;
        assert_eq!((reply.status, reply.data()["pinned"].clone()), (200, json!(true)));
    }
    let listed = house.get("/v1/runs").await.json();
    assert_eq!((listed["data"][1]["pinned"].clone(), listed["data"][0].get("pinned")), (json!(true), None));
    let reply = house.post(&format!("/v1/runs/{kept}/prune"), r#"{"before":3}"#).await;
    check_problem(&reply, Code::RunPinned, "a pinned run");
    check_problem(&house.post("/v1/prune", "{}").await, Code::BodyMalformed, "no bound");
    let reply = house.post("/v1/prune", r#"{"max_events":0}"#).await;
    assert_eq!(reply.data(), json!({"runs": 1, "events": 14, "has_more": false}));
    let first =
        async |run: &str| house.get(&format!("/v1/runs/{run}")).await.data().get("first_sequence").cloned();
    assert_eq!((first(&kept).await, first(&gone).await), (None, Some(json!(14))));
    assert_eq!(house.ask("DELETE", &pin, &[], None).await.data().get("pinned"), None);
    let reply = house.post(&format!("/v1/runs/{kept}/prune"), r#"{"before":3}"#).await;
    assert_eq!(reply.data()["first_sequence"], 3);

    let active = house.new_run().await;
    check_problem(&house.post(&format!("/v1/runs/{active}/prune"), "{}").await, Code::RunActive, "active");
    let nobody = "/v1/runs/run_01JXMZ00000000000000000000";
    for method in ["PUT", "DELETE"] {
        check_problem(
            &house.ask(method, &format!("{nobody}/pin"), &[], None).await,
            Code::RunNotFound,
            method,
        );
    }
    check_problem(&house.post(&format!("{nobody}/prune"), "").await, Code::RunNotFound, "nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_path_of_an_erased_run_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::sqlite(folder.path()).await;
    let task = text(&house.post("/v1/tasks", r#"{"title":"secret plan"}"#).await.data()["id"]);
    let body = format!(r#"{{"kind":"external","task_id":"{task}","title":"secret plan"}}"#);
    let run = text(&house.post("/v1/runs", &body).await.data()["id"]);
    house.tell(&run, 0, &STORY[..3]).await;
    let mut open = house.listen(&format!("/v1/runs/{run}/events")).await;
    open.until_caught_up().await;
    let reply = house.ask("DELETE", &format!("/v1/tasks/{task}"), &[], None).await;
    check_reply(&reply);
    assert_eq!(reply.json(), json!({"object": "deleted", "data": {"task_id": task, "runs": 1}}));
    for path in ["", "/events", "/digest"] {
        for under in ["/v1/runs".to_owned(), format!("/v1/tasks/{task}/runs")] {
            if path == "/digest" && under.contains("tasks") {
                continue;
            }
            let target = format!("{under}/{run}{path}");
            check_problem(&house.get(&target).await, Code::RunErased, &target);
        }
    }
    let stream = [("accept", "text/event-stream"), ("last-event-id", "1")];
    let target = format!("/v1/runs/{run}/events");
    check_problem(&house.ask("GET", &target, &stream, None).await, Code::RunErased, "a stream");
    check_problem(&house.append(&run, 1, &STORY[3..4]).await, Code::RunErased, "a batch");
    for path in ["cancel", "prune"] {
        check_problem(&house.post(&format!("/v1/runs/{run}/{path}"), "").await, Code::RunErased, path);
    }
    check_problem(&house.ask("PUT", &format!("/v1/runs/{run}/pin"), &[], None).await, Code::RunErased, "pin");
    for (method, path) in [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/runs")] {
        let target = format!("/v1/tasks/{task}{path}");
        check_problem(&house.ask(method, &target, &[], None).await, Code::TaskErased, &target);
    }
    check_problem(
        &house.post(&format!("/v1/tasks/{task}/runs"), r#"{"kind":"external"}"#).await,
        Code::TaskErased,
        "new",
    );
    assert!(house.envelopes("/v1/events").await.is_empty());
    assert_eq!(house.get("/v1/runs").await.json()["data"], json!([]));
    let nobody = "/v1/tasks/task_01JXMZ00000000000000000000";
    check_problem(&house.ask("DELETE", nobody, &[], None).await, Code::TaskNotFound, nobody);
    // Who was listening hears how it ended, or that it is gone; either way the stream ends.
    let (frames, end) = open.all().await;
    assert_eq!(end, End::Good);
    let heard = format!("{frames:?}");
    assert!(heard.contains("run.cancelled") || heard.contains("run_erased"), "{heard}");
    house.running.stop().await;
    for name in ["recount.db", "recount.db-wal"] {
        let bytes = std::fs::read(folder.path().join(name)).unwrap_or_default();
        assert!(!bytes.windows(11).any(|part| part == b"secret plan"), "{name} still holds words of it");
    }
}
