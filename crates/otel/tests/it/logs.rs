//! Followers that send log records to a real HTTP server: what it gets while runs are open, ids of spans, contents, outages,
//! restarts, crashes and refusals.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::HeaderMap;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use proptest::prelude::*;
use prost::Message as _;
use recount_event::{Event, codec};
use recount_otel::ids::Origin;
use recount_otel::project::records::{RunRecords, is_exported};
use recount_otel::{Endpoint, ExportSettings};
use recount_run_generator::own_run;

use crate::properties::spans;
use crate::receiver::{Receiver, records_of, text_of};
use crate::scene::{Scene, ending, settings, until};
use crate::stories::{stories, story};

/// Only logs.
fn logs(url: &str) -> ExportSettings {
    let endpoint = Endpoint::parse(url).unwrap().for_logs();
    ExportSettings { traces: None, logs: Some(endpoint), ..settings(url) }
}

fn text(record: &LogRecord, key: &str) -> Option<String> {
    text_of(&record.attributes, key)
}

/// As a backend that knows `log.record.uid` keeps them.
fn kept(receiver: &Receiver) -> BTreeMap<String, LogRecord> {
    let records = receiver.records().into_iter();
    records.map(|record| (text(&record, "log.record.uid").unwrap(), record)).collect()
}

fn names(receiver: &Receiver, run: &str) -> Vec<String> {
    let records = receiver.records().into_iter();
    let of_run = records.filter(|record| text(record, "recount.run.id").as_deref() == Some(run));
    of_run.map(|record| record.event_name).collect()
}

/// The records of a whole run that belongs to no other trace, as the other side reads them.
fn projected(events: &[Event], contents: bool) -> Vec<LogRecord> {
    let run = events[0].run_id;
    let mut records = RunRecords::new(Origin::of(run, None, None).trace);
    let exported = events.iter().filter(|event| is_exported(event.type_name()));
    let bytes = exported.map(|event| records.record(event, contents).encode_to_vec());
    bytes.map(|bytes| LogRecord::decode(bytes.as_slice()).unwrap()).collect()
}

