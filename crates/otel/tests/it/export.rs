//! Followers with a real HTTP server: what it gets, outages, restarts, crashes, refusals and gaps.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::trace::v1::Span;
use recount_event::Json;
use recount_event::family::run::{Queued, RunKind};
use recount_otel::ExportSettings;
use recount_otel::project::turns::{Instrument, TurnHistograms};
use tokio::net::TcpListener;

use crate::properties::spans;
use crate::receiver::{Receiver, text};
use crate::scene::{Scene, ending, settings, until};
use crate::stories::{stories, story};

fn named<'a>(spans: impl IntoIterator<Item = &'a Span>, name: &str) -> Vec<&'a Span> {
    spans.into_iter().filter(|span| span.name == name).collect()
}

#[tokio::test]
async fn an_ended_run_arrives_with_its_headers_and_resource() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    let before = scene.short_run().await;
    scene.export(settings(&receiver.url())).await;
    let events = story("approval-granted");
    let run = scene.import(&events).await;
    let open = scene.start().await;
    until("the run arrives", || !receiver.requests().is_empty()).await;
    assert_eq!(receiver.runs(), [run.to_string()], "neither {before}, which ended before, nor {open}");
    let (headers, request) = &receiver.requests()[0];
    assert_eq!(headers["authorization"], "Bearer a-long-secret");
    let resource = request.resource_spans[0].resource.as_ref().unwrap();
    let keys: BTreeSet<&str> = resource.attributes.iter().map(|there| there.key.as_str()).collect();
    let expected =
        ["deployment.environment.name", "recount.tenant", "service.name", "service.version"].into();
    assert_eq!(keys, expected);
    let scope = &request.resource_spans[0].scope_spans[0];
    assert_eq!(scope.schema_url, "https://opentelemetry.io/schemas/gen-ai/0.1.0");
    let ours: Vec<_> =
        spans(&events, false).into_iter().map(|span| (span.span_id, span.parent_span_id)).collect();
    let theirs: Vec<_> =
        scope.spans.iter().map(|span| (span.span_id.clone(), span.parent_span_id.clone())).collect();
    assert_eq!(theirs, ours);
    until("the figures show it", || scene.figures().runs == 1).await;
    assert_eq!(scene.figures().traces.sent, ours.len() as u64);
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn every_story_arrives_whole_and_once() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    let mut expected = BTreeSet::new();
    for events in stories().values() {
        scene.import(events).await;
        expected.extend(spans(events, true).into_iter().map(|span| span.span_id));
    }
    scene.export(ExportSettings { contents: true, history: true, ..settings(&receiver.url()) }).await;
    until("all arrive", || receiver.kept().len() == expected.len()).await;
    assert_eq!(receiver.kept().into_keys().collect::<BTreeSet<_>>(), expected);
    assert_eq!(receiver.spans().len(), expected.len(), "none twice");
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn an_outage_loses_nothing_and_stops_no_append() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    receiver.answer_by(|_| Some((503, Some("0"))));
    scene.export(settings(&receiver.url())).await;
    let mut runs = BTreeSet::from([scene.short_run().await.to_string()]);
    until("the outage is noticed", || scene.figures().traces.failing.is_some() && receiver.refused() > 2)
        .await;
    let failing = scene.figures().traces.failing.unwrap();
    assert_eq!(failing.why, "HTTP 503 Service Unavailable: not now");
    for _ in 0..5 {
        runs.insert(scene.short_run().await.to_string());
    }
    assert!(receiver.requests().is_empty());
    receiver.answer_by(|_| None);
    until("all arrive", || receiver.runs().len() == runs.len()).await;
    assert_eq!(receiver.runs().into_iter().collect::<BTreeSet<_>>(), runs);
    assert_eq!(receiver.spans().len(), runs.len(), "none twice");
    until("it is over", || scene.figures().traces.failing.is_none()).await;
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    receiver.answer_by(|_| Some((429, Some("3600"))));
    scene.export(settings(&receiver.url())).await;
    scene.short_run().await;
    until("it is refused", || receiver.refused() == 1).await;
    receiver.answer_by(|_| None);
    // Longer than the first own pauses.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await; // tidy: nothing must happen in this time
    assert!(receiver.requests().is_empty());
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn what_an_endpoint_that_was_down_missed_comes_after_a_restart() {
    let mut scene = Scene::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    scene.export(settings(&format!("http://{address}"))).await;
    let first = scene.short_run().await;
    until("it fails", || scene.figures().traces.failed_requests > 0).await;
    scene.stop_and_start().await;
    let second = scene.short_run().await;

    let receiver = Receiver::on(TcpListener::bind(address).await.unwrap());
    scene.export(settings(&receiver.url())).await;
    until("both arrive", || receiver.runs().len() == 2).await;
    assert_eq!(
        receiver.runs().into_iter().collect::<BTreeSet<_>>(),
        [first.to_string(), second.to_string()].into()
    );
    scene.stop_and_start().await;
    let count = receiver.spans().len();
    scene.export(settings(&receiver.url())).await;
    let third = scene.short_run().await.to_string();
    until("the third arrives", || receiver.runs().contains(&third)).await;
    assert_eq!(receiver.spans().len(), count + 1, "after an orderly stop nothing is repeated");
    scene.engine.shutdown().await;
    receiver.stop().await;
}

