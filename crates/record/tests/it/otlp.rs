//! Requests of OTLP with anything in them: readers do not panic, and what is recorded is what the log takes.

use proptest::prelude::*;
use recount_record::claude_telemetry::RecordContent;
use recount_record::genai_spans::{self, TraceSpan};
use recount_record::otlp::{self, Encoding, LogRecord, Span};
use recount_record::{Recording, claude_telemetry, hooks};
use recount_run::audit;
use serde_json::{Map, Value, json};

use crate::legal::Run;

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            json!("chat"),
            json!("invoke_agent"),
            json!("execute_tool"),
            json!("embeddings"),
            json!("LLM"),
            json!("17"),
            json!("<REDACTED>"),
            json!(["length"]),
            json!(true),
            json!("x".repeat(9_000)),
            json!("é".repeat(70_000)),
            json!([{ "role": "user", "parts": [{ "type": "text", "content": "hi" }] }]),
            json!("[{\"role\":\"assistant\",\"content\":\"yes\"}]"),
            json!({ "a": null }),
        ]),
    ]
}

fn attributes(names: &'static [&'static str]) -> impl Strategy<Value = Map<String, Value>> {
    let pair = (prop::sample::select(names), value()).prop_map(|(name, value)| (name.to_owned(), value));
    prop::collection::vec(pair, 0..12).prop_map(|pairs| pairs.into_iter().collect())
}

const SPAN_NAMES: &[&str] = &[
    "gen_ai.operation.name",
    "gen_ai.operation.name",
    "openinference.span.kind",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.cost",
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "error.type",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.response.finish_reasons",
    "gen_ai.request.model",
    "llm.input_messages.0.message.content",
    "llm.input_messages.0.message.role",
    "input.value",
    "output.value",
];

const EVENT_NAMES: &[&str] = &[
    "prompt",
    "model",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "cost_usd_micros",
    "tool_name",
    "tool_use_id",
    "success",
    "decision",
    "response",
    "tool_input",
    "duration_ms",
    "error",
];

fn span() -> impl Strategy<Value = Span> {
    (0..5u8, 0..5u8, any::<(u32, u32)>(), any::<bool>(), attributes(SPAN_NAMES)).prop_map(
        |(id, parent, times, is_error, attributes)| Span {
            trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
            span_id: format!("{id:016x}"),
            parent_id: if parent == 0 { String::new() } else { format!("{parent:016x}") },
            is_parent_remote: false,
            name: "x".repeat(usize::from(id) * 200),
            start_ns: u64::from(times.0) << 30,
            end_ns: u64::from(times.1) << 30,
            attributes,
            is_error,
            error: is_error.then(|| "no".to_owned()),
            resource: std::sync::Arc::default(),
        },
    )
}

fn record() -> impl Strategy<Value = LogRecord> {
    let events =
        ["user_prompt", "api_request", "tool_decision", "tool_result", "assistant_response", "other"];
    (prop::sample::select(events.to_vec()), any::<u64>(), attributes(EVENT_NAMES)).prop_map(
        |(event, time_ns, mut attributes)| {
            attributes.insert("session.id".to_owned(), json!("s"));
            attributes.insert("prompt.id".to_owned(), json!("p"));
            let scope = "com.anthropic.claude_code.events".into();
            LogRecord {
                event: event.to_owned(),
                time_ns,
                attributes,
                scope,
                resource: std::sync::Arc::default(),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_trace_is_a_run_and_kept_spans_are_read_back(spans in prop::collection::vec(span(), 0..12), complete: bool) {
        let about: Vec<TraceSpan> = spans.iter().filter_map(TraceSpan::of).collect();
        let mut recording = Recording::begin(&genai_spans::source());
        about.iter().for_each(|span| span.keep(&mut recording));
        let mut run = Run::new();
        run.append(&mut recording);
        let kept = run.data();
        let ids: std::collections::BTreeSet<&str> =
            spans.iter().filter(|span| TraceSpan::of(span).is_some()).map(|span| span.span_id.as_str()).collect();
        let spans: Vec<TraceSpan> =
            kept.iter().filter(|(kind, _)| kind == genai_spans::KEPT).filter_map(|(_, data)| TraceSpan::kept(data)).collect();
        prop_assert_eq!(spans.len(), ids.len());
        genai_spans::record(&mut recording, spans, complete);
        run.append(&mut recording);
        prop_assert_eq!(audit(&run.events), None);
        let last = run.data().pop().unwrap().0;
        prop_assert!(last == "run.finished" || last == "run.failed", "{}", last);
    }

    #[test]
    fn any_events_are_recorded_beside_hooks_and_alone(records in prop::collection::vec(record(), 0..12)) {
        let read = |record: &LogRecord| match claude_telemetry::read(record) {
            RecordContent::Event(event) => Some(event),
            _ => None,
        };
        let events: Vec<_> = records.iter().filter_map(read).collect();
        prop_assert_eq!(events.len(), records.len());
        let mut alone = Recording::begin(&claude_telemetry::source(None));
        claude_telemetry::record_alone(&mut alone, &events);
        let mut run = Run::new();
        run.append(&mut alone);
        prop_assert_eq!(audit(&run.events), None);
        let mut beside = Recording::begin(&hooks::source("claude", None));
        events.iter().for_each(|event| event.record_beside(&mut beside));
        let mut run = Run::new();
        run.append(&mut beside);
        prop_assert_eq!(audit(&run.events), None);
        // A second time adds nothing.
        events.iter().for_each(|event| event.record_beside(&mut beside));
        prop_assert_eq!(beside.drain().len(), 0);
    }

    #[test]
    fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..200), nested in 0..400usize) {
        for encoding in [Encoding::Protobuf, Encoding::Json] {
            drop(otlp::spans(&body, encoding));
            drop(otlp::logs(&body, encoding));
        }
        // A value in a value: an array (5) with one value (1), with the lengths of what follows.
        let mut value: Vec<u8> = Vec::new();
        for _ in 0..nested.min(60) {
            let mut array = vec![0x0a, value.len() as u8];
            array.append(&mut value);
            value = vec![0x2a, array.len() as u8];
            value.append(&mut array);
            if value.len() > 120 {
                break;
            }
        }
        drop(otlp::spans(&value, Encoding::Protobuf));
    }
}

/// Members that are not read take no memory, and what is read is counted in both encodings.
#[test]
fn a_json_body_is_read_by_its_fields_only() {
    let attribute = json!({ "key": "a", "value": { "intValue": "1" }, "x": [[{ "y": null }]] });
    let record =
        json!({ "attributes": [attribute, null, 5], "body": { "stringValue": "b" }, "timeUnixNano": 7 });
    let body = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [record], "scope": 3 }], "resource": [] }] });
    let records = otlp::logs(body.to_string().as_bytes(), Encoding::Json).unwrap();
    assert_eq!((records.len(), records[0].time_ns, &records[0].attributes["a"]), (1, 7, &json!(1)));
    let many = |name: &str| {
        let items = vec!["{}"; recount_record::limits::OTLP_VALUES_MAX].join(",");
        otlp::logs(format!("{{\"{name}\":[{items}]}}").as_bytes(), Encoding::Json)
    };
    assert_eq!(many("unknown").unwrap().len(), 0);
    assert!(many("resourceLogs").unwrap_err().contains("more than 500000 fields"));
}
