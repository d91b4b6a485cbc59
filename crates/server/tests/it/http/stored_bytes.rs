//! Stored bytes: an event has the same bytes in every read.

use recount_server::verify::Checker;
use serde_json::Value;

use crate::test_context::{PREFIXES, STORY, TestContext, elements};
use crate::wire::events;

/// Data as a producer may send it, and as it is stored: only white space outside strings is removed.
const ODD: &[(&str, &str)] = &[
    (r#"{ "b" : 1 , "a" : 2 }"#, r#"{"b":1,"a":2}"#),
    ("{\n\t\"deep\": [ 1, [ 2, [ ] ], { } ]\r\n}", r#"{"deep":[1,[2,[]],{}]}"#),
    (r#"{"n":[1.0,1.00,1e2,1E+2,-0,-0.0,0.1e-7,123456789012345.678901234567890]}"#, ""),
    (r#"{"n":9007199254740991,"m":-9007199254740991}"#, ""),
    (r#"{"s":"\u0041\u00e9\/\"\\\b\f\n\r\t"}"#, ""),
    (r#"{"s":"\uD83D\uDE00 and 😀 and \ud83d\ude00"}"#, ""),
    (r#"{"s":"  two  spaces\u0020 \u2028 kept"}"#, ""),
    ("{\"s\":\"\u{2028}\u{2029}\u{85}\u{feff}\u{7f}\"}", ""),
    (r#"{"s":"\u0000 is a character like any other"}"#, ""),
    (r#"{"data: x":"id: 7","event":"caught_up","":{"":""}}"#, ""),
    (r#"{"zz":null,"a":true,"é":false,"A":"ß"}"#, ""),
];

/// Creates a run with a story and odd data.
async fn odd_run(context: &TestContext) -> String {
    let run = context.new_run().await;
    let mut events = vec![STORY[0]];
    events.extend(ODD.iter().map(|(sent, _)| ("ext.odd.data", *sent)));
    events.extend_from_slice(&STORY[1..]);
    context.report(&run, 0, &events).await;
    run
}

/// The raw envelopes of a run from every kind of read.
async fn readings(context: &TestContext, run: &str) -> Vec<(String, Vec<String>)> {
    let mut readings = Vec::new();
    for prefix in PREFIXES {
        let path = format!("{prefix}/runs/{run}/events");
        readings.push((
            format!("{path} whole"),
            elements(context.get(&format!("{path}?limit=1000")).await.text()),
        ));
        let mut paged = Vec::new();
        for after in -1..40 {
            let reply = context.get(&format!("{path}?after_sequence={after}&limit=1")).await;
            if reply.status == 200 {
                paged.extend(elements(reply.text()));
            }
        }
        readings.push((format!("{path} one by one"), paged));
        let (frames, _) = context.listen(&path).await.all().await;
        readings
            .push((format!("{path} stream"), events(&frames).into_iter().map(|(_, data)| data).collect()));
        let feed = format!("{prefix}/events?limit=1000");
        readings.push((feed.clone(), elements(context.get(&feed).await.text())));
        let frames = context.listen(&format!("{prefix}/events/stream")).await.until_caught_up().await;
        readings.push((
            format!("{prefix}/events/stream"),
            events(&frames).into_iter().map(|(_, data)| data).collect(),
        ));
    }
    readings
}

#[tokio::test]
async fn every_reading_is_the_same_bytes_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    // Received live, before anything is read from the store.
    let mut live = context.listen("/v1/events/stream").await;
    live.until_caught_up().await;
    let run = odd_run(&context).await;
    let mut received = Vec::new();
    for _ in 0..=STORY.len() + ODD.len() {
        received.push(live.event().await.unwrap().1);
    }
    let before = readings(&context, &run).await;
    let digest = context.get(&format!("/v1/runs/{run}/digest")).await.text().to_owned();
    assert_eq!(context.running.stop().await, 0);
    let context = TestContext::sqlite(folder.path()).await;
    let after = readings(&context, &run).await;
    for (name, reading) in before.iter().chain(&after) {
        assert_eq!(reading, &received, "{name}");
    }
    assert_eq!(context.get(&format!("/v1/runs/{run}/digest")).await.text(), digest);
    // The digest covers exactly these bytes, and they follow the grammar.
    let mut checker = Checker::new(&run);
    for envelope in &received {
        checker.event(envelope.as_bytes()).unwrap();
    }
    let report = checker.finish(None);
    let digest: Value = serde_json::from_str(&digest).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(
        (&digest["data"]["head"], &digest["data"]["events"]),
        (&report.head.into(), &report.events.into())
    );
    assert_eq!(digest["data"]["algorithm"], "recount.run.v1");
    context.running.stop().await;
}

#[tokio::test]
async fn data_is_kept_token_for_token() {
    let context = TestContext::memory().await;
    let run = odd_run(&context).await;
    let events = context.envelopes(&format!("/v1/runs/{run}/events")).await;
    let odd_events = events.iter().filter(|event| event.contains(r#""type":"ext.odd.data""#));
    let data: Vec<&str> = odd_events
        .map(|event| event.split_once(r#""data":"#).unwrap().1.strip_suffix('}').unwrap())
        .collect();
    let expected: Vec<&str> =
        ODD.iter().map(|(sent, kept)| if kept.is_empty() { *sent } else { *kept }).collect();
    assert_eq!(data, expected);
}

/// The keys of an envelope in their order, without parsing the values.
fn keys(envelope: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut rest = envelope.strip_prefix('{').unwrap();
    loop {
        let (key, after) = rest.strip_prefix('"').unwrap().split_once("\":").unwrap();
        keys.push(key.to_owned());
        if key == "data" {
            return keys;
        }
        rest = after.split_once(',').unwrap().1;
    }
}

#[tokio::test]
async fn envelopes_have_their_keys_in_order_and_times_that_do_not_fall() {
    let context = TestContext::memory().await;
    let task = context.post("/v1/tasks", "{}").await.data()["id"].as_str().unwrap().to_owned();
    let chat = context.post("/v1/sessions", "{}").await.data()["id"].as_str().unwrap().to_owned();
    let made = |extra: &str| format!(r#"{{"kind":"external"{extra}}}"#);
    for (extra, optional) in [
        (String::new(), vec![]),
        (format!(r#","session_id":"{chat}""#), vec!["session_id"]),
        (format!(r#","task_id":"{task}","session_id":"{chat}""#), vec!["task_id", "session_id"]),
    ] {
        let run = context.post("/v1/runs", &made(&extra)).await.data()["id"].as_str().unwrap().to_owned();
        context.report(&run, 0, &STORY[..3]).await;
        context.report(&run, 1, &STORY[3..]).await;
        let mut expected = vec!["schema_version", "event_id", "run_id"];
        expected.extend(optional);
        expected.extend(["sequence", "occurred_at", "type", "data"]);
        let (mut last_time, mut last_id) = (String::new(), String::new());
        for (sequence, envelope) in
            context.envelopes(&format!("/v1/runs/{run}/events")).await.iter().enumerate()
        {
            assert_eq!(keys(envelope), expected, "{envelope}");
            let event: Value = serde_json::from_str(envelope).unwrap();
            assert_eq!((&event["schema_version"], &event["sequence"]), (&"1".into(), &sequence.into()));
            let time = event["occurred_at"].as_str().unwrap().to_owned();
            let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
            assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{envelope}");
            let id = event["event_id"].as_str().unwrap().to_owned();
            assert!(time >= last_time && id > last_id, "{envelope}");
            (last_time, last_id) = (time, id);
            assert!(!envelope.contains(['\n', '\r']), "{envelope}");
        }
    }
}

#[tokio::test]
async fn times_do_not_fall_when_the_clock_does() {
    let clock = std::sync::Arc::new(recount_world::ManualClock::at(1_800_000_000_000));
    let world = recount_world::World { clock: clock.clone(), ..recount_world::World::real() };
    let store = std::sync::Arc::new(recount_log::MemoryStore::new());
    let running = recount_server::Running::start(store, world, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let context = TestContext { address: running.address, running };
    let run = context.new_run().await;
    context.report(&run, 0, &STORY[..1]).await;
    clock.set(1_700_000_000_000);
    context.report(&run, 1, &STORY[1..3]).await;
    clock.set(1_800_000_000_001);
    context.report(&run, 2, &STORY[3..4]).await;
    let events = context.envelopes(&format!("/v1/runs/{run}/events")).await;
    let times: Vec<String> = events
        .iter()
        .map(|event| {
            serde_json::from_str::<Value>(event).unwrap()["occurred_at"].as_str().unwrap().to_owned()
        })
        .collect();
    let (first, last) = ("2027-01-15T08:00:00.000Z", "2027-01-15T08:00:00.001Z");
    assert_eq!(times, [first, first, first, first, last]);
}
