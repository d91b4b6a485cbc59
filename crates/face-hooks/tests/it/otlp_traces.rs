//! Spans of the GenAI conventions: a trace becomes a run.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use serde_json::{Value, json};

use super::agent::{events, runs, the, types, until};
use super::otlp_wire::{attributes, post_otlp};
use super::test_context::TestContext;
use super::wire::Reply;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A span of `TRACE`; `id` and `parent` are small numbers, 0 for none.
fn span(id: u64, parent: u64, times: (u64, u64), fields: &Value) -> Value {
    let time = |at: u64| ((1_795_974_294_000 + at) * 1_000_000).to_string();
    json!({
        "traceId": TRACE, "spanId": format!("{id:016x}"),
        "parentSpanId": if parent == 0 { String::new() } else { format!("{parent:016x}") },
        "name": format!("{} x", fields["gen_ai.operation.name"].as_str().unwrap_or("http")),
        "startTimeUnixNano": time(times.0), "endTimeUnixNano": time(times.1),
        "attributes": attributes(fields),
    })
}

fn root() -> Value {
    let input = json!([
        { "role": "system", "parts": [{ "type": "text", "content": "Be brief." }] },
        { "role": "user", "parts": [{ "type": "text", "content": "How is the weather?" }] },
    ]);
    let fields = json!({
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather",
        "gen_ai.input.messages": input.to_string(),
    });
    span(1, 0, (0, 100), &fields)
}

pub(crate) fn chat(id: u64, times: (u64, u64), reason: &str, answer: &str) -> Value {
    let output = json!([{ "role": "assistant", "parts": [{ "type": "text", "content": answer }] }]);
    let fields = json!({
        "gen_ai.operation.name": "chat", "gen_ai.agent.name": "weather", "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5", "gen_ai.conversation.id": "conv-1",
        "gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 7, "gen_ai.response.finish_reasons": [reason],
        "gen_ai.output.messages": output.to_string(),
    });
    span(id, 1, times, &fields)
}

fn tool(id: u64, times: (u64, u64)) -> Value {
    let fields = json!({
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather", "gen_ai.tool.call.id": "call_1",
        "gen_ai.tool.call.arguments": "{\"city\":\"Ulm\"}", "gen_ai.tool.call.result": "rain",
    });
    span(id, 1, times, &fields)
}

fn body(spans: &[Value]) -> Value {
    let resource =
        json!({ "attributes": attributes(&json!({ "service.name": "app", "service.version": "1.2" })) });
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": spans }] }] })
}

pub(crate) async fn send(context: &TestContext, spans: &[Value]) -> Reply {
    post_otlp(context, "traces", &body(spans)).await
}

/// Posts spans and expects that all are taken.
async fn taken(context: &TestContext, spans: &[Value]) {
    let reply = send(context, spans).await;
    assert_eq!((reply.status, reply.text()), (200, "{}"));
}

async fn ended(context: &TestContext) -> Value {
    until("the run has ended", async || {
        let all = runs(context).await;
        assert_eq!(all.len(), 1, "{all:?}");
        (all[0]["ended_at"].is_string()).then(|| all[0].clone())
    })
    .await
}

/// Types of a run after its first four events, without kept spans.
fn steps(recorded: &[(String, Value)]) -> Vec<&str> {
    types(recorded).into_iter().skip(4).filter(|kind| *kind != "ext.otlp.span").collect()
}

const STEPS: [&str; 15] = [
    "user.message",
    "turn.started",
    "assistant.text_delta",
    "assistant.text_complete",
    "assistant.tool_call_proposed",
    "turn.completed",
    "cost.tick",
    "tool.invoked",
    "tool.completed",
    "turn.started",
    "assistant.text_delta",
    "assistant.text_complete",
    "turn.completed",
    "cost.tick",
    "run.finished",
];

#[tokio::test(start_paused = true)]
async fn a_trace_is_a_run_in_the_order_of_its_spans_however_they_arrive() {
    let context = TestContext::memory().await;
    let http = span(9, 2, (11, 19), &json!({ "http.request.method": "POST" }));
    taken(&context, &[chat(4, (60, 90), "stop", "It rains."), http]).await;
    let open = runs(&context).await;
    assert_eq!((&open[0]["status"], &open[0]["source"]), (&json!("running"), &json!("otlp-spans")));
    taken(&context, &[tool(3, (30, 50))]).await;
    // A repeated span adds nothing.
    taken(&context, &[root(), tool(3, (30, 50))]).await;
    // Of another process, after the root.
    taken(&context, &[chat(2, (10, 20), "tool_calls", "Let me look.")]).await;
    let run = ended(&context).await;
    assert_eq!((&run["agent_name"], &run["status"]), (&json!("weather"), &json!("finished")));
    assert_eq!(
        (&run["input_tokens"], &run["output_tokens"], &run["turns"]),
        (&json!(80), &json!(14), &json!(2))
    );
    let recorded = events(&context, &run).await;
    assert_eq!(steps(&recorded), STEPS);
    assert_eq!(the(&recorded, "user.message")["text"], "How is the weather?");
    assert_eq!(the(&recorded, "assistant.tool_call_proposed")["input"], json!({ "city": "Ulm" }));
    let call = the(&recorded, "tool.completed");
    assert_eq!((&call["tool_call_id"], &call["output"]), (&json!("call_1"), &json!("rain")));
    assert_eq!(
        (&call["duration_ms"], &call["source_time"]),
        (&json!(20), &json!("2026-11-29T17:44:54.050Z"))
    );
    let turn = &recorded.iter().find(|(kind, _)| kind == "turn.started").unwrap().1;
    assert_eq!((&turn["model"], &turn["provider"]), (&json!("gpt-5"), &json!("openai")));
    let session = run["session_id"].as_str().unwrap();
    let session = context.get(&format!("/v1/sessions/{session}")).await.data();
    assert_eq!(session["title"], "weather · conv-1");

    let late = send(&context, &[chat(7, (95, 99), "stop", "Late.")]).await.json();
    assert_eq!(late["partialSuccess"]["rejectedSpans"], "1", "{late}");
    assert_eq!(runs(&context).await.len(), 1);
    assert_eq!(events(&context, &run).await, recorded);
}

