//! Pruned and erased runs over the wire: every cursor, in pages, streams and the feed.

use recount_event::Code;
use serde_json::json;

use crate::test_context::{STORY, TestContext, check_problem, check_reply, elements, text};
use crate::wire::{End, Frame, Listener, events};

/// The sequences that remain of a pruned run: its ending and the marker.
const LEFT: [u64; 2] = [14, 15];

async fn pruned(context: &TestContext) -> String {
    let run = context.run_with_story().await;
    let reply = context.request("POST", &format!("/v1/runs/{run}/prune"), &[], None).await;
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
async fn every_cursor_of_a_pruned_run_returns_the_remaining_events() {
    let folder = tempfile::tempdir().unwrap();
    for context in [TestContext::memory().await, TestContext::sqlite(folder.path()).await] {
        let run = pruned(&context).await;
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
                let bulk = context.request("GET", &target, &headers, None).await;
                if after > 15 {
                    check_problem(&bulk, Code::CursorAhead, &target);
                    continue;
                }
                assert_eq!(bulk.status, 200, "{}", bulk.text());
                let page = bulk.json();
                assert_eq!(page.get("gap"), gap.as_ref(), "{target}");
                assert_eq!(page["next"], left.last().map_or(after, |last| i64::try_from(*last).unwrap()));
                assert_eq!(page["has_more"], false);
                // A reader that reconnects at the end gets nothing.
                if after == 15 && !headers.is_empty() {
                    continue;
                }
                let mut stream = Listener::open(context.address, &target, &headers).await;
                let frames = stream.until_caught_up().await;
                let expected_gaps: Vec<String> = gap.iter().map(ToString::to_string).collect();
                assert_eq!(gaps(&frames), expected_gaps, "{target}");
                let received = events(&frames);
                assert_eq!(received.iter().map(|(cursor, _)| *cursor).collect::<Vec<_>>(), left, "{target}");
                let data: Vec<String> = received.into_iter().map(|(_, data)| data).collect();
                assert_eq!(elements(bulk.text()), data, "{target}");
                let place = |wanted: fn(&Frame) -> bool| frames.iter().position(wanted);
                let event = place(|frame| matches!(frame, Frame::Event { .. })).unwrap_or(frames.len());
                let gap_at = place(|frame| matches!(frame, Frame::Named { event, .. } if event == "gap"));
                assert!(
                    gap_at.is_none_or(|gap_at| gap_at < event),
                    "the gap comes before the remaining events"
                );
            }
        }
        // Page by page, the cursor only moves on.
        let page = context.get(&format!("/v1/runs/{run}/events?limit=1")).await.json();
        assert_eq!((page["next"].clone(), page["has_more"].clone()), (json!(14), json!(true)));
        let page = context.get(&format!("/v1/runs/{run}/events?limit=1&after_sequence=14")).await.json();
        assert_eq!((page.get("gap"), page["next"].clone()), (None, json!(15)));
        let shown = context.get(&format!("/v1/runs/{run}")).await;
        assert_eq!(shown.data()["first_sequence"], 14);
        assert_eq!(shown.data()["turns"], 2);
        let digest = context.get(&format!("/v1/runs/{run}/digest")).await;
        assert_eq!(
            (digest.data()["events"].clone(), digest.data()["first_sequence"].clone()),
            (json!(16), json!(14))
        );
        assert!(digest.data()["start"].is_string());
        context.running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_feed_shows_the_marker_and_refuses_only_cursors_before_its_start() {
    let context = TestContext::memory().await;
    let run = pruned(&context).await;
    let feed = context.envelopes("/v1/events").await;
    assert_eq!(feed.len(), 2);
    assert!(feed[1].contains("\"gap.events_pruned\"") && feed[1].contains(&run));
    for (after, code) in [("-1", None), ("0", None), ("1", Some(410)), ("13", Some(410)), ("14", None)] {
        let target = format!("/v1/events?after_position={after}");
        let accept = [("accept", "text/event-stream")];
        let bulk = context.get(&target).await;
        if code.is_some() {
            check_problem(&bulk, Code::CursorPruned, after);
            check_problem(&context.request("GET", &target, &accept, None).await, Code::CursorPruned, after);
            continue;
        }
        assert_eq!(bulk.json()["data"].as_array().map(Vec::len), Some(2), "{after}");
        assert_eq!(bulk.json().get("gap"), None);
        let received = events(&context.listen(&target).await.until_caught_up().await);
        assert_eq!(received.iter().map(|(position, _)| *position).collect::<Vec<_>>(), [15, 16], "{after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_stream_crosses_the_gap() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    let run = context.new_run().await;
    context.report(&run, 0, &[("run.started", "{}")]).await;
    let note = format!(r#"{{"text":"{}"}}"#, "x".repeat(20_000));
    for seq in 1..=40 {
        context.report(&run, seq, &vec![("user.message", note.as_str()); 20]).await;
    }
    context.report(&run, 41, &[("run.finished", r#"{"final_status":"done"}"#)]).await;
    // Sixteen megabytes: more than the sockets buffer, so the reader is in the middle.
    let mut reader = context.listen(&format!("/v1/runs/{run}/events")).await;
    let first = reader.event().await.expect("the first event");
    assert_eq!(first.0, 0);
    let reply = context.post(&format!("/v1/runs/{run}/prune"), "{}").await;
    assert_eq!(reply.data()["first_sequence"], 802);
    let frames = reader.until_caught_up().await;
    let gaps = gaps(&frames);
    let received = events(&frames);
    let cursors: Vec<u64> = [0].into_iter().chain(received.iter().map(|(cursor, _)| *cursor)).collect();
    assert_eq!(gaps.len(), 1, "one gap, sent once");
    let before = cursors.len() as u64 - 2;
    let gap = json!({"first_pruned_sequence": before, "last_pruned_sequence": 801});
    assert_eq!(gaps[0], gap.to_string());
    assert_eq!(cursors, (0..before).chain([802, 803]).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pins_and_policies_decide_what_is_pruned() {
    let context = TestContext::memory().await;
    let (pinned, unpinned) = (context.run_with_story().await, context.run_with_story().await);
    let pin = format!("/v1/runs/{pinned}/pin");
    for _ in 0..2 {
        let reply = context.request("PUT", &pin, &[], None).await;
        assert_eq!((reply.status, reply.data()["pinned"].clone()), (200, json!(true)));
    }
    let listed = context.get("/v1/runs").await.json();
    assert_eq!((listed["data"][1]["pinned"].clone(), listed["data"][0].get("pinned")), (json!(true), None));
    let reply = context.post(&format!("/v1/runs/{pinned}/prune"), r#"{"before":3}"#).await;
    check_problem(&reply, Code::RunPinned, "a pinned run");
    check_problem(&context.post("/v1/prune", "{}").await, Code::BodyMalformed, "no bound");
    let reply = context.post("/v1/prune", r#"{"max_events":0}"#).await;
    assert_eq!(reply.data(), json!({"runs": 1, "events": 14, "has_more": false}));
    let first =
        async |run: &str| context.get(&format!("/v1/runs/{run}")).await.data().get("first_sequence").cloned();
    assert_eq!((first(&pinned).await, first(&unpinned).await), (None, Some(json!(14))));
    assert_eq!(context.request("DELETE", &pin, &[], None).await.data().get("pinned"), None);
    let reply = context.post(&format!("/v1/runs/{pinned}/prune"), r#"{"before":3}"#).await;
    assert_eq!(reply.data()["first_sequence"], 3);

    let active = context.new_run().await;
    check_problem(&context.post(&format!("/v1/runs/{active}/prune"), "{}").await, Code::RunActive, "active");
    let unknown = "/v1/runs/run_01JXMZ00000000000000000000";
    for method in ["PUT", "DELETE"] {
        check_problem(
            &context.request(method, &format!("{unknown}/pin"), &[], None).await,
            Code::RunNotFound,
            method,
        );
    }
    check_problem(&context.post(&format!("{unknown}/prune"), "").await, Code::RunNotFound, "unknown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_path_of_an_erased_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    let task = text(&context.post("/v1/tasks", r#"{"title":"secret plan"}"#).await.data()["id"]);
    let body = format!(r#"{{"kind":"external","task_id":"{task}","title":"secret plan"}}"#);
    let run = text(&context.post("/v1/runs", &body).await.data()["id"]);
    context.report(&run, 0, &STORY[..3]).await;
    let mut open = context.listen(&format!("/v1/runs/{run}/events")).await;
    open.until_caught_up().await;
    let reply = context.request("DELETE", &format!("/v1/tasks/{task}"), &[], None).await;
    check_reply(&reply);
    assert_eq!(reply.json(), json!({"object": "deleted", "data": {"task_id": task, "runs": 1}}));
    for path in ["", "/events", "/digest"] {
        for under in ["/v1/runs".to_owned(), format!("/v1/tasks/{task}/runs")] {
            if path == "/digest" && under.contains("tasks") {
                continue;
            }
            let target = format!("{under}/{run}{path}");
            check_problem(&context.get(&target).await, Code::RunErased, &target);
        }
    }
    let stream = [("accept", "text/event-stream"), ("last-event-id", "1")];
    let target = format!("/v1/runs/{run}/events");
    check_problem(&context.request("GET", &target, &stream, None).await, Code::RunErased, "a stream");
    check_problem(&context.append(&run, 1, &STORY[3..4]).await, Code::RunErased, "a batch");
    for path in ["cancel", "prune"] {
        check_problem(&context.post(&format!("/v1/runs/{run}/{path}"), "").await, Code::RunErased, path);
    }
    check_problem(
        &context.request("PUT", &format!("/v1/runs/{run}/pin"), &[], None).await,
        Code::RunErased,
        "pin",
    );
    for (method, path) in [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/runs")] {
        let target = format!("/v1/tasks/{task}{path}");
        check_problem(&context.request(method, &target, &[], None).await, Code::TaskErased, &target);
    }
    check_problem(
        &context.post(&format!("/v1/tasks/{task}/runs"), r#"{"kind":"external"}"#).await,
        Code::TaskErased,
        "new",
    );
    assert!(context.envelopes("/v1/events").await.is_empty());
    assert_eq!(context.get("/v1/runs").await.json()["data"], json!([]));
    let unknown = "/v1/tasks/task_01JXMZ00000000000000000000";
    check_problem(&context.request("DELETE", unknown, &[], None).await, Code::TaskNotFound, unknown);
    // An open reader receives the ending or the erasure; either way the stream ends.
    let (frames, end) = open.all().await;
    assert_eq!(end, End::Good);
    let received = format!("{frames:?}");
    assert!(received.contains("run.cancelled") || received.contains("run_erased"), "{received}");
    context.running.stop().await;
    for name in ["recount.db", "recount.db-wal"] {
        let bytes = std::fs::read(folder.path().join(name)).unwrap_or_default();
        assert!(!bytes.windows(11).any(|part| part == b"secret plan"), "{name} still contains its text");
    }
}
