//! An HTTP server that takes traces and logs: reads them with the messages of opentelemetry-proto, keeps what it took, and answers
//! as a test sets it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use recount_world::{Kind, World};
use tokio::net::TcpListener;

/// Decides about a request: `None` takes it.
pub(crate) type Rule =
    dyn Fn(&ExportTraceServiceRequest) -> Option<(u16, Option<&'static str>)> + Send + Sync;

/// The same about logs, by the status.
type LogRule = dyn Fn(&ExportLogsServiceRequest) -> Option<u16> + Send + Sync;

/// The name of what shows whether an endpoint takes anything.
const PROBE: &str = "recount.export.probe";

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    state: Arc<Taken>,
    world: World,
}

struct Taken {
    requests: Mutex<Vec<(HeaderMap, ExportTraceServiceRequest)>>,
    refused: Mutex<u64>,
    rule: Mutex<Box<Rule>>,
    rejected: Mutex<i64>,
    logs: Mutex<Vec<(HeaderMap, ExportLogsServiceRequest)>>,
    log_rule: Mutex<Box<LogRule>>,
    log_requests_refused: Mutex<u64>,
}

impl Receiver {
    pub(crate) async fn start() -> Receiver {
        Receiver::on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn on(listener: TcpListener) -> Receiver {
        let state = Arc::new(Taken {
            requests: Mutex::default(),
            refused: Mutex::default(),
            rule: Mutex::new(Box::new(|_| None)),
            rejected: Mutex::default(),
            logs: Mutex::default(),
            log_rule: Mutex::new(Box::new(|_| None)),
            log_requests_refused: Mutex::default(),
        });
        let router = Router::new().route("/v1/traces", post(take)).route("/v1/logs", post(take_logs));
        let router = router.with_state(state.clone());
        let (world, address) = (World::real(), listener.local_addr().unwrap());
        world.tasks.spawn_until_shutdown(Kind::Service, async move {
            axum::serve(listener, router).await.unwrap();
        });
        Receiver { address, state, world }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn answer_by(
        &self,
        rule: impl Fn(&ExportTraceServiceRequest) -> Option<(u16, Option<&'static str>)> + Send + Sync + 'static,
    ) {
        *self.state.rule.lock().unwrap() = Box::new(rule);
    }

    /// Takes requests, but reports this many of their spans as rejected.
    pub(crate) fn reject_spans(&self, count: i64) {
        *self.state.rejected.lock().unwrap() = count;
    }

    pub(crate) fn refuse_logs(&self, status: Option<u16>) {
        self.answer_logs_by(move |_| status);
    }

    pub(crate) fn answer_logs_by(
        &self,
        rule: impl Fn(&ExportLogsServiceRequest) -> Option<u16> + Send + Sync + 'static,
    ) {
        *self.state.log_rule.lock().unwrap() = Box::new(rule);
    }

    /// Refuses every request with a record of this name.
    pub(crate) fn refuse_logs_with(&self, name: &'static str) {
        self.answer_logs_by(move |request| {
            records_of(request.clone()).any(|record| record.event_name == name).then_some(400)
        });
    }

    pub(crate) fn log_requests_refused(&self) -> u64 {
        *self.state.log_requests_refused.lock().unwrap()
    }

    /// The probes that were taken.
    pub(crate) fn probes(&self) -> usize {
        let logs = self.state.logs.lock().unwrap().clone();
        logs.into_iter().filter(|(_, request)| is_probe(request)).count()
    }

    /// The requests with logs that were taken, without probes.
    pub(crate) fn log_requests(&self) -> Vec<(HeaderMap, ExportLogsServiceRequest)> {
        let requests = self.state.logs.lock().unwrap();
        requests.iter().filter(|(_, request)| !is_probe(request)).cloned().collect()
    }

    /// The records of all requests, in order, repeated ones too.
    pub(crate) fn records(&self) -> Vec<LogRecord> {
        self.log_requests().into_iter().flat_map(|(_, request)| records_of(request)).collect()
    }

    pub(crate) fn refused(&self) -> u64 {
        *self.state.refused.lock().unwrap()
    }

    /// What was taken, without probes.
    pub(crate) fn requests(&self) -> Vec<(HeaderMap, ExportTraceServiceRequest)> {
        let requests = self.state.requests.lock().unwrap();
        let is_probe = |request: &ExportTraceServiceRequest| {
            request.resource_spans[0].scope_spans[0].spans.iter().any(|span| span.name == PROBE)
        };
        requests.iter().filter(|(_, request)| !is_probe(request)).cloned().collect()
    }

    /// The spans of all requests, in order, repeated ones too.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let requests = self.requests().into_iter();
        let scopes =
            requests.flat_map(|(_, request)| request.resource_spans).flat_map(|spans| spans.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// The same by id, as a backend keeps them.
    pub(crate) fn kept(&self) -> BTreeMap<Vec<u8>, Span> {
        self.spans().into_iter().map(|span| (span.span_id.clone(), span)).collect()
    }

    /// The runs whose own span was taken.
    pub(crate) fn runs(&self) -> Vec<String> {
        let spans = self.kept().into_values();
        let runs = spans.filter(|span| span.name.starts_with("invoke_agent"));
        runs.map(|span| text(&span, "recount.run.id").unwrap()).collect()
    }

    pub(crate) async fn stop(self) {
        self.world.tasks.end(Kind::Service, std::time::Duration::from_secs(5)).await;
    }
}

pub(crate) fn text(span: &Span, key: &str) -> Option<String> {
    text_of(&span.attributes, key)
}

pub(crate) fn text_of(attributes: &[KeyValue], key: &str) -> Option<String> {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    let found = attributes.iter().find(|there| there.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}

async fn take(State(state): State<Arc<Taken>>, headers: HeaderMap, body: Bytes) -> Response {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body).expect("the body is a request");
    if let Some((status, retry_after)) = state.rule.lock().unwrap()(&request) {
        *state.refused.lock().unwrap() += 1;
        let headers = retry_after.map(|after| [("retry-after", after)]);
        let status = StatusCode::from_u16(status).unwrap();
        return match headers {
            Some(headers) => (status, headers, "not now").into_response(),
            None => (status, "not now").into_response(),
        };
    }
    state.requests.lock().unwrap().push((headers, request));
    taken(&state)
}

fn is_probe(request: &ExportLogsServiceRequest) -> bool {
    records_of(request.clone()).any(|record| record.event_name == PROBE)
}

pub(crate) fn records_of(request: ExportLogsServiceRequest) -> impl Iterator<Item = LogRecord> {
    let scopes = request.resource_logs.into_iter().flat_map(|logs| logs.scope_logs);
    scopes.flat_map(|scope| scope.log_records)
}

async fn take_logs(State(state): State<Arc<Taken>>, headers: HeaderMap, body: Bytes) -> Response {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportLogsServiceRequest::decode(body).expect("the body is a request");
    if let Some(status) = state.log_rule.lock().unwrap()(&request) {
        *state.log_requests_refused.lock().unwrap() += 1;
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    state.logs.lock().unwrap().push((headers, request));
    taken(&state)
}

/// Both signals have the same response.
fn taken(state: &Taken) -> Response {
    let rejected_spans = *state.rejected.lock().unwrap();
    let error_message = if rejected_spans > 0 { "too old".to_owned() } else { String::new() };
    let partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message });
    let reply = ExportTraceServiceResponse { partial_success };
    ([("content-type", "application/x-protobuf")], reply.encode_to_vec()).into_response()
}
