//! Captures over connections that end, hang, reconnect and repeat events.

use std::io;
use std::time::Duration;

use recount_aaep_kit::World;
use recount_aaep_kit::aaep::session::{Checker, Options};
use recount_aaep_kit::aaep::wire::Decision;
use recount_aaep_kit::capture::{
    CaptureError, CaptureNotice, CapturePlan, CaptureSink, CaptureSummary, EndReason, Filter, capture,
};
use recount_aaep_kit::link::call::Caller;
use recount_aaep_kit::link::{Dial, Framing, LinkError, Target};
use recount_aaep_kit::recording::{Direction, Stamp};
use recount_aaep_kit::scenario::Scenario;
use recount_aaep_kit::scripted::{Behaviour, Scripted};
use tokio::sync::Notify;

use crate::producer::{STREAM, Server, TEST_TIMEOUT, dial, response, write};

const REQUEST: &str = r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"t","capabilities":{"supports_confirmation_reply":true,"supported_conformance_levels":[1,2,3]}}"#;
const PROMPT: &str = r#"{"type":"aaep:agent.awaiting.confirmation","event_id":"evt_1","session_id":"sess_1","reply_token":"rpl_1"}"#;

/// Stores lines: direction, connection, text.
#[derive(Default)]
struct MemorySink(Vec<(Direction, u64, String)>);

impl CaptureSink for MemorySink {
    fn put(&mut self, text: &str, direction: Direction, stamp: &Stamp<'_>) -> io::Result<()> {
        self.0.push((direction, stamp.connection, text.to_owned()));
        Ok(())
    }
}

fn plan(dial: Dial) -> CapturePlan {
    CapturePlan {
        dial,
        timeout: Some(TEST_TIMEOUT),
        max_events: None,
        filter: Filter::default(),
        reconnect: true,
        auto: None,
    }
}

async fn record(
    plan: &CapturePlan,
) -> (Result<CaptureSummary, CaptureError>, Vec<(Direction, u64, String)>, Vec<String>) {
    let (mut stored, mut notices) = (MemorySink::default(), Vec::new());
    let mut notify = |what: CaptureNotice<'_>| notices.push(format!("{what:?}"));
    let ended = capture(&World::real(), plan, &mut stored, &mut notify, std::future::pending()).await;
    (ended, stored.0, notices)
}

