//! The receiver of OTLP over HTTP: `POST /otlp/v1/logs` and `/otlp/v1/traces`, in protobuf or JSON, also with gzip.
//!
//! Reads a request, passes log events to the sessions of their agent and spans to their traces, and responds when everything is
//! durable. It must not know how they are recorded. Start with [`routes`].

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::Body as _;
use recount_engine::RequestContext;
use recount_event::Code;
use recount_record::claude_telemetry::{self, RecordContent, TelemetryEvent};
use recount_record::genai_spans::{self, TraceSpan};
use recount_record::otlp::{self, Encoding, Span};
use recount_transport::media;
use recount_world::Kind;
use serde_json::Value;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

use crate::counted::Counted;
use crate::error::Refusal;
use crate::face_state::FaceState;
use crate::otlp_state::{Counts, busy};
use crate::trace::{self, Begin, IncomingSpans, TraceReport};
use crate::{limits, request};

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// What was made of a request: items that were taken, those that were not, and why.
#[derive(Default)]
struct Taken {
    taken: usize,
    rejected: usize,
    why: String,
}

impl Taken {
    fn reject(&mut self, items: usize, why: &str) {
        self.taken -= items;
        self.rejected += items;
        why.clone_into(&mut self.why);
    }
}

/// The number of items of a report, and its result, which comes later.
type Queued<T> = (usize, Result<oneshot::Receiver<Result<T, Refusal>>, Refusal>);

/// The routes of this receiver.
pub(crate) fn routes() -> Router<FaceState> {
    Router::new()
        .route("/otlp/v1/logs", post(take_logs))
        .route("/otlp/v1/traces", post(take_traces))
        .route("/otlp/v1/metrics", post(refuse_metrics))
}

async fn take_logs(State(state): State<FaceState>, request: Request) -> Response {
    let encoding = encoding_of(request.headers());
    let taken = match encoding {
        Ok(encoding) => logs(&state, encoding, request).await,
        Err(ref refusal) => Err(refusal.clone()),
    };
    respond(encoding.unwrap_or(Encoding::Json), "rejectedLogRecords", taken, &state.otlp().records)
}

async fn take_traces(State(state): State<FaceState>, request: Request) -> Response {
    let encoding = encoding_of(request.headers());
    let taken = match encoding {
        Ok(encoding) => traces(&state, encoding, request).await,
        Err(ref refusal) => Err(refusal.clone()),
    };
    respond(encoding.unwrap_or(Encoding::Json), "rejectedSpans", taken, &state.otlp().spans)
}

async fn refuse_metrics(request: Request) -> Response {
    let detail = "metrics are not recorded; set OTEL_METRICS_EXPORTER=none, or send them to another endpoint";
    refused(
        encoding_of(request.headers()).unwrap_or(Encoding::Json),
        &Refusal::new(Code::RouteNotFound, detail),
    )
}

async fn logs(state: &FaceState, encoding: Encoding, request: Request) -> Result<Taken, Refusal> {
    let visitor = request::recorder(&request)?;
    let (body, _counted) = body_of(state, request).await?;
    let records = otlp::logs(&body, encoding).map_err(|why| Refusal::new(Code::BodyMalformed, why))?;
    let all = records.len();
    let mut taken = Taken { taken: all, ..Taken::default() };
    let mut sessions: Vec<Vec<TelemetryEvent>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for record in records {
        match claude_telemetry::read(&record) {
            RecordContent::Foreign => {
                taken.reject(1, "records that are not events of Claude Code are not recorded");
            }
            RecordContent::OfProgram => {}
            RecordContent::Event(event) => {
                let place = *places.entry(event.session.clone()).or_insert(sessions.len());
                let is_full = sessions.len() >= limits::OTLP_SESSIONS_MAX;
                match sessions.get_mut(place) {
                    Some(session) => session.push(event),
                    None if !is_full => sessions.push(vec![event]),
                    None => taken.reject(1, "too many sessions in one request"),
                }
            }
        }
    }
    let queue = |events: Vec<TelemetryEvent>| {
        let bytes = body.len() * events.len() / all.max(1);
        (events.len(), state.record_telemetry(&visitor, events, bytes))
    };
    let queued: Vec<Queued<Value>> = sessions.into_iter().map(queue).collect();
    await_all(queued, &mut taken, |_| 0).await?;
    Ok(taken)
}

