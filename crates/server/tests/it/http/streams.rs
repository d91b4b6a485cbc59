//! Event streams: heads, frames, starting cursors and ends.

use recount_event::Code;
use serde_json::Value;

use crate::test_context::{PREFIXES, STORY, TestContext, check_problem, check_reply};
use crate::wire::{End, Frame, Listener, Wire, events, request};

#[tokio::test]
async fn the_head_of_a_stream() {
    let context = TestContext::memory().await;
    let run = context.run_with_story().await;
    for prefix in PREFIXES {
        for path in [format!("/runs/{run}/events"), "/events".into(), "/events/stream".into()] {
            let stream = context.listen(&format!("{prefix}{path}")).await;
            check_reply(&stream.head);
            let mut names: Vec<&str> = stream.head.headers.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            let expected = [
                "cache-control",
                "content-type",
                "cross-origin-resource-policy",
                "date",
                "transfer-encoding",
                "x-accel-buffering",
                "x-content-type-options",
                "x-request-id",
            ];
            assert_eq!(names, expected, "{path}");
            assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
            assert_eq!(stream.head.header("x-accel-buffering"), Some("no"));
        }
    }
}

#[tokio::test]
async fn a_finished_run_is_streamed_whole_and_closed() {
    let context = TestContext::memory().await;
    let run = context.run_with_story().await;
    let path = format!("/v1/runs/{run}/events");
    let envelopes = context.envelopes(&path).await;
    let last = STORY.len() as u64;
    for (query, first) in [("", 0), ("?after_sequence=-1", 0), ("?after_sequence=4", 5)] {
        let mut expected = vec![Frame::Retry(1000)];
        for id in first..=last {
            expected.push(Frame::Event { id, data: envelopes[id as usize].clone() });
        }
        expected.push(Frame::caught_up("sequence", last as i64));
        let received = context.listen(&format!("{path}{query}")).await.all().await;
        assert_eq!(received, (expected, End::Good), "{query}");
    }
    // At the end, a new reader gets `caught_up`, and one that reconnects gets 204.
    let at_the_end = format!("{path}?after_sequence={last}");
    let caught_up = vec![Frame::Retry(1000), Frame::caught_up("sequence", last as i64)];
    assert_eq!(context.listen(&at_the_end).await.all().await, (caught_up, End::Good));
    let last = last.to_string();
    let again = [("accept", "text/event-stream"), ("last-event-id", last.as_str())];
    for method in ["GET", "HEAD"] {
        let reply = context.request(method, &path, &again, None).await;
        assert_eq!((reply.status, reply.body.len()), (204, 0), "{method}");
        check_reply(&reply);
        assert_eq!(reply.header("content-type"), None);
    }
    // In bulk the same cursor is an empty page.
    let reply = context.request("GET", &path, &again[1..], None).await;
    assert_eq!((reply.status, reply.json()["data"].as_array().map(Vec::len)), (200, Some(0)));
    // Before the end, a reader that reconnects gets the rest.
    let (frames, end) = Listener::open(context.address, &path, &[("last-event-id", "13")]).await.all().await;
    assert_eq!((events(&frames).len(), end), (1, End::Good));
}

#[tokio::test]
async fn a_reader_that_reconnects_to_an_active_run_waits() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    context.report(&run, 0, &STORY[..2]).await;
    let path = format!("/v1/runs/{run}/events");
    let mut stream = Listener::open(context.address, &path, &[("last-event-id", "2")]).await;
    let caught_up = vec![Frame::Retry(1000), Frame::caught_up("sequence", 2)];
    assert_eq!(stream.until_caught_up().await, caught_up);
    context.report(&run, 1, &STORY[2..]).await;
    let (frames, end) = stream.all().await;
    let ids: Vec<u64> = events(&frames).iter().map(|(id, _)| *id).collect();
    assert_eq!((ids, end), ((3..=14).collect(), End::Good));
    assert_eq!(frames.len(), 12, "one mark: {frames:?}");
}

#[tokio::test]
async fn a_stream_follows_a_run_from_before_its_start_to_its_ending() {
    let context = TestContext::memory().await;
    for ending in ["finished", "cancelled"] {
        let run = context.new_run().await;
        let path = format!("/v1/runs/{run}/events");
        let mut stream = context.listen(&path).await;
        assert_eq!(stream.until_caught_up().await.pop(), Some(Frame::caught_up("sequence", 0)));
        for (at, event) in STORY[..STORY.len() - 1].iter().enumerate() {
            context.report(&run, at as u64, &[*event]).await;
            assert_eq!(stream.event().await.unwrap().0, at as u64 + 1, "it arrives at once");
        }
        if ending == "finished" {
            context.report(&run, 13, &STORY[13..]).await;
        } else {
            assert_eq!(context.post(&format!("/v1/runs/{run}/cancel"), "").await.status, 200);
        }
        let (frames, end) = stream.all().await;
        let ended = events(&frames).pop().unwrap().1;
        assert!(ended.contains(&format!("\"run.{ending}\"")), "{ended}");
        assert_eq!((frames.len(), end), (1, End::Good), "{frames:?}");
    }
}