#[tokio::test(start_paused = true)]
async fn a_trace_without_a_root_ends_as_incomplete() {
    let context = TestContext::memory().await;
    taken(&context, &[chat(2, (10, 20), "stop", "It rains.")]).await;
    tokio::time::advance(recount_face_hooks::limits::TRACE_QUIET).await;
    let run = ended(&context).await;
    let recorded = events(&context, &run).await;
    assert_eq!(the(&recorded, "run.finished")["final_status"], "end_not_seen");
    assert_eq!(the(&recorded, "ext.recount.gap")["reason"], "root_not_seen");
}

#[tokio::test(start_paused = true)]
async fn a_trace_continues_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    taken(&context, &[chat(2, (10, 20), "tool_calls", "Let me look."), tool(3, (30, 50))]).await;
    context.running.stop().await;
    let context = TestContext::sqlite(folder.path()).await;
    taken(&context, &[tool(3, (30, 50)), chat(4, (60, 90), "stop", "It rains."), root()]).await;
    let run = ended(&context).await;
    assert_eq!(steps(&events(&context, &run).await), STEPS);
}

#[tokio::test(start_paused = true)]
async fn failures_are_failures() {
    let context = TestContext::memory().await;
    let mut call = tool(3, (30, 50));
    call["status"] = json!({ "code": 2, "message": "no such city" });
    let mut top = root();
    top["status"] = json!({ "code": 2, "message": "gave up" });
    top["attributes"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "key": "error.type", "value": { "stringValue": "Timeout" } }));
    taken(&context, &[call, top]).await;
    let recorded = events(&context, &ended(&context).await).await;
    assert_eq!(the(&recorded, "tool.failed")["error"], "no such city");
    let failed = the(&recorded, "run.failed");
    assert_eq!((&failed["code"], &failed["message"]), (&json!("Timeout"), &json!("gave up")));
}

#[tokio::test]
async fn spans_of_our_own_export_and_of_other_programs_make_no_run() {
    let context = TestContext::memory().await;
    let own = json!({ "gen_ai.operation.name": "chat", "recount.run.id": "run_01KQPVTMD3J3EQPNZXHCZRNBX8" });
    let mut invalid = chat(5, (1, 2), "stop", "x");
    invalid["traceId"] = json!("12");
    let other = span(6, 0, (1, 2), &json!({ "http.request.method": "GET" }));
    let reply = send(&context, &[span(1, 0, (1, 2), &own), invalid, other]).await.json();
    assert_eq!(reply["partialSuccess"]["rejectedSpans"], "2", "{reply}");
    assert_eq!(runs(&context).await.len(), 0);
}