fn event(number: u32) -> String {
    format!(r#"{{"type":"aaep:agent.state.changed","event_id":"evt_{number}"}}"#)
}

fn texts(stored: &[(Direction, u64, String)]) -> Vec<&str> {
    stored.iter().map(|(_, _, text)| text.as_str()).collect()
}

#[tokio::test]
async fn an_ended_stream_is_resumed_without_duplicates() {
    let world = World::real();
    // R-008, R-143, R-149
    let server = Server::start(&world, |request, mut socket| async move {
        let text = match request.header("last-event-id") {
            None => format!("retry: 1\n\nid: evt_1\ndata: {}\n\nid: evt_2\ndata: {}\n\n", event(1), event(2)),
            // Nothing new, once: without a frame id, the event's own id counts.
            Some("evt_2") => format!("retry: 1\n\ndata: {}\n\ndata: {}\n\n", event(2), event(3)),
            Some("evt_3") => format!("retry: 1\n\ndata: {}\n\ndata: {}\n\n", event(1), event(4)),
            Some(other) => panic!("{other}"),
        };
        write(&mut socket, format!("{STREAM}{text}")).await;
    })
    .await;
    let plan = CapturePlan { max_events: Some(4), ..plan(dial(&server.http())) };
    let (ended, stored, notices) = record(&plan).await;
    let summary = ended.unwrap();
    assert!(matches!(summary.ended, EndReason::Enough), "{summary:?}");
    assert_eq!((summary.events, summary.repeated, summary.connections), (4, 2, 3));
    assert_eq!(texts(&stored), [1, 2, 3, 4].map(event));
    assert_eq!(stored.iter().map(|(_, connection, _)| *connection).collect::<Vec<_>>(), [1, 1, 2, 3]);
    assert!(stored.iter().all(|(direction, ..)| *direction == Direction::In));
    let lost: Vec<_> = notices.iter().filter(|notices| notices.starts_with("Lost")).collect();
    assert!(lost.len() == 2 && lost[0].contains("the producer ended the stream"), "{notices:?}");
}

#[tokio::test]
async fn another_event_under_an_id_that_was_used_is_kept() {
    let world = World::real();
    let other = event(1).replace("state.changed", "tool.invoked");
    let stream = format!("{STREAM}data: {}\n\ndata: {other}\n\ndata: {}\n\n", event(1), event(1));
    let server = Server::responding(&world, stream).await;
    let (ended, stored, _) = record(&CapturePlan { reconnect: false, ..plan(dial(&server.http())) }).await;
    let summary = ended.unwrap();
    assert!(matches!(summary.ended, EndReason::ByProducer), "{summary:?}");
    assert_eq!((summary.events, summary.repeated), (2, 1));
    assert_eq!(texts(&stored), [event(1), other]);
}

#[tokio::test]
async fn the_timeout_applies_without_messages() {
    let world = World::real();
    for answer in ["", STREAM] {
        let server = Server::start(&world, move |_, mut socket| async move {
            write(&mut socket, answer).await;
            std::future::pending::<()>().await;
        })
        .await;
        let plan = CapturePlan { timeout: Some(Duration::from_millis(150)), ..plan(dial(&server.http())) };
        let (ended, stored, _) = record(&plan).await;
        let summary = ended.unwrap();
        assert!(matches!(summary.ended, EndReason::TimedOut), "{summary:?}");
        assert!(stored.is_empty() && summary.took >= Duration::from_millis(150));
    }
}

#[tokio::test]
async fn a_capture_without_a_connection_fails_and_a_lost_one_ends_it() {
    let world = World::real();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed_port = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (ended, ..) = record(&plan(dial(&closed_port))).await;
    assert!(matches!(ended, Err(CaptureError::Link(LinkError::Unreachable { .. }))), "{ended:?}");

    let server = Server::responding(&world, format!("{STREAM}retry: 1\n\ndata: {}\n\n", event(1))).await;
    let (ended, stored, notices) = record(&plan(dial(&server.http()))).await;
    let summary = ended.unwrap();
    assert!(matches!(&summary.ended, EndReason::Lost(why) if why.contains("nothing new")), "{summary:?}");
    assert_eq!((stored.len(), summary.connections), (1, 6), "one of use, and five in vain: {notices:?}");

    let server = Server::responding(&world, response("404 Not Found", "", "")).await;
    let (ended, ..) = record(&plan(dial(&server.http()))).await;
    assert!(matches!(ended, Err(CaptureError::Link(LinkError::Refused { status: 404, .. }))), "{ended:?}");
    assert_eq!(server.seen().len(), 1, "a refused request is not repeated");
}

#[tokio::test]
async fn a_temporary_failure_is_retried() {
    let world = World::real();
    let count = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(&world, move |_, mut socket| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            let answer = match number {
                0 => format!("{STREAM}retry: 1\n\ndata: {}\n\n", event(1)),
                1 => response("503 Later", "", ""),
                2 => "nonsense".to_owned(),
                _ => format!("{STREAM}data: {}\n\n", event(2)),
            };
            write(&mut socket, answer).await;
        }
    })
    .await;
    let (ended, stored, notices) =
        record(&CapturePlan { max_events: Some(2), ..plan(dial(&server.http())) }).await;
    assert!(matches!(ended.unwrap().ended, EndReason::Enough), "{notices:?}");
    assert_eq!(stored.len(), 2);
    assert!(notices.iter().any(|notices| notices.contains("503")), "{notices:?}");
}

#[tokio::test]
async fn filters_leave_events_out_and_nothing_else() {
    let world = World::real();
    let close = r#"{"type":"subscription.close","subscription_id":"sub_1"}"#;
    let control = r#"{"type":"ack","session_id":"sess_1"}"#;
    let critical = PROMPT.replace("\"reply_token\"", "\"urgency\":\"critical\",\"reply_token\"");
    let stream = [event(5).as_str(), "hello", "[1]", control, &critical, "{\"cut", close]
        .map(|text| format!("data: {text}\n\n"));
    let server = Server::responding(&world, format!("{STREAM}{}", stream.concat())).await;
    let filter = Filter { urgencies: vec!["critical".to_owned()], ..Filter::default() };
    let (ended, stored, notices) = record(&CapturePlan { filter, ..plan(dial(&server.http())) }).await;
    let summary = ended.unwrap();
    assert_eq!(texts(&stored), [control, &critical, close]);
    assert_eq!((summary.events, summary.lines, summary.filtered, summary.broken), (1, 3, 1, 3));
    assert!(matches!(summary.ended, EndReason::ByProducer), "a close is the end: {summary:?}");
    assert_eq!(notices.iter().filter(|notices| notices.starts_with("Broken")).count(), 3);
    assert_eq!(server.lines(), ["GET /events"], "R-091: nothing is answered unless configured");
}