#[tokio::test]
async fn a_crash_repeats_the_same_ids_at_most() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    scene.export(settings(&receiver.url())).await;
    let events = story("parallel-tools");
    scene.import(&events).await;
    until("it arrives", || !receiver.requests().is_empty()).await;
    let kept = receiver.kept();
    scene.crash().await;
    assert!(scene.cursor().await < events.len() as u64, "its position was not stored yet");
    let (other, url) = (scene.short_run().await.to_string(), receiver.url());
    scene.export(settings(&url)).await;
    until("the other run arrives", || receiver.runs().contains(&other)).await;
    let after = receiver.kept();
    assert_eq!(after.len(), kept.len() + 1, "repeated spans replace themselves");
    assert!(kept.iter().all(|(id, span)| after[id] == *span));
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn the_position_is_stored_while_the_export_runs() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    scene.export(settings(&receiver.url())).await;
    scene.short_run().await;
    until("it arrives", || !receiver.requests().is_empty()).await;
    let last = scene.engine.read().last_position().await.unwrap();
    let mut looks = 0;
    while scene.cursor().await < last {
        looks += 1;
        assert!(looks < 3_000, "the position is not stored");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await; // tidy: looks again until it holds
    }
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn only_a_span_that_the_endpoint_cannot_take_is_dropped() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    receiver.answer_by(|request| {
        let spans =
            request.resource_spans.iter().flat_map(|spans| &spans.scope_spans).flat_map(|scope| &scope.spans);
        spans.into_iter().any(|span| span.name == "execute_tool poison").then_some((400, None))
    });
    scene.export(settings(&receiver.url())).await;
    let run = scene.start().await;
    let call = |id: &str, tool: &str| {
        [
            ("tool.invoked", format!(r#"{{"tool_call_id":"{id}","tool_name":"{tool}"}}"#)),
            ("tool.completed", format!(r#"{{"tool_call_id":"{id}","tool_name":"{tool}"}}"#)),
        ]
    };
    let events = [vec![("run.started", "{}".into())], call("a", "good").into(), call("b", "poison").into()];
    scene.report(run, 0, &[events.concat(), call("c", "good").into(), vec![ending()]].concat()).await;
    until("the run arrives", || receiver.runs().len() == 1).await;
    until("the drop is counted", || scene.figures().traces.rejected == 1).await;
    let kept = receiver.kept();
    assert_eq!(named(kept.values(), "execute_tool good").len(), 2);
    assert_eq!((named(kept.values(), "execute_tool poison").len(), scene.figures().traces.sent), (0, 3));
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn an_endpoint_that_refuses_everything_gets_it_all_later() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    receiver.answer_by(|_| Some((400, None)));
    scene.export(settings(&receiver.url())).await;
    let run = scene.short_run().await.to_string();
    until("it fails", || scene.figures().traces.failed_requests > 0).await;
    assert_eq!(scene.figures().traces.rejected, 0);
    receiver.answer_by(|_| None);
    until("the run arrives", || receiver.runs() == [run.clone()]).await;
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn spans_that_an_endpoint_takes_but_rejects_are_counted() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    receiver.reject_spans(1);
    scene.export(settings(&receiver.url())).await;
    scene.short_run().await;
    until("it is counted", || scene.figures().traces.rejected == 1).await;
    assert_eq!((scene.figures().traces.sent, scene.figures().traces.failing), (0, None));
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn a_recorded_run_names_its_source() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    scene.export(settings(&receiver.url())).await;
    let run = scene.start().await;
    let source = r#"{"source":"claude-code-hooks","version":"2.1.330","shows":["text"]}"#;
    scene
        .report(run, 0, &[("run.started", "{}".into()), ("ext.recount.source", source.into()), ending()])
        .await;
    until("the run arrives", || receiver.spans().len() == 1).await;
    let span = &receiver.spans()[0];
    assert_eq!(text(span, "recount.source").as_deref(), Some("claude-code-hooks"));
    assert_eq!(text(span, "recount.source.version").as_deref(), Some("2.1.330"));
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn a_long_run_is_sent_in_parts() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    scene.export(settings(&receiver.url())).await;
    let run = scene.start().await;
    scene.report(run, 0, &[("run.started", "{}".into())]).await;
    for seq in 1..=4 {
        let calls = (0..300).flat_map(|at| {
            let data = format!(r#"{{"tool_call_id":"c{seq}.{at}","tool_name":"t"}}"#);
            [("tool.invoked", data.clone()), ("tool.completed", data)]
        });
        scene.report(run, seq, &calls.collect::<Vec<_>>()).await;
    }
    scene.report(run, 5, &[ending()]).await;
    until("all arrive", || receiver.kept().len() == 1_201).await;
    let sizes = receiver
        .requests()
        .into_iter()
        .map(|(_, request)| request.resource_spans[0].scope_spans[0].spans.len());
    let sizes: Vec<usize> = sizes.collect();
    assert!(sizes.iter().all(|size| *size <= recount_otel::limits::BATCH_SPANS_MAX), "{sizes:?}");
    scene.engine.shutdown().await;
}

/// A family of three runs, in the trace of a request and in one of its own.
#[tokio::test]
async fn child_runs_are_below_the_calls_that_started_them() {
    for traceparent in [None, Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")] {
        let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
        scene.export(settings(&receiver.url())).await;
        let mut queued = Queued::new(RunKind::External);
        queued.traceparent = traceparent.map(str::to_owned);
        let mut runs = vec![scene.start_with(queued.clone()).await];
        for depth in 1..=2 {
            let above = format!(
                r#"{{"spawned_by":{{"run_id":"{}","tool_call_id":"spawn","depth":{depth}}}}}"#,
                runs[runs.len() - 1]
            );
            queued.config = Some(Json::parse(&above).unwrap());
            runs.push(scene.start_with(queued.clone()).await);
        }
        let data = r#"{"tool_call_id":"spawn","tool_name":"spawn_run"}"#;
        for run in runs.iter().rev() {
            let call = [("tool.invoked", data.into()), ("tool.completed", data.into())];
            scene
                .report(*run, 0, &[vec![("run.started", "{}".into())], call.into(), vec![ending()]].concat())
                .await;
        }
        until("the family arrives", || receiver.runs().len() == 3).await;
        let kept = receiver.kept();
        let of = |at: usize, name: &str| {
            let found = named(kept.values(), name)
                .into_iter()
                .find(|span| text(span, "recount.run.id").as_deref() == Some(runs[at].to_string().as_str()));
            found.unwrap().clone()
        };
        let traces: BTreeSet<_> = kept.values().map(|span| span.trace_id.clone()).collect();
        assert_eq!(traces.len(), 1, "{traceparent:?}");
        for below in [1, 2] {
            let (child, call) = (of(below, "invoke_agent"), of(below - 1, "execute_tool spawn_run"));
            assert_eq!(child.parent_span_id, call.span_id, "{traceparent:?}");
        }
        let top = of(0, "invoke_agent");
        match traceparent {
            None => assert!(top.parent_span_id.is_empty()),
            Some(_) => {
                assert_eq!(top.parent_span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
                assert_eq!(top.trace_id[..2], [0x4b, 0xf9]);
            }
        }
        scene.engine.shutdown().await;
    }
}

#[tokio::test]
async fn a_run_that_was_pruned_before_its_export_is_marked() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    let run = scene.import(&story("approval-granted")).await;
    scene.engine.admin().prune(run, None, "test").await.unwrap();
    let other = scene.short_run().await.to_string();
    scene.export(ExportSettings { history: true, ..settings(&receiver.url()) }).await;
    until("both arrive", || receiver.runs().len() == 2).await;
    let kept = receiver.kept();
    let find = |run: &str| {
        named(kept.values(), "invoke_agent")
            .into_iter()
            .find(|span| text(span, "recount.run.id").as_deref() == Some(run))
    };
    let pruned = find(&run.to_string()).unwrap();
    assert_eq!(text(pruned, "recount.run.incomplete").as_deref(), Some("BoolValue(true)"));
    assert_eq!(text(pruned, "gen_ai.request.model").as_deref(), Some("claude-sonnet-4-5"), "from the marker");
    assert!(pruned.start_time_unix_nano < pruned.end_time_unix_nano, "with the time of its beginning");
    assert_eq!(text(find(&other).unwrap(), "recount.run.incomplete"), None);
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn an_erased_run_is_not_exported_and_stops_nothing() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    receiver.answer_by(|_| Some((503, Some("0"))));
    scene.export(settings(&receiver.url())).await;
    let events = story("plain-answer");
    let (erased, session) = (scene.import(&events).await, events[0].session_id.unwrap());
    until("it is tried", || receiver.refused() > 0).await;
    scene.stop_and_start().await;
    scene.engine.admin().delete_session(session, "test").await.unwrap();
    let other = scene.short_run().await.to_string();
    receiver.answer_by(|_| None);
    scene.export(settings(&receiver.url())).await;
    until("the other arrives", || receiver.runs() == [other.clone()]).await;
    assert!(!receiver.runs().contains(&erased.to_string()));
    scene.engine.shutdown().await;
}

/// The feed does not have the position: the log was restored from a copy, for example.
#[tokio::test]
async fn a_position_after_the_end_of_the_log_continues_at_its_end() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    scene.engine.admin().set_cursor("otel", 1_000_000).await.unwrap();
    scene.export(settings(&receiver.url())).await;
    let run = scene.short_run().await.to_string();
    until("the run arrives", || receiver.runs() == [run.clone()]).await;
    scene.engine.shutdown().await;
}

#[tokio::test]
async fn turns_are_measured_when_their_run_has_arrived() {
    let (receiver, mut scene) = (Receiver::start().await, Scene::new().await);
    scene.export(settings(&receiver.url())).await;
    let run = scene.start().await;
    let turn =
        |index: u64, model: &str| ("turn.started", format!(r#"{{"turn_index":{index},"model":"{model}"}}"#));
    let used = r#""input_tokens":100,"output_tokens":7"#;
    let completed = |index: u64, more: &str| {
        ("turn.completed", format!(r#"{{"turn_index":{index},"stop_reason":"end_turn",{used}{more}}}"#))
    };
    let open = [("run.started", "{}".into()), turn(0, "m"), completed(0, r#","duration_ms":1500"#)];
    scene.report(run, 0, &open).await;
    scene.report(run, 1, &[turn(1, "m"), completed(1, "")]).await;
    scene.import(&story("approval-granted")).await;
    until("the other run arrives", || scene.figures().runs == 1).await;
    let of_other = scene.figures().turns;
    scene.report(run, 2, &[ending()]).await;
    until("the run arrives", || scene.figures().runs == 2).await;
    let figures = scene.figures().turns;
    let values = |instrument, turns: &TurnHistograms| -> BTreeSet<(String, u64, u64)> {
        let sets = turns.of(instrument).iter();
        let shown = sets.map(|(set, buckets)| (format!("{set:?}"), buckets.count(), buckets.sum));
        shown.filter(|(set, _, _)| set.contains("\"m\"")).collect()
    };
    let set =
        |more: &str| format!(r#"[("gen_ai.operation.name", "chat"), ("gen_ai.request.model", "m"){more}]"#);
    let tokens = [
        (set(r#", ("gen_ai.token.type", "input")"#), 2, 200),
        (set(r#", ("gen_ai.token.type", "output")"#), 2, 14),
    ];
    assert_eq!(values(Instrument::TokenUsage, &figures), tokens.into());
    assert_eq!(values(Instrument::TokenUsage, &of_other), BTreeSet::new(), "the run was open");
    // Times of a recorded run are not durations of the model.
    assert_eq!(values(Instrument::OperationDuration, &figures), [(set(""), 1, 1500)].into());
    let own = of_other.of(Instrument::OperationDuration);
    assert!(!own.is_empty() && own.keys().all(|set| set[2].0 == "gen_ai.request.model"), "{own:?}");
    scene.engine.shutdown().await;
}