#[tokio::test]
async fn the_feed_continues_when_runs_end() {
    let context = TestContext::memory().await;
    let mut feed = context.listen("/v1/events/stream").await;
    let mut on_one_path = context.listen("/v1/events").await;
    for round in 0..3 {
        context.run_with_story().await;
        for stream in [&mut feed, &mut on_one_path] {
            for at in 0..15 {
                assert_eq!(stream.event().await.unwrap().0, round * 15 + at + 1);
            }
        }
    }
    // A reader that reconnects to a caught-up feed gets a stream.
    let again = Listener::open(context.address, "/v1/events", &[("last-event-id", "45")]).await;
    assert_eq!(again.head.status, 200);
}

#[tokio::test]
async fn accept_selects_the_representation() {
    let context = TestContext::memory().await;
    let run = context.run_with_story().await;
    let (json, stream) = (Ok("application/json"), Ok("text/event-stream"));
    let table = [
        ("*/*", json),
        ("", json),
        ("application/json", json),
        ("application/*", json),
        ("text/event-stream", stream),
        ("TEXT/EVENT-STREAM", stream),
        ("text/*", stream),
        ("text/event-stream, */*;q=0.1", stream),
        ("text/event-stream;q=0.4, application/json;q=0.5", json),
        ("text/event-stream;q=0.6, application/json;q=0.5", stream),
        ("text/event-stream, application/json", json),
        ("text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8", json),
        ("application/json;q=0, */*", stream),
        ("text/html", Err(Code::NotAcceptable)),
        ("*/*;q=0", Err(Code::NotAcceptable)),
        ("application/json;q=0", Err(Code::NotAcceptable)),
        ("image/png, text/plain", Err(Code::NotAcceptable)),
        ("garbage", Err(Code::NotAcceptable)),
    ];
    for path in [format!("/v1/runs/{run}/events"), format!("/hecate/v1/runs/{run}/events")] {
        for (accept, expected) in table {
            let reply = context.request("GET", &path, &[("accept", accept)], None).await;
            match expected {
                Ok(media_type) => {
                    assert_eq!(
                        (reply.status, reply.header("content-type")),
                        (200, Some(media_type)),
                        "{accept}"
                    );
                }
                Err(code) => drop(check_problem(&reply, code, accept)),
            }
        }
        // Several headers are one list.
        let two = [("accept", "application/json;q=0.1"), ("accept", "text/event-stream")];
        let reply = context.request("GET", &path, &two, None).await;
        assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    }
    // `Accept` matters only for resources that have a stream.
    let reply = context.request("GET", "/v1/runs", &[("accept", "text/html")], None).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
}

#[tokio::test]
async fn refusals_come_before_the_stream_and_in_json() {
    let context = TestContext::memory().await;
    let run = context.run_with_story().await;
    let unknown = "run_01JXMZ00000000000000000000";
    let wanted = [("accept", "text/event-stream")];
    for (target, code) in [
        (format!("/v1/runs/{run}/events?after_sequence=99"), Code::CursorAhead),
        (format!("/v1/runs/{run}/events?after_sequence=x"), Code::CursorMalformed),
        (format!("/v1/runs/{run}/events?limit=0"), Code::ParameterInvalid),
        (format!("/v1/runs/{unknown}/events"), Code::RunNotFound),
        ("/v1/runs/unknown/events".into(), Code::RunNotFound),
        (format!("/v1/tasks/task_01JXMZ00000000000000000000/runs/{run}/events"), Code::RunNotFound),
        ("/v1/events?after_position=1000".into(), Code::CursorAhead),
    ] {
        check_problem(&context.request("GET", &target, &wanted, None).await, code, &target);
    }
}