/// The same trace in protobuf, by the messages of opentelemetry-proto.
#[tokio::test(start_paused = true)]
async fn protobuf_is_the_same_as_json() {
    let context = TestContext::memory().await;
    let id = |text: &Value| {
        let text = text.as_str().unwrap();
        let digits = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap());
        digits.collect::<Vec<u8>>()
    };
    let pair = |pair: &Value| {
        let (kind, value) = pair["value"].as_object().unwrap().iter().next().unwrap();
        let text = |value: &Value| Any::StringValue(value.as_str().unwrap().to_owned());
        let value = match kind.as_str() {
            "stringValue" => text(value),
            "intValue" => Any::IntValue(value.as_str().unwrap().parse().unwrap()),
            _ => {
                let items = value["values"].as_array().unwrap().iter();
                let values = items.map(|item| AnyValue { value: Some(text(&item["stringValue"])) }).collect();
                Any::ArrayValue(opentelemetry_proto::tonic::common::v1::ArrayValue { values })
            }
        };
        let key = pair["key"].as_str().unwrap().to_owned();
        KeyValue { key, value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
    };
    let spans = [
        chat(2, (10, 20), "tool_calls", "Let me look."),
        tool(3, (30, 50)),
        chat(4, (60, 90), "stop", "It rains."),
        root(),
    ];
    let number = |value: &Value| value.as_str().unwrap().parse().unwrap();
    let spans = spans.iter().map(|span| Span {
        trace_id: id(&span["traceId"]),
        span_id: id(&span["spanId"]),
        parent_span_id: id(&span["parentSpanId"]),
        name: span["name"].as_str().unwrap().to_owned(),
        start_time_unix_nano: number(&span["startTimeUnixNano"]),
        end_time_unix_nano: number(&span["endTimeUnixNano"]),
        attributes: span["attributes"].as_array().unwrap().iter().map(pair).collect(),
        status: Some(Status::default()),
        ..Span::default()
    });
    let scope = ScopeSpans { spans: spans.collect(), ..ScopeSpans::default() };
    let group = ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() };
    let body = ExportTraceServiceRequest { resource_spans: vec![group] }.encode_to_vec();
    let headers = [("content-type", "application/x-protobuf")];
    let reply = context.request("POST", "/otlp/v1/traces", &headers, Some(&body)).await;
    assert_eq!((reply.status, reply.text()), (200, ""));
    let run = ended(&context).await;
    assert_eq!(steps(&events(&context, &run).await), STEPS);
    assert_eq!(run["input_tokens"], 80);
}

/// The same span in another trace.
fn in_trace(mut span: Value, trace: u64) -> Value {
    span["traceId"] = json!(format!("{trace:032x}"));
    span
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_trace_is_tried_again() {
    let context = TestContext::memory().await;
    taken(&context, &[chat(2, (10, 20), "stop", "It rains."), root()]).await;
    context.refuse(2);
    let recorded = events(&context, &ended(&context).await).await;
    assert_eq!(the(&recorded, "run.finished")["final_status"], "completed");
    // A request that fails leaves no run in memory.
    context.refuse(recount_face_hooks::limits::TRIES_MAX);
    let first = [in_trace(chat(2, (10, 20), "stop", "It rains."), 7)];
    assert_eq!(send(&context, &first).await.status, 503);
    taken(&context, &first).await;
    context.refuse(recount_face_hooks::limits::TRIES_MAX);
    assert_eq!(send(&context, &[in_trace(tool(3, (30, 50)), 7)]).await.status, 503);
    tokio::time::advance(recount_face_hooks::limits::TRACE_QUIET).await;
    until("all runs have ended", async || {
        let all = runs(&context).await;
        all.iter().all(|run| run["ended_at"].is_string()).then_some(())
    })
    .await;
    assert_eq!(runs(&context).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_trace_whose_root_was_recorded_ends_after_a_restart_without_another_span() {
    ends_after_a_restart(root()).await;
    ends_after_a_restart(span(1, 0, (0, 100), &json!({ "http.request.method": "POST" }))).await;
}

async fn ends_after_a_restart(root: Value) {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    taken(&context, &[chat(2, (10, 20), "stop", "It rains."), root]).await;
    context.running.stop().await;
    let context = TestContext::sqlite(folder.path()).await;
    taken(&context, &[in_trace(chat(2, (10, 20), "stop", "It snows."), 7)]).await;
    let run = until("the run has ended", async || {
        runs(&context).await.into_iter().find(|run| run["ended_at"].is_string())
    })
    .await;
    let recorded = events(&context, &run).await;
    assert_eq!(the(&recorded, "run.finished")["final_status"], "completed");
    assert_eq!(the(&recorded, "ext.recount.session")["raw"]["trace_id"], TRACE);
}

#[tokio::test(start_paused = true)]
async fn a_trace_is_one_run_also_if_its_conversation_is_named_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    taken(&context, &[tool(3, (30, 50))]).await;
    context.running.stop().await;
    let context = TestContext::sqlite(folder.path()).await;
    taken(&context, &[chat(2, (10, 20), "stop", "It rains."), root()]).await;
    assert_eq!(ended(&context).await["input_tokens"], 40);
}

#[tokio::test(start_paused = true)]
async fn one_trace_too_many_ends_the_one_that_was_quiet_the_longest() {
    let context = TestContext::memory().await;
    taken(&context, &[chat(2, (10, 20), "stop", "It rains.")]).await;
    let first = runs(&context).await[0]["id"].as_str().unwrap().to_owned();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let more = recount_face_hooks::limits::TRACES_MAX as u64;
    for traces in (1..=more).collect::<Vec<_>>().chunks(128) {
        let spans = traces.iter().map(|trace| in_trace(chat(2, (10, 20), "stop", "It snows."), *trace));
        taken(&context, &spans.collect::<Vec<_>>()).await;
    }
    // Before the time after which a quiet trace ends.
    let run = until("the first run has ended", async || {
        let run = context.get(&format!("/v1/runs/{first}")).await.data();
        run["ended_at"].is_string().then_some(run)
    })
    .await;
    assert_eq!(the(&events(&context, &run).await, "run.finished")["final_status"], "end_not_seen");
    assert_eq!(runs(&context).await.last().unwrap()["status"], "running");
}
