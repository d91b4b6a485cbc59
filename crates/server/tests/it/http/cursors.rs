//! Cursors, pages and order, for one run and for the feed of all.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use recount_event::Code;
use serde_json::Value;

use crate::test_context::{TestContext, batch, check_problem, elements, text};
use crate::wire::{Frame, Listener, events};

fn notes(count: usize) -> Vec<(&'static str, String)> {
    (0..count).map(|at| ("user.message", format!(r#"{{"text":"note {at}"}}"#))).collect()
}

async fn report_notes(context: &TestContext, run: &str, seq: u64, count: usize) {
    let notes = notes(count);
    let notes: Vec<(&str, &str)> = notes.iter().map(|(name, data)| (*name, data.as_str())).collect();
    context.report(run, seq, &notes).await;
}

/// Reads a page and a stream, and compares their cursors. Both forms must agree.
async fn check(
    context: &TestContext,
    target: &str,
    headers: &[(&str, &str)],
    expected: Result<std::ops::Range<u64>, Code>,
) {
    let about = format!("{target} {headers:?}");
    let bulk = context.request("GET", target, headers, None).await;
    let mut for_stream = headers.to_vec();
    for_stream.push(("accept", "text/event-stream"));
    match expected {
        Err(code) => {
            check_problem(&bulk, code, &about);
            check_problem(&context.request("GET", target, &for_stream, None).await, code, &about);
        }
        Ok(range) => {
            assert_eq!(bulk.status, 200, "{about}: {}", bulk.text());
            let page = bulk.json();
            let mut stream = Listener::open(context.address, target, headers).await;
            let received = events(&stream.until_caught_up().await);
            let cursors: Vec<u64> = received.iter().map(|(cursor, _)| *cursor).collect();
            let wanted: Vec<u64> = range.collect();
            assert_eq!(cursors, wanted, "{about}");
            assert_eq!(page["data"].as_array().map(Vec::len), Some(wanted.len()), "{about}");
            let data: Vec<String> = received.into_iter().map(|(_, data)| data).collect();
            assert_eq!(elements(bulk.text()), data, "{about}");
            if let Some(last) = wanted.last() {
                assert_eq!(page["next"], *last, "{about}");
            }
        }
    }
}

const MALFORMED: &[&str] = &[
    "-2",
    "+5",
    "%2B5",
    "05",
    "00",
    "-0",
    "1.0",
    "1e1",
    "0x1",
    "%20",
    "%201",
    "1%20",
    "1%00",
    "%00",
    "abc",
    "null",
    "NaN",
    "1,2",
    "18446744073709551615",
    "18446744073709551616",
    "9007199254740992",
    "-9223372036854775808",
    "%EF%BC%91",
    "%ff",
    "--1",
    "1-",
    "1;2",
    "%22%22",
    "%3Cscript%3E",
    "%0d%0ax-evil:%201",
];

#[tokio::test]
async fn cursors_of_a_run() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    report_notes(&context, &run, 0, 9).await;
    for path in [format!("/v1/runs/{run}/events"), format!("/hecate/v1/runs/{run}/events")] {
        let with = |cursor: &str| format!("{path}?after_sequence={cursor}");
        check(&context, &path, &[], Ok(0..10)).await;
        check(&context, &with(""), &[], Ok(0..10)).await;
        check(&context, &with("-1"), &[], Ok(0..10)).await;
        check(&context, &with("0"), &[], Ok(1..10)).await;
        check(&context, &with("5"), &[], Ok(6..10)).await;
        check(&context, &with("8"), &[], Ok(9..10)).await;
        check(&context, &with("9"), &[], Ok(10..10)).await;
        check(&context, &with("10"), &[], Err(Code::CursorAhead)).await;
        check(&context, &with("9007199254740991"), &[], Err(Code::CursorAhead)).await;
        check(&context, &with("latest"), &[], Err(Code::CursorMalformed)).await;
        check(&context, &format!("{path}?after_position=10"), &[], Err(Code::ParameterInvalid)).await;
        check(&context, &format!("{path}?after%5Fsequence=7"), &[], Ok(8..10)).await;
        for bad in MALFORMED {
            check(&context, &with(bad), &[], Err(Code::CursorMalformed)).await;
        }
        // The header overrides the query; an empty one counts as none.
        check(&context, &path, &[("last-event-id", "7")], Ok(8..10)).await;
        check(&context, &with("2"), &[("last-event-id", "7")], Ok(8..10)).await;
        check(&context, &with("3"), &[("last-event-id", "7")], Ok(8..10)).await;
        check(&context, &with("nonsense"), &[("last-event-id", "7")], Err(Code::CursorMalformed)).await;
        check(&context, &with("2"), &[("last-event-id", "")], Ok(3..10)).await;
        check(&context, &with("2"), &[("last-event-id", "  ")], Ok(3..10)).await;
        check(&context, &with("2"), &[("last-event-id", "-1")], Ok(0..10)).await;
        check(&context, &with("2"), &[("Last-Event-ID", "10")], Err(Code::CursorAhead)).await;
        for bad in ["x", "7x", "07", "7 8", "-7", "é", "latest", "9007199254740992"] {
            check(&context, &with("2"), &[("last-event-id", bad)], Err(Code::CursorMalformed)).await;
        }
    }
}

#[tokio::test]
async fn cursors_of_the_feed() {
    let context = TestContext::memory().await;
    // Before anything has happened.
    for cursor in ["", "?after_position=-1", "?after_position=0", "?after_position=latest"] {
        let page = context.get(&format!("/v1/events{cursor}")).await.text().to_owned();
        let next = if cursor.ends_with('0') || cursor.ends_with("latest") { 0 } else { -1 };
        assert_eq!(page, format!(r#"{{"object":"list","data":[],"next":{next},"has_more":false}}"#));
        let mut stream = context.listen(&format!("/v1/events{cursor}")).await;
        assert_eq!(stream.until_caught_up().await.pop(), Some(Frame::caught_up("position", 0)));
    }
    let run = context.new_run().await;
    report_notes(&context, &run, 0, 9).await;
    for path in ["/v1/events", "/hecate/v1/events"] {
        let with = |cursor: &str| format!("{path}?after_position={cursor}");
        check(&context, path, &[], Ok(1..11)).await;
        check(&context, &with(""), &[], Ok(1..11)).await;
        check(&context, &with("-1"), &[], Ok(1..11)).await;
        check(&context, &with("0"), &[], Ok(1..11)).await;
        check(&context, &with("4"), &[], Ok(5..11)).await;
        check(&context, &with("10"), &[], Ok(11..11)).await;
        check(&context, &with("latest"), &[], Ok(11..11)).await;
        check(&context, &with("11"), &[], Err(Code::CursorAhead)).await;
        check(&context, &with("LATEST"), &[], Err(Code::CursorMalformed)).await;
        check(&context, &format!("{path}?after_sequence=4"), &[], Err(Code::ParameterInvalid)).await;
        for bad in MALFORMED {
            check(&context, &with(bad), &[], Err(Code::CursorMalformed)).await;
        }
        check(&context, &with("2"), &[("last-event-id", "7")], Ok(8..11)).await;
        check(&context, &with("latest"), &[("last-event-id", "7")], Ok(8..11)).await;
        check(&context, &with("latest"), &[("last-event-id", "")], Ok(11..11)).await;
        check(&context, &with("2"), &[("last-event-id", "11")], Err(Code::CursorAhead)).await;
        check(&context, &with("2"), &[("last-event-id", "é")], Err(Code::CursorMalformed)).await;
        check(&context, &with("2"), &[("last-event-id", "latest")], Err(Code::CursorMalformed)).await;
    }
    // The stream's own path takes the same cursors.
    for (query, first) in [("", 1), ("?after_position=0", 1), ("?after_position=6", 7)] {
        let mut stream = Listener::open(context.address, &format!("/v1/events/stream{query}"), &[]).await;
        let frames = stream.until_caught_up().await;
        assert_eq!(events(&frames).first().map(|(cursor, _)| *cursor), Some(first), "{query}");
    }
    for bad in ["?after_position=99", "?after_position=x"] {
        let reply = context.get(&format!("/v1/events/stream{bad}")).await;
        let code = if bad.ends_with('x') { Code::CursorMalformed } else { Code::CursorAhead };
        check_problem(&reply, code, bad);
    }
    // From `latest` on, only new events arrive.
    let mut stream = context.listen("/v1/events/stream?after_position=latest").await;
    assert_eq!(stream.until_caught_up().await.pop(), Some(Frame::caught_up("position", 10)));
    report_notes(&context, &run, 1, 2).await;
    assert_eq!(stream.event().await.unwrap().0, 11);
    assert_eq!(stream.event().await.unwrap().0, 12);
}

#[tokio::test]
async fn headers_that_are_no_text_are_refused() {
    let context = TestContext::memory().await;
    let run = context.run_with_story().await;
    for target in [format!("/v1/runs/{run}/events"), "/v1/events".to_owned(), "/v1/events/stream".to_owned()]
    {
        for accept in ["*/*", "text/event-stream"] {
            let mut wire = crate::wire::Wire::connect(context.address).await;
            let head = format!("GET {target} HTTP/1.1\r\nhost: {}\r\naccept: {accept}\r\n", context.address);
            let mut bytes = head.into_bytes();
            bytes.extend_from_slice(b"last-event-id: \xff\xfe\x80\r\n\r\n");
            wire.send(&bytes).await;
            let reply = wire.reply("GET").await.unwrap();
            check_problem(&reply, Code::CursorMalformed, &target);
        }
    }
}

#[tokio::test]
async fn page_limits_are_checked() {
    let context = TestContext::memory().await;
    let run = context.run_with_story().await;
    for path in [format!("/v1/runs/{run}/events"), "/v1/events".to_owned()] {
        for bad in ["0", "1001", "-1", "", "ten", "1e2", "99999999999999999999", "%ff"] {
            let target = format!("{path}?limit={bad}");
            check_problem(&context.get(&target).await, Code::ParameterInvalid, &target);
        }
        for good in ["1", "1000"] {
            assert_eq!(context.get(&format!("{path}?limit={good}")).await.status, 200, "{good}");
        }
    }
}

#[tokio::test]
async fn pages_of_any_size_join_to_the_whole() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    for seq in 0..3 {
        report_notes(&context, &run, seq, 400).await;
    }
    let total = 1201;
    for (path, name, first) in [
        (format!("/v1/runs/{run}/events"), "after_sequence", 0_i64),
        ("/v1/events".into(), "after_position", 1),
    ] {
        let whole = context.envelopes(&path).await;
        assert_eq!(whole.len(), total);
        let default = context.get(&path).await;
        assert_eq!(elements(default.text()), whole[..500], "500 by default");
        for size in [1, 2, 3, 7, 13, 50, 100, 499, 500, 501, 600, 601, 999, 1000] {
            // Small pages would need many requests, so only the first and last stretch are read.
            let stretches = if size < 10 { vec![0, total - 20] } else { vec![0] };
            for start in stretches {
                let mut after = first - 1 + i64::try_from(start).unwrap();
                let mut at = start;
                for _ in 0..200 {
                    let reply = context.get(&format!("{path}?{name}={after}&limit={size}")).await;
                    let page = reply.json();
                    let got = elements(reply.text());
                    assert_eq!(got.len(), size.min(total - at), "{size} after {after}");
                    assert_eq!(got, whole[at..at + got.len()], "{size} after {after}");
                    at += got.len();
                    after = page["next"].as_i64().unwrap();
                    assert_eq!(after, first - 1 + i64::try_from(at).unwrap(), "{size}");
                    assert_eq!(page["has_more"], at < total, "{size} after {after}");
                    if at == total {
                        break;
                    }
                }
                if size >= 10 {
                    assert_eq!(at, total, "{size}");
                }
            }
        }
        // At the end the page is empty and the cursor stays.
        let tail = first - 1 + i64::try_from(total).unwrap();
        for _ in 0..3 {
            let page = context.get(&format!("{path}?{name}={tail}")).await.text().to_owned();
            assert_eq!(page, format!(r#"{{"object":"list","data":[],"next":{tail},"has_more":false}}"#));
        }
    }
}

#[tokio::test]
async fn pages_of_large_events_end_early_and_report_more() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(300_000));
    for seq in 0..5 {
        context.report(&run, seq, &[("user.message", &large)]).await;
    }
    let (mut after, mut sizes) = (-1, Vec::new());
    loop {
        let reply = context.get(&format!("/v1/runs/{run}/events?after_sequence={after}&limit=1000")).await;
        let page = reply.json();
        sizes.push(elements(reply.text()).len());
        after = page["next"].as_i64().unwrap();
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(sizes.iter().sum::<usize>(), 6);
    assert!(sizes.len() > 1 && sizes.iter().all(|size| *size > 0), "{sizes:?}");
}

#[tokio::test]
async fn interleaved_runs_are_each_numbered_from_zero() {
    let context = TestContext::memory().await;
    let (one, two) = (context.new_run().await, context.new_run().await);
    for seq in 0..10 {
        report_notes(&context, &one, seq, 1).await;
        report_notes(&context, &two, seq, 2).await;
    }
    let feed = context.envelopes("/v1/events").await;
    let mut joined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for envelope in &feed {
        let run = text(&serde_json::from_str::<Value>(envelope).unwrap()["run_id"]);
        joined.entry(run).or_default().push(envelope.clone());
    }
    for (run, count) in [(&one, 11), (&two, 21)] {
        let events = context.envelopes(&format!("/v1/runs/{run}/events")).await;
        assert_eq!(events.len(), count);
        for (sequence, envelope) in events.iter().enumerate() {
            let event = serde_json::from_str::<Value>(envelope).unwrap();
            assert_eq!(
                (&event["sequence"], &event["run_id"]),
                (&Value::from(sequence), &Value::from(run.as_str()))
            );
        }
        assert_eq!(&events, &joined[run], "the feed keeps the order of a run");
    }
    let runs: Vec<&str> = feed.iter().map(|event| if event.contains(&one) { "1" } else { "2" }).collect();
    assert_eq!(runs.join(""), format!("12{}", "122".repeat(10)), "commit order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_skipped_while_64_producers_write() {
    let folder = tempfile::tempdir().unwrap();
    for context in [TestContext::memory().await, TestContext::sqlite(folder.path()).await] {
        let shared = context.new_run().await;
        let own: Vec<String> = join_all((0..32).map(|_| context.new_run())).await;
        let mut live = context.listen("/v1/events/stream").await;
        let mut of_shared = context.listen(&format!("/v1/runs/{shared}/events")).await;
        let rounds = 8;
        let total = 33 + 64 * rounds;
        let writers = join_all((0..64).map(|number| {
            let (context, shared, own) = (&context, &shared, &own);
            async move {
                // Half of them share one run, the others have their own.
                let run = if number % 2 == 0 { shared } else { &own[number / 2] };
                for seq in 0..rounds {
                    let data = format!(r#"{{"text":"{number} {seq}"}}"#);
                    let body = batch(&format!("p{number}"), 3, seq as u64, &[("user.message", &data)]);
                    let reply = context.post(&format!("/v1/runs/{run}/events"), &body).await;
                    assert_eq!(reply.status, 200, "{}", reply.text());
                    let receipt = reply.data();
                    // The acknowledged event is at the returned position.
                    let at = receipt["position"].as_i64().unwrap() - 1;
                    let page = context.get(&format!("/v1/events?after_position={at}&limit=1")).await;
                    let found: Value = serde_json::from_str(&elements(page.text())[0]).unwrap();
                    assert_eq!(found["data"]["text"], format!("{number} {seq}"));
                    assert_eq!(found["sequence"], receipt["last_sequence"]);
                }
            }
        }));
        // A poller that continues from its cursor as fast as it can.
        let poller = async {
            let (mut after, mut seen) = (0, Vec::new());
            while seen.len() < total {
                let reply = context.get(&format!("/v1/events?after_position={after}&limit=17")).await;
                seen.extend(elements(reply.text()));
                after = reply.json()["next"].as_u64().unwrap_or_else(|| panic!("{}", reply.text()));
            }
            seen
        };
        let listener = async {
            let mut seen = Vec::new();
            while seen.len() < total {
                seen.push(live.event().await.expect("the feed continues"));
            }
            seen
        };
        let run_listener = async {
            let mut seen = Vec::new();
            while seen.len() < 1 + 32 * rounds {
                seen.push(of_shared.event().await.expect("the run continues"));
            }
            seen
        };
        let (_, polled, received, of_run) = tokio::join!(writers, poller, listener, run_listener);
        let whole = context.envelopes("/v1/events").await;
        assert_eq!(polled, whole);
        let numbered = |from: u64, events: Vec<String>| (from..).zip(events).collect::<Vec<_>>();
        assert_eq!(received, numbered(1, whole));
        assert_eq!(of_run, numbered(0, context.envelopes(&format!("/v1/runs/{shared}/events")).await));
        for run in &own {
            let events = context.envelopes(&format!("/v1/runs/{run}/events")).await;
            assert_eq!(events.len(), 1 + rounds);
        }
        assert_eq!(context.running.stop().await, 0);
    }
}
