//! Event streams: their heads, their frames, where they begin and how they end.

use recount_event::Code;
use serde_json::Value;

use crate::house::{House, PREFIXES, STORY, check_problem, check_reply};
use crate::wire::{End, Frame, Listener, Wire, events, request};

#[tokio::test]
async fn the_head_of_a_stream() {
    let house = House::memory().await;
    let run = house.told_run().await;
    for prefix in PREFIXES {
        for path in [format!("/runs/{run}/events"), "/events".into(), "/events/stream".into()] {
            let stream = house.listen(&format!("{prefix}{path}")).await;
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
async fn a_finished_run_is_told_whole_and_closed() {
    let house = House::memory().await;
    let run = house.told_run().await;
    let path = format!("/v1/runs/{run}/events");
    let envelopes = house.envelopes(&path).await;
    let last = STORY.len() as u64;
    for (query, first) in [("", 0), ("?after_sequence=-1", 0), ("?after_sequence=4", 5)] {
        let mut expected = vec![Frame::Retry(1000)];
        for id in first..=last {
            expected.push(Frame::Event { id, data: envelopes[id as usize].clone() });
        }
        expected.push(Frame::caught_up("sequence", last as i64));
        let heard = house.listen(&format!("{path}{query}")).await.all().await;
        assert_eq!(heard, (expected, End::Good), "{query}");
    }
    // At the ending, a fresh reader is told that it is level, and one that comes again to stay away.
    let at_the_end = format!("{path}?after_sequence={last}");
    let level = vec![Frame::Retry(1000), Frame::caught_up("sequence", last as i64)];
    assert_eq!(house.listen(&at_the_end).await.all().await, (level, End::Good));
    let last = last.to_string();
    let again = [("accept", "text/event-stream"), ("last-event-id", last.as_str())];
    for method in ["GET", "HEAD"] {
        let reply = house.ask(method, &path, &again, None).await;
        assert_eq!((reply.status, reply.body.len()), (204, 0), "{method}");
        check_reply(&reply);
        assert_eq!(reply.header("content-type"), None);
    }
    // In bulk the same cursor is an empty page.
    let reply = house.ask("GET", &path, &again[1..], None).await;
    assert_eq!((reply.status, reply.json()["data"].as_array().map(Vec::len)), (200, Some(0)));
    // Before the ending, who comes again is told the rest.
    let (frames, end) = Listener::open(house.address, &path, &[("last-event-id", "13")]).await.all().await;
    assert_eq!((events(&frames).len(), end), (1, End::Good));
}

#[tokio::test]
async fn a_reader_that_comes_again_to_a_living_run_waits() {
    let house = House::memory().await;
    let run = house.new_run().await;
    house.tell(&run, 0, &STORY[..2]).await;
    let path = format!("/v1/runs/{run}/events");
    let mut stream = Listener::open(house.address, &path, &[("last-event-id", "2")]).await;
    let level = vec![Frame::Retry(1000), Frame::caught_up("sequence", 2)];
    assert_eq!(stream.until_caught_up().await, level);
    house.tell(&run, 1, &STORY[2..]).await;
    let (frames, end) = stream.all().await;
    let ids: Vec<u64> = events(&frames).iter().map(|(id, _)| *id).collect();
    assert_eq!((ids, end), ((3..=14).collect(), End::Good));
    assert_eq!(frames.len(), 12, "the mark comes once: {frames:?}");
}

#[tokio::test]
async fn a_stream_follows_a_run_from_before_its_start_to_its_ending() {
    let house = House::memory().await;
    for ending in ["finished", "cancelled"] {
        let run = house.new_run().await;
        let path = format!("/v1/runs/{run}/events");
        let mut stream = house.listen(&path).await;
        assert_eq!(stream.until_caught_up().await.pop(), Some(Frame::caught_up("sequence", 0)));
        for (at, event) in STORY[..STORY.len() - 1].iter().enumerate() {
            house.tell(&run, at as u64, &[*event]).await;
            assert_eq!(stream.event().await.unwrap().0, at as u64 + 1, "it comes at once");
        }
        if ending == "finished" {
            house.tell(&run, 13, &STORY[13..]).await;
        } else {
            assert_eq!(house.post(&format!("/v1/runs/{run}/cancel"), "").await.status, 200);
        }
        let (frames, end) = stream.all().await;
        let ended = events(&frames).pop().unwrap().1;
        assert!(ended.contains(&format!("\"run.{ending}\"")), "{ended}");
        assert_eq!((frames.len(), end), (1, End::Good), "{frames:?}");
    }
}

#[tokio::test]
async fn the_feed_goes_on_when_runs_end() {
    let house = House::memory().await;
    let mut feed = house.listen("/v1/events/stream").await;
    let mut on_one_path = house.listen("/v1/events").await;
    for round in 0..3 {
        house.told_run().await;
        for stream in [&mut feed, &mut on_one_path] {
            for at in 0..15 {
                assert_eq!(stream.event().await.unwrap().0, round * 15 + at + 1);
            }
        }
    }
    // Who comes again to a level feed is not sent away.
    let again = Listener::open(house.address, "/v1/events", &[("last-event-id", "45")]).await;
    assert_eq!(again.head.status, 200);
}

#[tokio::test]
async fn what_is_wanted_is_told_by_accept() {
    let house = House::memory().await;
    let run = house.told_run().await;
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
            let reply = house.ask("GET", &path, &[("accept", accept)], None).await;
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
        let reply = house.ask("GET", &path, &two, None).await;
        assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    }
    // Only what is read as a stream is chosen like this; everything else is what it is.
    let reply = house.ask("GET", "/v1/runs", &[("accept", "text/html")], None).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
}

#[tokio::test]
async fn refusals_come_before_the_stream_and_in_json() {
    let house = House::memory().await;
    let run = house.told_run().await;
    let nobody = "run_01JXMZ00000000000000000000";
    let wanted = [("accept", "text/event-stream")];
    for (target, code) in [
        (format!("/v1/runs/{run}/events?after_sequence=99"), Code::CursorAhead),
        (format!("/v1/runs/{run}/events?after_sequence=x"), Code::CursorMalformed),
        (format!("/v1/runs/{run}/events?limit=0"), Code::ParameterInvalid),
        (format!("/v1/runs/{nobody}/events"), Code::RunNotFound),
        ("/v1/runs/nobody/events".into(), Code::RunNotFound),
        (format!("/v1/tasks/task_01JXMZ00000000000000000000/runs/{run}/events"), Code::RunNotFound),
        ("/v1/events?after_position=1000".into(), Code::CursorAhead),
    ] {
        check_problem(&house.ask("GET", &target, &wanted, None).await, code, &target);
    }
}

#[tokio::test]
async fn a_head_request_for_a_stream_ends_at_once() {
    let house = House::memory().await;
    let run = house.new_run().await;
    for target in [format!("/v1/runs/{run}/events"), "/v1/events/stream".into(), "/v1/events".into()] {
        let mut wire = Wire::connect(house.address).await;
        // Several on one connection: nothing of a body is in the way of the next.
        for _ in 0..3 {
            let accept = [("accept", "text/event-stream")];
            wire.send(&request(house.address, "HEAD", &target, &accept, None)).await;
            let reply = wire.reply("HEAD").await.expect("the connection stays");
            assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
            check_reply(&reply);
        }
        wire.send(&request(house.address, "GET", "/healthz", &[], None)).await;
        assert_eq!(wire.reply("GET").await.unwrap().status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_cut_off_again_and_again_hears_every_event_once() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::sqlite(folder.path()).await;
    let run = house.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let total = 600;
    let teller = async {
        for seq in 0..total / 4 {
            let said = format!(r#"{{"text":"{seq}"}}"#);
            house.tell(&run, seq, &[("user.message", said.as_str()); 4]).await;
        }
        house
            .tell(&run, total / 4, &[("run.started", "{}"), ("run.finished", r#"{"final_status":"ok"}"#)])
            .await;
    };
    let readers = (0..4_u64).map(|number| {
        let (house, path) = (&house, &path);
        async move {
            let mut heard: Vec<(u64, String)> = Vec::new();
            // The query stays as it was in the beginning, as a browser's does.
            let target = format!("{path}?after_sequence=-1");
            // How many events each connection gives before it is dropped: never the same twice.
            let mut patience = number;
            for _ in 0..2000 {
                let last = heard.last().map(|(id, _)| id.to_string());
                let headers: Vec<(&str, &str)> =
                    last.iter().map(|id| ("last-event-id", id.as_str())).collect();
                let mut all = vec![("accept", "text/event-stream")];
                all.extend_from_slice(&headers);
                let mut wire = Wire::connect(house.address).await;
                wire.send(&request(house.address, "GET", &target, &all, None)).await;
                if number == 3 {
                    // One that asks and leaves before it hears anything.
                    drop(wire);
                }
                let probe = house.ask("HEAD", &target, &all, None).await;
                if probe.status == 204 {
                    return heard;
                }
                let mut stream = Listener::open(house.address, &target, &headers).await;
                patience = (patience * 7 + 3) % 23 + 1;
                for _ in 0..patience {
                    match stream.event().await {
                        Ok(event) => heard.push(event),
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
    let (_, heard) = tokio::join!(teller, futures_util::future::join_all(readers));
    let whole = house.envelopes(&path).await;
    assert_eq!(whole.len() as u64, total + 3);
    let expected: Vec<(u64, String)> = (0..).zip(whole).collect();
    for heard in heard {
        assert_eq!(heard, expected);
    }
}

#[tokio::test]
async fn a_server_that_goes_down_says_so_and_ends_its_streams_well() {
    let house = House::memory().await;
    let run = house.new_run().await;
    let targets = [format!("/v1/runs/{run}/events"), "/v1/events/stream".to_owned()];
    let mut streams = Vec::new();
    for target in &targets {
        let mut stream = house.listen(target).await;
        stream.until_caught_up().await;
        streams.push(stream);
    }
    let mut idle = Wire::connect(house.address).await;
    idle.send(&request(house.address, "GET", "/healthz", &[], None)).await;
    assert_eq!(idle.reply("GET").await.unwrap().status, 200);
    let address = house.address;
    assert_eq!(house.running.stop().await, 0, "every task ended in time");
    for mut stream in streams {
        let (frames, end) = stream.all().await;
        assert_eq!(end, End::Good);
        assert!(matches!(frames.as_slice(), [Frame::Comment(said)] if said.contains("down")), "{frames:?}");
    }
    assert_eq!(idle.rest().await, b"");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_client_of_the_old_protocol_reads_until_the_end() {
    let house = House::memory().await;
    let run = house.told_run().await;
    let mut wire = Wire::connect(house.address).await;
    let asked = format!(
        "GET /v1/runs/{run}/events HTTP/1.0\r\nhost: {}\r\naccept: text/event-stream\r\n\r\n",
        house.address
    );
    wire.send(asked.as_bytes()).await;
    let reply = wire.reply("GET").await.unwrap();
    assert_eq!((reply.status, reply.header("transfer-encoding")), (200, None));
    assert!(reply.text().starts_with("retry: 1000\n\nid: 0\n"));
    assert!(reply.text().ends_with("event: caught_up\ndata: {\"sequence\":14}\n\n"));
}

#[tokio::test]
async fn marks_and_comments_carry_no_id() {
    let house = House::memory().await;
    let run = house.told_run().await;
    let mut wire = Wire::connect(house.address).await;
    let accept = [("accept", "text/event-stream")];
    wire.send(&request(house.address, "GET", &format!("/v1/runs/{run}/events"), &accept, None)).await;
    let reply = wire.reply("GET").await.unwrap();
    let ids = reply.text().lines().filter(|line| line.starts_with("id:")).count();
    let named: Vec<&str> = reply.text().lines().filter(|line| line.starts_with("event:")).collect();
    assert_eq!((ids, named), (15, vec!["event: caught_up"]));
    for line in reply.text().lines().filter_map(|line| line.strip_prefix("data: ")) {
        assert!(serde_json::from_str::<Value>(line).is_ok_and(|said| said.is_object()), "{line}");
    }
}
