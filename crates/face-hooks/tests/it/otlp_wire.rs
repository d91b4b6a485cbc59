//! Requests of OTLP in tests, and the responses to irregular ones.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use serde_json::{Value, json};

use super::agent::{events, runs, the};
use super::test_context::TestContext;
use super::wire::Reply;

/// Attributes in the JSON of OTLP.
pub(crate) fn attributes(fields: &Value) -> Value {
    let value = |value: &Value| match value {
        Value::String(text) => json!({ "stringValue": text }),
        Value::Bool(flag) => json!({ "boolValue": flag }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Array(items) => {
            let values: Vec<Value> = items.iter().map(|item| json!({ "stringValue": item })).collect();
            json!({ "arrayValue": { "values": values } })
        }
        other => panic!("{other}"),
    };
    fields
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, item)| json!({ "key": key, "value": value(item) }))
        .collect()
}

pub(crate) async fn post_otlp(context: &TestContext, signal: &str, body: &Value) -> Reply {
    context.post(&format!("/otlp/v1/{signal}"), &body.to_string()).await
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An event of Claude Code in protobuf, by the messages of opentelemetry-proto.
fn protobuf_logs() -> Vec<u8> {
    let text = |key: &str, text: &str| pair(key, Any::StringValue(text.to_owned()));
    let record = LogRecord {
        time_unix_nano: 1_795_974_294_213_000_000,
        event_name: "api_request".to_owned(),
        attributes: vec![
            text("session.id", "s-1"),
            text("prompt.id", "p-1"),
            text("model", "claude-opus-5"),
            pair("input_tokens", Any::IntValue(100)),
            pair("output_tokens", Any::IntValue(20)),
            pair("cost_usd", Any::DoubleValue(0.0008)),
        ],
        ..LogRecord::default()
    };
    let foreign = LogRecord { event_name: "other".to_owned(), ..LogRecord::default() };
    let scope = |name: &str, record| ScopeLogs {
        scope: Some(InstrumentationScope { name: name.to_owned(), ..InstrumentationScope::default() }),
        log_records: vec![record],
        ..ScopeLogs::default()
    };
    let scope_logs = vec![scope("com.anthropic.claude_code.events", record), scope("app", foreign)];
    let resource =
        Some(Resource { attributes: vec![text("service.version", "2.1.332")], ..Resource::default() });
    let logs = ResourceLogs { resource, scope_logs, ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![logs] }.encode_to_vec()
}

fn pair(key: &str, value: Any) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

#[tokio::test]
async fn protobuf_with_gzip_is_read_and_answered_in_protobuf() {
    let context = TestContext::memory().await;
    let headers = [("content-type", "application/x-protobuf"), ("content-encoding", "gzip")];
    let body = gzip(&protobuf_logs());
    let reply = context.request("POST", "/otlp/v1/logs", &headers, Some(&body)).await;
    assert_eq!(reply.status, 200);
    let response = ExportLogsServiceResponse::decode(reply.body.as_bytes()).unwrap();
    let partial = response.partial_success.unwrap();
    assert_eq!(partial.rejected_log_records, 1);
    assert_eq!(partial.error_message, "records that are not events of Claude Code are not recorded");
    let run = &runs(&context).await[0];
    assert_eq!(
        (&run["input_tokens"], &run["output_tokens"], &run["cost_micros_usd"]),
        (&json!(100), &json!(20), &json!(800))
    );
    assert_eq!(run["agent_version"], "2.1.332");
    assert_eq!(the(&events(&context, run).await, "turn.started")["model"], "claude-opus-5");
}

#[tokio::test]
async fn irregular_requests_are_refused_in_the_form_of_otlp() {
    let context = TestContext::memory().await;
    let bomb = gzip(&vec![b' '; 9 << 20]);
    let json = ("content-type", "application/json");
    let protobuf = ("content-type", "application/x-protobuf");
    for (path, headers, body, status, text) in [
        ("logs", vec![json], b"[]".as_slice(), 400, "not a JSON object"),
        ("logs", vec![json], b"{", 400, "not JSON"),
        ("logs", vec![("content-type", "text/plain")], b"{}", 415, "application/x-protobuf"),
        ("logs", vec![json, ("content-encoding", "br")], b"{}", 415, "gzip"),
        ("traces", vec![json, ("content-encoding", "gzip")], b"{}", 400, "not gzip"),
        ("traces", vec![json, ("content-encoding", "gzip")], &bomb, 413, "larger than"),
        ("traces", vec![protobuf], b"\x0a\xff", 400, "not a protobuf message"),
        ("metrics", vec![json], b"{}", 404, "OTEL_METRICS_EXPORTER=none"),
    ] {
        let reply = context.request("POST", &format!("/otlp/v1/{path}"), &headers, Some(body)).await;
        assert_eq!(reply.status, status, "{path} {headers:?}: {}", reply.text());
        assert!(reply.text().contains(text), "{text}: {}", reply.text());
        if headers.contains(&json) {
            assert!(reply.json()["code"].is_u64(), "{}", reply.text());
        }
    }
    assert_eq!(runs(&context).await.len(), 0);
}

#[tokio::test]
async fn an_empty_request_is_taken() {
    let context = TestContext::memory().await;
    for signal in ["logs", "traces"] {
        let reply = post_otlp(&context, signal, &json!({})).await;
        assert_eq!((reply.status, reply.text()), (200, "{}"));
    }
}

#[tokio::test]
async fn all_members_of_a_gzip_body_are_read() {
    let context = TestContext::memory().await;
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let body = [gzip(b"{\"resourceLogs\":"), gzip(b"5")].concat();
    let reply = context.request("POST", "/otlp/v1/logs", &headers, Some(&body)).await;
    assert_eq!((reply.status, reply.text().contains("not JSON")), (400, true), "{}", reply.text());
    let body = [body, gzip(b"}")].concat();
    let reply = context.request("POST", "/otlp/v1/logs", &headers, Some(&body)).await;
    assert_eq!((reply.status, reply.text()), (200, "{}"));
}