#[tokio::test]
async fn prompts_are_answered_once_if_configured_and_the_reply_is_recorded() {
    let world = World::real();
    for (decision, word) in [(Decision::Reject, "reject"), (Decision::Accept, "accept")] {
        let question =
            r#"{"type":"aaep:agent.awaiting.clarification","event_id":"evt_2","reply_token":"rpl_2"}"#;
        let again = PROMPT.replace("evt_1", "evt_3");
        let foreign = PROMPT.replace("sess_1", "sess_2").replace("_1", "_9");
        let server = Server::start(&world, move |request, mut socket| {
            let stream =
                format!("data: {PROMPT}\n\ndata: {question}\n\ndata: {again}\n\ndata: {foreign}\n\n");
            async move {
                let get = request.line == "GET /events";
                let answer = if get { format!("{STREAM}{stream}") } else { response("204 No", "", "") };
                write(&mut socket, answer).await;
            }
        })
        .await;
        let filter = Filter {
            sessions: vec!["sess_1".to_owned()],
            types: vec!["state.changed".to_owned()],
            ..Filter::default()
        };
        let plan =
            CapturePlan { auto: Some(decision), filter, reconnect: false, ..plan(dial(&server.http())) };
        let (ended, stored, notices) = record(&plan).await;
        assert_eq!(
            ended.unwrap().answered,
            1,
            "once a prompt, and only in the session that is wanted: {notices:?}"
        );
        let replies: Vec<_> =
            server.seen().into_iter().filter(|request| request.line == "POST /messages").collect();
        assert_eq!(replies.len(), 1);
        assert_eq!(stored, [(Direction::Out, 1, replies[0].body.clone())]);
        let mut checker = Checker::new(Options { events_only: true, ..Options::default() });
        checker.text(1, &replies[0].body);
        checker.finish();
        assert!(checker.take().is_empty(), "it is right: {}", replies[0].body);
        for part in [format!(r#""decision":"{word}""#), r#""reply_token":"rpl_1""#.to_owned()] {
            assert!(replies[0].body.contains(&part), "{}", replies[0].body);
        }
        assert!(notices.iter().any(|notices| notices.starts_with("Unanswered")), "{notices:?}");
    }
}

#[tokio::test]
async fn a_handshake_is_recorded_with_its_response_and_the_subscription_is_closed() {
    let world = World::real();
    let accepted = r#"{"type":"subscription.accepted","subscription_id":"sub_1"}"#;
    let count = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(&world, move |request, mut socket| {
        let streams = request.line.starts_with("GET");
        let number = if streams { count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) } else { 0 };
        async move {
            let answer = match (request.line.as_str(), number) {
                ("POST /aaep/v1/subscriptions", _) => response("201 Created", "", accepted),
                (_, 0) if streams => format!("{STREAM}retry: 1\n\nid: evt_1\ndata: {}\n\n", event(1)),
                // The subscription is forgotten; the next connection needs a new one.
                (_, 1) if streams => response("410 Gone", "", ""),
                _ if streams => {
                    assert_eq!(request.header("last-event-id"), Some("evt_1"));
                    format!("{STREAM}id: evt_2\ndata: {}\n\n", event(2))
                }
                _ => response("204 No Content", "", ""),
            };
            write(&mut socket, answer).await;
        }
    })
    .await;
    let dial = Dial { request: Some(REQUEST.to_owned()), ..dial(&format!("{}/aaep/v1", server.http())) };
    let (ended, stored, notices) = record(&CapturePlan { max_events: Some(2), ..plan(dial) }).await;
    assert!(matches!(ended.unwrap().ended, EndReason::Enough), "{notices:?}");
    let stored: Vec<_> =
        stored.iter().map(|(direction, connection, text)| (*direction, *connection, text.as_str())).collect();
    let (first, second) = (event(1), event(2));
    let expected = [
        (Direction::Out, 1, REQUEST),
        (Direction::In, 1, accepted),
        (Direction::In, 1, first.as_str()),
        (Direction::Out, 2, REQUEST),
        (Direction::In, 2, accepted),
        (Direction::In, 2, second.as_str()),
    ];
    assert_eq!(stored[..6], expected);
    // R-130
    assert!(
        stored.len() == 7 && stored[6].0 == Direction::Out && stored[6].2.contains("subscription.close"),
        "{stored:?}"
    );
    assert_eq!(server.lines().last().unwrap(), "POST /aaep/v1/replies");
}