#[tokio::test]
async fn a_head_request_for_a_stream_ends_at_once() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    for target in [format!("/v1/runs/{run}/events"), "/v1/events/stream".into(), "/v1/events".into()] {
        let mut wire = Wire::connect(context.address).await;
        // Several on one connection: no body precedes the next response.
        for _ in 0..3 {
            let accept = [("accept", "text/event-stream")];
            wire.send(&request(context.address, "HEAD", &target, &accept, None)).await;
            let reply = wire.reply("HEAD").await.expect("the connection stays");
            assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
            check_reply(&reply);
        }
        wire.send(&request(context.address, "GET", "/healthz", &[], None)).await;
        assert_eq!(wire.reply("GET").await.unwrap().status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeatedly_disconnected_reader_receives_every_event_once() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    let run = context.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let total = 600;
    let reporter = async {
        for seq in 0..total / 4 {
            let data = format!(r#"{{"text":"{seq}"}}"#);
            context.report(&run, seq, &[("user.message", data.as_str()); 4]).await;
        }
        context
            .report(&run, total / 4, &[("run.started", "{}"), ("run.finished", r#"{"final_status":"ok"}"#)])
            .await;
    };
    let readers = (0..4_u64).map(|number| {
        let (context, path) = (&context, &path);
        async move {
            let mut received: Vec<(u64, String)> = Vec::new();
            // The query stays unchanged, as in a browser.
            let target = format!("{path}?after_sequence=-1");
            // The number of events before each disconnect differs.
            let mut patience = number;
            for _ in 0..2000 {
                let last = received.last().map(|(id, _)| id.to_string());
                let headers: Vec<(&str, &str)> =
                    last.iter().map(|id| ("last-event-id", id.as_str())).collect();
                let mut all = vec![("accept", "text/event-stream")];
                all.extend_from_slice(&headers);
                let mut wire = Wire::connect(context.address).await;
                wire.send(&request(context.address, "GET", &target, &all, None)).await;
                if number == 3 {
                    // This reader disconnects before it receives anything.
                    drop(wire);
                }
                let probe = context.request("HEAD", &target, &all, None).await;
                if probe.status == 204 {
                    return received;
                }
                let mut stream = Listener::open(context.address, &target, &headers).await;
                patience = (patience * 7 + 3) % 23 + 1;
                for _ in 0..patience {
                    match stream.event().await {
                        Ok(event) => received.push(event),
                        Err(end) => {
                            assert_eq!(end, End::Good);
                            break;
                        }
                    }
                }
            }
            panic!("2000 connections were not enough");
        }
    });
    let (_, received) = tokio::join!(reporter, futures_util::future::join_all(readers));
    let whole = context.envelopes(&path).await;
    assert_eq!(whole.len() as u64, total + 3);
    let expected: Vec<(u64, String)> = (0..).zip(whole).collect();
    for received in received {
        assert_eq!(received, expected);
    }
}

#[tokio::test]
async fn a_shutdown_is_announced_and_ends_streams_cleanly() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let targets = [format!("/v1/runs/{run}/events"), "/v1/events/stream".to_owned()];
    let mut streams = Vec::new();
    for target in &targets {
        let mut stream = context.listen(target).await;
        stream.until_caught_up().await;
        streams.push(stream);
    }
    let mut idle = Wire::connect(context.address).await;
    idle.send(&request(context.address, "GET", "/healthz", &[], None)).await;
    assert_eq!(idle.reply("GET").await.unwrap().status, 200);
    let address = context.address;
    assert_eq!(context.running.stop().await, 0, "every task ended in time");
    for mut stream in streams {
        let (frames, end) = stream.all().await;
        assert_eq!(end, End::Good);
        assert!(matches!(frames.as_slice(), [Frame::Comment(text)] if text.contains("down")), "{frames:?}");
    }
    assert_eq!(idle.rest().await, b"");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the server stopped listening");
}

#[tokio::test]
async fn a_client_of_the_old_protocol_reads_until_the_end() {
    let context = TestContext::memory().await;
    let run = context.run_with_story().await;
    let mut wire = Wire::connect(context.address).await;
    let request = format!(
        "GET /v1/runs/{run}/events HTTP/1.0\r\nhost: {}\r\naccept: text/event-stream\r\n\r\n",
        context.address
    );
    wire.send(request.as_bytes()).await;
    let reply = wire.reply("GET").await.unwrap();
    assert_eq!((reply.status, reply.header("transfer-encoding")), (200, None));
    assert!(reply.text().starts_with("retry: 1000\n\nid: 0\n"));
    assert!(reply.text().ends_with("event: caught_up\ndata: {\"sequence\":14}\n\n"));
}

#[tokio::test]
async fn marks_and_comments_carry_no_id() {
    let context = TestContext::memory().await;
    let run = context.run_with_story().await;
    let mut wire = Wire::connect(context.address).await;
    let accept = [("accept", "text/event-stream")];
    wire.send(&request(context.address, "GET", &format!("/v1/runs/{run}/events"), &accept, None)).await;
    let reply = wire.reply("GET").await.unwrap();
    let ids = reply.text().lines().filter(|line| line.starts_with("id:")).count();
    let named: Vec<&str> = reply.text().lines().filter(|line| line.starts_with("event:")).collect();
    assert_eq!((ids, named), (15, vec!["event: caught_up"]));
    for line in reply.text().lines().filter_map(|line| line.strip_prefix("data: ")) {
        assert!(serde_json::from_str::<Value>(line).is_ok_and(|value| value.is_object()), "{line}");
    }
}