/// Waits until all reports are durable. An error, if one may be sent again; reports that failed for good are rejected, and the
/// late items of the others.
async fn await_all<T>(
    queued: Vec<Queued<T>>,
    taken: &mut Taken,
    late: impl Fn(T) -> usize,
) -> Result<(), Refusal> {
    let all = async {
        let mut again = None;
        for (items, queued) in queued {
            let result = match queued {
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(busy("the server is shutting down"))),
                Err(refusal) => Err(refusal),
            };
            match result.map(&late) {
                Ok(0) => {}
                Ok(late) => {
                    taken.reject(late, "the run of the trace has ended; later spans are not recorded")
                }
                Err(refusal) if refusal.code.row().retryable => again = Some(refusal),
                Err(refusal) => taken.reject(items, &refusal.detail),
            }
        }
        again.map_or(Ok(()), Err)
    };
    let waited = tokio::time::timeout(limits::RECORD_WAIT, all).await;
    waited.unwrap_or_else(|_| Err(busy("the items are not recorded yet")))
}

async fn traces(state: &FaceState, encoding: Encoding, request: Request) -> Result<Taken, Refusal> {
    let visitor = request::recorder(&request)?;
    let (body, _counted) = body_of(state, request).await?;
    let spans = otlp::spans(&body, encoding).map_err(|why| Refusal::new(Code::BodyMalformed, why))?;
    resume_traces(state, &visitor);
    let mut taken = Taken { taken: spans.len(), ..Taken::default() };
    let mut traces: Vec<Vec<Span>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for span in spans {
        if genai_spans::is_own_export(&span) {
            taken.reject(1, "spans that a Recount server exported are not recorded; import the runs");
        } else if !is_id(&span.trace_id, 32) || !is_id(&span.span_id, 16) {
            taken.reject(1, "spans without valid ids are not recorded");
        } else {
            let place = *places.entry(span.trace_id.clone()).or_insert(traces.len());
            match traces.get_mut(place) {
                Some(trace) => trace.push(span),
                None => traces.push(vec![span]),
            }
        }
    }
    let queue = |spans: Vec<Span>| {
        let items = spans.len();
        queue_spans(state, &visitor, &spans).transpose().map(|queued| (items, queued))
    };
    let queued: Vec<Queued<usize>> = traces.into_iter().filter_map(queue).collect();
    await_all(queued, &mut taken, |late| late).await?;
    Ok(taken)
}

/// Queues spans of one trace. `None`: they are about something else. Otherwise the number of late spans comes when they are durable.
fn queue_spans(
    state: &FaceState,
    visitor: &RequestContext,
    spans: &[Span],
) -> Result<Option<oneshot::Receiver<Result<usize, Refusal>>>, Refusal> {
    let about_agents: Vec<TraceSpan> = spans.iter().filter_map(TraceSpan::of).collect();
    // A root that is about something else completes a trace.
    let begins = (!about_agents.is_empty()).then_some(Begin::Spans);
    let report = TraceReport::new(visitor, spans, about_agents);
    let counted = Counted::within(&state.otlp().queued_bytes, report.bytes(), limits::OTLP_QUEUED_BYTES_MAX);
    let queued = counted.ok_or_else(|| busy("too many spans are waiting to be recorded"))?;
    let (to, answer) = oneshot::channel();
    let mut incoming = IncomingSpans { report, to, _queued: queued };
    // Again if the trace has just left memory.
    for _ in 0..limits::TRIES_MAX {
        let Some(queue) = state.otlp().trace(visitor, &spans[0].trace_id, begins)? else { return Ok(None) };
        incoming = match queue.try_send(incoming) {
            Ok(()) => return Ok(Some(answer)),
            Err(TrySendError::Closed(incoming)) => incoming,
            Err(TrySendError::Full(_)) => break,
        };
    }
    Err(busy("too many requests with spans of this trace are waiting"))
}