#[tokio::test]
async fn a_rejection_is_recorded_and_is_the_end() {
    let world = World::real();
    let rejected = r#"{"type":"subscription.rejected","reason_code":"rate_limit","reason_message":"later"}"#;
    let server = Server::responding(&world, response("429 Later", "", rejected)).await;
    let dial = Dial { request: Some(REQUEST.to_owned()), ..dial(&format!("{}/aaep/v1", server.http())) };
    let (ended, stored, _) = record(&plan(dial)).await;
    assert!(matches!(ended.unwrap().ended, EndReason::Rejected(answer) if answer == rejected));
    assert_eq!(texts(&stored), [REQUEST, rejected]);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_command_is_recorded_until_it_ends_or_dies() {
    let command = |script: String| {
        let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
        plan(Dial::to(Target::Command { argv, framing: Framing::Lines }))
    };
    let (ended, stored, _) = record(&command(format!("echo '{}'", event(1)))).await;
    assert!(matches!(ended.unwrap().ended, EndReason::ByProducer) && stored.len() == 1);
    for death in ["exit 3", "printf '{'; kill -9 $$"] {
        let (ended, stored, _) = record(&command(format!("echo '{}'; {death}", event(1)))).await;
        let ended = ended.unwrap().ended;
        assert!(matches!(ended, EndReason::Lost(_)) && stored.len() == 1, "{death}: {ended:?}");
    }
}

#[tokio::test]
async fn a_capture_stops_at_once_and_a_full_disk_ends_it() {
    let world = World::real();
    let server = Server::start(&world, |_, mut socket| async move {
        write(&mut socket, format!("{STREAM}data: {}\n\n", event(1))).await;
        std::future::pending::<()>().await;
    })
    .await;
    let (stop, mut stored) = (Notify::new(), MemorySink::default());
    let plan = plan(dial(&server.http()));
    let mut notify = |notice: CaptureNotice<'_>| {
        if matches!(notice, CaptureNotice::Connected { connection: 1, subscription: None }) {
            stop.notify_one();
        }
    };
    let ended = capture(&world, &plan, &mut stored, &mut notify, stop.notified()).await.unwrap();
    assert!(matches!(ended.ended, EndReason::Stopped), "{ended:?}");

    struct Full;
    impl CaptureSink for Full {
        fn put(&mut self, _: &str, _: Direction, _: &Stamp<'_>) -> io::Result<()> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
    }
    let ended = capture(&world, &plan, &mut Full, &mut |_| {}, std::future::pending()).await;
    assert!(matches!(ended, Err(CaptureError::Write(_))), "{ended:?}");
}

#[tokio::test]
async fn a_valid_producer_is_recorded_without_findings_on_every_surface() {
    let world = World::real();
    let producer =
        Scripted::start(&world, Behaviour { timeout_seconds: 30, ..Behaviour::default() }).await.unwrap();
    let base = producer.base().to_owned();
    let socket = base.replace("http://", "ws://");
    for (target, shakes) in [
        (base.clone(), false),
        (base.clone(), true),
        (format!("{base}/aaep/v1"), true),
        (format!("{socket}/ws"), false),
        (format!("{socket}/ws"), true),
        (format!("{socket}/aaep/v1/ws"), true),
    ] {
        let dial = Dial { request: shakes.then(|| REQUEST.to_owned()), ..dial(&target) };
        let plan = CapturePlan { auto: Some(Decision::Accept), filter: Filter::default(), ..plan(dial) };
        let (stop, mut stored) = (Notify::new(), MemorySink::default());
        let connected = Notify::new();
        let mut notify = |notice: CaptureNotice<'_>| match notice {
            CaptureNotice::Connected { .. } => connected.notify_one(),
            notice => println!("{notice:?}"),
        };
        let drive = async {
            connected.notified().await;
            let caller = Caller::new(&base, None, TEST_TIMEOUT).unwrap();
            let input = serde_json::json!({"kind": "user_input", "text": Scenario::Irreversible.text()});
            caller.post(&format!("{base}/messages"), input.to_string().as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        };
        struct Until<'u>(&'u mut MemorySink, &'u Notify);
        impl CaptureSink for Until<'_> {
            fn put(&mut self, text: &str, direction: Direction, stamp: &Stamp<'_>) -> io::Result<()> {
                self.0.put(text, direction, stamp)?;
                if text.contains("aaep:agent.session.completed") {
                    self.1.notify_one();
                }
                Ok(())
            }
        }
        let mut keep = Until(&mut stored, &stop);
        let summary = tokio::select! {
            summary = capture(&world, &plan, &mut keep, &mut notify, stop.notified()) => summary.unwrap(),
            () = drive => unreachable!(),
        };
        assert!(matches!(summary.ended, EndReason::Stopped), "{target}: {summary:?}");
        assert_eq!(summary.answered, 1, "{target}");
        let mut checker = Checker::new(Options::default());
        for (number, (_, _, text)) in stored.0.iter().enumerate() {
            checker.text(number + 1, text);
        }
        checker.finish();
        let found: Vec<_> = checker
            .take()
            .iter()
            .filter(|finding| finding.rule.id != "prompt.timeout_advice")
            .map(ToString::to_string)
            .collect();
        assert!(found.is_empty(), "{target} {shakes}: {found:#?}\n{:#?}", stored.0);
        let has_close = stored.0.last().unwrap().2.contains("subscription.close");
        assert_eq!(has_close, shakes, "{target}");
    }
    producer.stop().await;
}