#[tokio::test]
async fn events_arrive_while_their_run_is_open() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    scene.short_run().await;
    scene.export(logs(&receiver.url())).await;
    let run = scene.start().await;
    let call = r#"{"tool_call_id":"c1","tool_name":"shell_exec"}"#.to_owned();
    let failed = r#"{"tool_call_id":"c1","tool_name":"shell_exec","error":"no such file","code":"exit"}"#;
    scene
        .report(
            run,
            0,
            &[
                ("run.started", "{}".into()),
                ("turn.started", r#"{"turn_index":0,"model":"m","provider":"p"}"#.into()),
                ("assistant.text_delta", r#"{"turn_index":0,"block_index":0,"delta":"Hi"}"#.into()),
                ("assistant.text_complete", r#"{"turn_index":0,"block_index":0,"text":"Hi"}"#.into()),
                ("turn.completed", r#"{"turn_index":0,"stop_reason":"tool_use","input_tokens":7}"#.into()),
                ("tool.invoked", call),
                ("tool.failed", failed.into()),
            ],
        )
        .await;
    let run = run.to_string();
    let expected = [
        "run.queued",
        "run.started",
        "turn.started",
        "assistant.text_complete",
        "turn.completed",
        "tool.invoked",
        "tool.failed",
    ];
    until("all arrive", || names(&receiver, &run).len() >= expected.len()).await;
    assert_eq!(names(&receiver, &run), expected, "no piece of text, and the run is open");
    assert_eq!(receiver.records().len(), expected.len(), "nothing of the run before");

    let records = receiver.records();
    let failed = &records[6];
    assert_eq!((failed.severity_number, &*failed.severity_text), (17, "ERROR"));
    assert_eq!(text(failed, "error.type").as_deref(), Some("exit"));
    assert_eq!(text(failed, "gen_ai.tool.name").as_deref(), Some("shell_exec"));
    assert_eq!(text(failed, "recount.sequence").as_deref(), Some("IntValue(7)"));
    assert_eq!(text(failed, "error.message"), None, "it is contents");
    let body = failed.body.as_ref().unwrap().value.as_ref().unwrap();
    assert_eq!(format!("{body:?}"), r#"StringValue("tool.failed shell_exec: exit")"#);
    assert!(failed.time_unix_nano > 0 && failed.time_unix_nano == failed.observed_time_unix_nano);
    assert_eq!(text(&records[4], "gen_ai.usage.input_tokens").as_deref(), Some("IntValue(7)"));
    assert_eq!((records[4].severity_number, &*records[4].severity_text), (9, "INFO"));

    let (headers, request): (HeaderMap, ExportLogsServiceRequest) = receiver.log_requests().remove(0);
    assert_eq!(headers["authorization"], "Bearer a-long-secret");
    let resource = request.resource_logs[0].resource.as_ref().unwrap();
    assert_eq!(text_of(&resource.attributes, "recount.tenant").as_deref(), Some("acme"));
    until("they are counted", || scene.figures().logs.sent == expected.len() as u64).await;
    assert_eq!(scene.figures().traces.sent, 0);
    scene.engine.shutdown().await;
}

/// The trace comes later, so its ids are known only by derivation.
fn check_ids(name: &str, events: &[Event]) {
    let spans = spans(events, true);
    let ids: BTreeSet<&[u8]> = spans.iter().map(|span| span.span_id.as_slice()).collect();
    let records = projected(events, true);
    let exported = events.iter().filter(|event| is_exported(event.type_name())).count();
    assert_eq!(records.len(), exported, "{name}");
    for record in &records {
        let event = &record.event_name;
        assert_eq!(record.trace_id, spans[0].trace_id, "{name}: {event}");
        assert!(ids.contains(record.span_id.as_slice()), "{name}: {event} is in no span");
        let keys: BTreeSet<&str> = record.attributes.iter().map(|there| there.key.as_str()).collect();
        assert_eq!(keys.len(), record.attributes.len(), "{name}: {:?}", record.attributes);
    }
    // A turn that fails and is repeated has two spans.
    let named = |event: &str, title: &str| {
        let of_records = records.iter().filter(|record| record.event_name == event);
        let of_spans = spans.iter().filter(|span| span.name.split(' ').next() == Some(title));
        let records: BTreeSet<&[u8]> = of_records.map(|record| record.span_id.as_slice()).collect();
        let spans: BTreeSet<&[u8]> = of_spans.map(|span| span.span_id.as_slice()).collect();
        assert_eq!(records, spans, "{name}: {event}");
    };
    named("turn.started", "chat");
    named("run.queued", "invoke_agent");
}

#[test]
fn every_record_of_a_story_is_in_a_span_of_its_run() {
    for (name, events) in stories() {
        check_ids(&name, &events);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(u32::try_from(recount_tier::times(200)).unwrap_or(u32::MAX))
    })]

    #[test]
    fn every_record_of_a_run_is_in_a_span_of_its_run(
        numbers in proptest::collection::vec(any::<u16>(), 0..400)
    ) {
        let stored = own_run(&numbers).iter().map(codec::encode).collect::<Vec<_>>();
        let events: Vec<Event> = stored.iter().map(|bytes| codec::decode(bytes).unwrap()).collect();
        check_ids("generated", &events);
    }
}

#[test]
fn contents_are_in_records_only_if_they_are_exported() {
    let events = story("approval-granted");
    let (with, without) = (projected(&events, true), projected(&events, false));
    let keys = |records: &[LogRecord]| -> BTreeSet<String> {
        records.iter().flat_map(|record| &record.attributes).map(|there| there.key.clone()).collect()
    };
    let more: BTreeSet<String> = keys(&with).difference(&keys(&without)).cloned().collect();
    for key in ["gen_ai.input.messages", "gen_ai.tool.call.arguments", "agent.approval.question"] {
        assert!(more.contains(key), "{key}: {more:?}");
    }
    for (name, events) in stories() {
        let texts = crate::properties::texts(&events);
        for record in projected(&events, false) {
            let values = record.attributes.iter().filter_map(|there| there.value.clone()).chain(record.body);
            for value in values.filter_map(|value| value.value) {
                let Value::StringValue(value) = value else { continue };
                let leaked = texts.iter().find(|text| value.contains(text.as_str()));
                assert_eq!(leaked, None, "{name}: {} has contents", record.event_name);
            }
        }
    }
}

#[test]
fn long_texts_are_cut_as_in_spans() {
    let mut events = story("plain-answer");
    let long = "long ".repeat(20_000);
    let bytes = events.iter().map(|event| String::from_utf8(codec::encode(event)).unwrap());
    let data = format!(r#"{{"turn_index":0,"block_index":0,"text":"{long}"}}"#);
    let at = bytes.into_iter().position(|text| text.contains("assistant.text_complete")).unwrap();
    events[at].body = recount_event::door::draft("assistant.text_complete", &data).unwrap();
    let records = projected(&events, true);
    let record = records.iter().find(|record| record.event_name == "assistant.text_complete").unwrap();
    assert_eq!(text(record, "recount.contents_cut").as_deref(), Some("BoolValue(true)"));
    let message = text(record, "gen_ai.output.messages").unwrap();
    assert!((30_000..40_000).contains(&message.len()), "{}", message.len());
}

/// The messages of opentelemetry-proto read every field, and write the same bytes.
#[test]
fn the_protobuf_of_records_is_that_of_opentelemetry() {
    for (name, events) in stories() {
        let mut records = RunRecords::new(Origin::of(events[0].run_id, None, None).trace);
        for event in &events {
            let ours = records.record(event, true);
            let bytes = ours.encode_to_vec();
            let theirs = LogRecord::decode(bytes.as_slice()).unwrap();
            assert!(theirs.encode_to_vec() == bytes, "{name}");
            assert_eq!((&theirs.event_name, &theirs.span_id), (&ours.event_name, &ours.span_id));
            assert_eq!(theirs.observed_time_unix_nano, ours.observed_time_unix_nano);
        }
    }
}

#[tokio::test]
async fn an_outage_of_the_endpoint_for_logs_loses_nothing_and_stops_no_traces() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    receiver.refuse_logs(Some(503));
    let both = ExportSettings { traces: settings(&receiver.url()).traces, ..logs(&receiver.url()) };
    scene.export(both).await;
    let run = scene.short_run().await.to_string();
    until("the outage is noticed", || scene.figures().logs.failing.is_some()).await;
    until("the trace arrives", || receiver.runs() == [run.clone()]).await;
    assert_eq!(scene.figures().traces.failing, None);
    let other = scene.short_run().await.to_string();
    assert!(receiver.records().is_empty());
    receiver.refuse_logs(None);
    for run in [&run, &other] {
        until("its events arrive", || names(&receiver, run).len() == 3).await;
        assert_eq!(names(&receiver, run), ["run.queued", "run.started", "run.finished"]);
    }
    until("it is over", || scene.figures().logs.failing.is_none()).await;
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn after_a_restart_logs_continue_in_the_same_spans() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    scene.export(logs(&receiver.url())).await;
    let run = scene.start().await;
    let started = |index: u64| ("turn.started", format!(r#"{{"turn_index":{index}}}"#));
    let failed = r#"{"turn_index":0,"code":"overloaded","message":"later","will_retry":true}"#;
    scene.report(run, 0, &[("run.started", "{}".into()), started(0), ("turn.failed", failed.into())]).await;
    until("they arrive", || receiver.records().len() == 4).await;
    assert_eq!(receiver.records()[3].severity_text, "WARN", "it is repeated");
    scene.stop_and_start().await;
    assert_eq!(scene.cursor_of("otel_logs").await, 4);

    let completed = r#"{"turn_index":0,"stop_reason":"end_turn"}"#;
    scene.report(run, 1, &[started(0), ("turn.completed", completed.into()), ending()]).await;
    scene.export(logs(&receiver.url())).await;
    until("the rest arrives", || receiver.records().len() == 7).await;
    let records = receiver.records();
    let attempts: Vec<_> = records.iter().map(|record| text(record, "recount.turn.attempt")).collect();
    let second = Some("IntValue(1)".to_owned());
    assert_eq!(attempts, [None, None, None, None, second.clone(), second, None]);
    assert_ne!(records[2].span_id, records[4].span_id);
    assert_eq!(records[4].span_id, records[5].span_id);
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn a_crash_repeats_records_with_the_same_ids() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    scene.export(logs(&receiver.url())).await;
    let events = story("parallel-tools");
    scene.import(&events).await;
    let exported = events.iter().filter(|event| is_exported(event.type_name())).count();
    until("it arrives", || receiver.records().len() == exported).await;
    let before = kept(&receiver);
    scene.crash().await;
    scene.export(logs(&receiver.url())).await;
    let run = scene.short_run().await.to_string();
    until("the other run arrives", || names(&receiver, &run).len() == 3).await;
    let after = kept(&receiver);
    assert_eq!(after.len(), before.len() + 3, "repeated records have the id of the first");
    assert!(before.iter().all(|(id, record)| after[id] == *record));
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn rejected_records_are_counted_and_the_others_arrive() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    receiver.refuse_logs_with("tool.started");
    scene.export(logs(&receiver.url())).await;
    let run = scene.start().await;
    let call = r#"{"tool_call_id":"c1","tool_name":"t"}"#;
    scene
        .report(
            run,
            0,
            &[("run.started", "{}".into()), ("tool.invoked", call.into()), ("tool.started", call.into())],
        )
        .await;
    until("the drop is counted", || scene.figures().logs.rejected == 1).await;
    until("the others arrive", || receiver.records().len() == 3).await;
    assert_eq!(names(&receiver, &run.to_string()), ["run.queued", "run.started", "tool.invoked"]);
    receiver.reject_spans(1);
    scene.report(run, 1, &[("tool.completed", call.into())]).await;
    until("the partial reject is counted", || scene.figures().logs.rejected == 2).await;
    assert_eq!(scene.figures().logs.sent, 3);
    scene.engine.shutdown().await;
}

/// As Loki with its default limits: 422 for a request without records, 400 for one with an old record.
fn refuse_old(receiver: &Receiver, before_ms: u64) {
    receiver.answer_logs_by(move |request| {
        let times: Vec<u64> = records_of(request.clone()).map(|record| record.time_unix_nano).collect();
        let is_old = times.iter().any(|time| *time < before_ms * 1_000_000);
        if times.is_empty() { Some(422) } else { is_old.then_some(400) }
    });
}

#[tokio::test]
async fn records_that_are_too_old_for_the_endpoint_do_not_stop_later_ones() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    refuse_old(&receiver, scene.engine.world().clock.now_ms() - 60_000);
    scene.export(logs(&receiver.url())).await;
    let old = story("parallel-tools");
    scene.import(&old).await;
    let exported = old.iter().filter(|event| is_exported(event.type_name())).count() as u64;
    until("they are dropped", || scene.figures().logs.rejected == exported).await;
    let run = scene.short_run().await.to_string();
    until("the later run arrives", || names(&receiver, &run).len() == 3).await;
    until("it is counted", || scene.figures().logs.sent == 3).await;
    let figures = scene.figures().logs;
    assert_eq!((figures.rejected, figures.failing), (exported, None));
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn a_batch_that_is_refused_as_a_whole_costs_few_probes() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    receiver.refuse_logs_with("tool.invoked");
    let run = scene.start().await;
    let call = |at: u64| ("tool.invoked", format!(r#"{{"tool_call_id":"c{at}","tool_name":"t"}}"#));
    let calls: Vec<_> = (0..200).map(call).collect();
    scene.report(run, 0, &[vec![("run.started", "{}".into())], calls].concat()).await;
    scene.export(ExportSettings { history: true, ..logs(&receiver.url()) }).await;
    until("they are dropped", || scene.figures().logs.rejected == 200).await;
    assert_eq!(receiver.records().len(), 2);
    let (probes, refused) = (receiver.probes(), receiver.log_requests_refused());
    assert!((1..=4).contains(&probes) && refused <= 420, "{probes} probes, {refused} refused");
    scene.engine.shutdown().await;
}

/// An endpoint can begin to refuse everything while a bad record is looked for.
#[tokio::test]
async fn an_outage_within_a_batch_drops_no_good_records() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    let taken = std::sync::atomic::AtomicBool::new(false);
    receiver.answer_logs_by(move |request| {
        let is_bad = records_of(request.clone()).any(|record| record.event_name == "tool.started");
        let is_down = taken.load(std::sync::atomic::Ordering::SeqCst);
        taken.fetch_or(!is_bad, std::sync::atomic::Ordering::SeqCst);
        (is_bad || is_down).then_some(400)
    });
    let run = scene.start().await;
    let call = r#"{"tool_call_id":"c1","tool_name":"t"}"#;
    let events = ["tool.invoked", "tool.started", "tool.completed"].map(|name| (name, call.to_owned()));
    scene.report(run, 0, &[vec![("run.started", "{}".into())], events.to_vec()].concat()).await;
    scene.export(ExportSettings { history: true, ..logs(&receiver.url()) }).await;
    until("a part arrives, and the rest fails", || {
        !receiver.records().is_empty() && scene.figures().logs.failed_requests > 0
    })
    .await;
    assert_eq!(scene.figures().logs.rejected, 0, "nothing shows that records are bad");
    receiver.refuse_logs_with("tool.started");
    until("the others arrive", || receiver.records().len() == 4).await;
    let expected = ["run.queued", "run.started", "tool.invoked", "tool.completed"];
    assert_eq!(names(&receiver, &run.to_string()), expected);
    until("the bad one is dropped", || scene.figures().logs.rejected == 1).await;
    until("it is over", || scene.figures().logs.failing.is_none()).await;
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn history_exports_earlier_events_in_batches() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    let run = scene.start().await;
    scene.report(run, 0, &[("run.started", "{}".into())]).await;
    for seq in 1..=4 {
        let calls = (0..200).flat_map(|at| {
            let data = format!(r#"{{"tool_call_id":"c{seq}.{at}","tool_name":"t"}}"#);
            [("tool.invoked", data.clone()), ("tool.completed", data)]
        });
        scene.report(run, seq, &calls.collect::<Vec<_>>()).await;
    }
    scene.export(ExportSettings { history: true, ..logs(&receiver.url()) }).await;
    until("all arrive", || receiver.records().len() == 1_602).await;
    let sizes = receiver.log_requests().into_iter();
    let sizes = sizes.map(|(_, request)| request.resource_logs[0].scope_logs[0].log_records.len());
    let sizes: Vec<usize> = sizes.collect();
    assert!(sizes.iter().all(|size| *size <= recount_otel::limits::BATCH_SPANS_MAX), "{sizes:?}");
    scene.engine.shutdown().await;
}