/// Continues the open runs of traces that an earlier process left, at the first request of a tenant.
fn resume_traces(state: &FaceState, visitor: &RequestContext) {
    if !state.otlp().is_to_resume(visitor) {
        return;
    }
    let (state, visitor) = (state.clone(), visitor.clone());
    visitor.engine.clone().world().tasks.spawn(Kind::Effect, |_| async move {
        match trace::open_runs(&visitor.engine).await {
            Ok(open) => {
                for (trace, run) in open {
                    if let Err(refusal) = state.otlp().trace(&visitor, &trace, Some(Begin::Run(run))) {
                        tracing::warn!(%run, why = refusal.detail, "the open run of a trace is not continued");
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "open runs of traces cannot be found yet");
                state.otlp().resume_later(&visitor);
            }
        }
    });
}

/// Whether an id has so many hexadecimal digits and is not zero.
fn is_id(id: &str, digits: usize) -> bool {
    id.len() == digits
        && id.bytes().all(|digit| digit.is_ascii_hexdigit())
        && id.bytes().any(|digit| digit != b'0')
}

fn encoding_of(headers: &HeaderMap) -> Result<Encoding, Refusal> {
    let declared =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if declared.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case(PROTOBUF)) {
        return Ok(Encoding::Protobuf);
    }
    // A page of another site can send other content types without a preflight request.
    if media::is_json(declared) {
        return Ok(Encoding::Json);
    }
    let detail = "the content-type of the body is not one of OTLP; send application/x-protobuf or application/json \
                  (OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf or http/json)";
    Err(Refusal::new(Code::MediaTypeUnsupported, detail))
}

/// The body without compression, counted while it is in work.
async fn body_of(state: &FaceState, request: Request) -> Result<(Bytes, Counted), Refusal> {
    let max = limits::OTLP_BYTES_MAX;
    let encodings =
        request.headers().get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
    let is_compressed = match encodings.map(str::to_ascii_lowercase).as_deref() {
        None | Some("identity") => false,
        Some("gzip") => true,
        Some(_) => {
            let detail = "the body has an unknown content-encoding; send gzip or none";
            return Err(Refusal::new(Code::MediaTypeUnsupported, detail));
        }
    };
    let count = |bytes| {
        let counted = Counted::within(&state.otlp().bytes, bytes, limits::OTLP_BYTES_AT_ONCE_MAX);
        counted.ok_or_else(|| busy("too many requests are in work"))
    };
    let body = request.into_body();
    let declared = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let arriving = count(declared.unwrap_or(max).min(max))?;
    let body = request::collect(body, max, "the request").await?;
    let body = if is_compressed { uncompressed(&body)? } else { body };
    drop(arriving);
    let counted = count(body.len())?;
    Ok((body, counted))
}

fn uncompressed(body: &[u8]) -> Result<Bytes, Refusal> {
    let max = limits::OTLP_BYTES_MAX;
    let mut text = Vec::new();
    let read = MultiGzDecoder::new(body).take(max as u64 + 1).read_to_end(&mut text);
    read.map_err(|why| Refusal::new(Code::BodyMalformed, format!("the body is not gzip: {why}")))?;
    if text.len() > max {
        let detail = format!("the body is larger than {max} bytes; send fewer items in a request");
        return Err(Refusal::new(Code::BodyTooLarge, detail));
    }
    Ok(text.into())
}

fn respond(encoding: Encoding, field: &str, taken: Result<Taken, Refusal>, counts: &Counts) -> Response {
    let Taken { taken, rejected, why } = match taken {
        Ok(taken) => taken,
        Err(refusal) => return refused(encoding, &refusal),
    };
    counts.taken.fetch_add(taken as u64, Ordering::Relaxed);
    counts.rejected.fetch_add(rejected as u64, Ordering::Relaxed);
    let body = otlp::response(encoding, field, rejected as u64, &why);
    with_body(encoding, StatusCode::OK, body)
}

/// A refusal in the form of OTLP. Exporters send a request again after 503 only.
fn refused(encoding: Encoding, refusal: &Refusal) -> Response {
    let row = refusal.code.row();
    let status = if row.retryable { 503 } else { row.status };
    // The codes of gRPC.
    let code = match status {
        401 => 16,
        403 => 7,
        404 => 12,
        413 => 8,
        503 => 14,
        status if status < 500 => 3,
        _ => 13,
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = with_body(encoding, status, otlp::status(encoding, code, &refusal.detail));
    if row.retryable {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn with_body(encoding: Encoding, status: StatusCode, body: Vec<u8>) -> Response {
    let media = match encoding {
        Encoding::Protobuf => PROTOBUF,
        Encoding::Json => JSON,
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
