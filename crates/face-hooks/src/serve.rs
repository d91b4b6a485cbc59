//! The route for hooks: reads a hook, passes it to its session, and replies to the agent.
//!
//! The reply is an empty object, sent when the hook is durable. A held permission is answered later. Must not depend on
//! how hooks are recorded. Start with [`router`].

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderValue, header};
use recount_event::Code;
use recount_record::hooks;
use recount_transport::{RequestId, media};
use serde_json::{Value, json};

use crate::error::Refusal;
use crate::face_state::FaceState;
use crate::{limits, otlp, request};

/// The routes of hooks and of OTLP. Must be served after a layer that adds a [`RequestContext`].
pub fn router(state: FaceState) -> Router {
    Router::new().route("/hooks/{agent}/{event}", post(take)).merge(otlp::routes()).with_state(state)
}

async fn take(
    State(state): State<FaceState>,
    Path((agent, event)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let id = request.extensions().get::<RequestId>().map(|RequestId(id)| id.to_string()).unwrap_or_default();
    match record(&state, &agent, &event, query.as_deref(), request).await {
        Ok(answer) => answered(&answer),
        Err(refusal) => Refusal { request_id: id, ..refusal }.into_response(),
    }
}

async fn record(
    state: &FaceState,
    agent: &str,
    event: &str,
    query: Option<&str>,
    request: Request,
) -> Result<Value, Refusal> {
    let visitor = request::recorder(&request)?;
    let permission_wait = permission_wait(query)?;
    let bytes = body_bytes(request).await?;
    let body: Value = serde_json::from_slice(&bytes)
        .map_err(|why| Refusal::new(Code::BodyMalformed, format!("the body is not JSON: {why}")))?;
    let hook =
        hooks::read(agent, event, body).map_err(|why| Refusal::new(Code::BodyMalformed, why.to_string()))?;
    state.record(visitor, hook, permission_wait, bytes.len()).await
}

/// How long to hold a permission open; `None` without `ask=1`. Parameters: `?ask=1&wait_seconds=N`.
fn permission_wait(query: Option<&str>) -> Result<Option<Duration>, Refusal> {
    let (mut holds, mut wait) = (false, limits::ASK_SECONDS_DEFAULT);
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let wrong = |allowed: &str| {
            let value: String = value.chars().take(80).collect();
            Refusal::new(Code::ParameterInvalid, format!("{name} is {value:?}; send {allowed}"))
        };
        match (&*name, &*value) {
            ("ask", "0") => holds = false,
            ("ask", "1") => holds = true,
            ("ask", _) => return Err(wrong("0 or 1")),
            ("wait_seconds", text) => {
                let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
                wait = seconds.ok_or_else(|| wrong("a whole number of seconds, at least 1"))?;
            }
            _ => {
                let name: String = name.chars().take(80).collect();
                let detail = format!("unknown parameter {name:?}; known parameters: ask, wait_seconds");
                return Err(Refusal::new(Code::ParameterInvalid, detail));
            }
        }
    }
    Ok(holds.then(|| Duration::from_secs(wait.min(limits::ASK_SECONDS_MAX))))
}

async fn body_bytes(request: Request) -> Result<Bytes, Refusal> {
    let headers = request.headers();
    let declared = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let detail = "the body has a content-encoding; send it uncompressed, without content-encoding";
        return Err(Refusal::new(Code::MediaTypeUnsupported, detail));
    }
    // A page of another site can send other content types without a preflight request.
    if !declared.is_some_and(media::is_json) {
        let detail = "the content-type of the body is not JSON; send content-type: application/json";
        return Err(Refusal::new(Code::MediaTypeUnsupported, detail));
    }
    request::collect(request.into_body(), limits::BODY_BYTES_MAX, "the hook").await
}

fn answered(answer: &Value) -> Response {
    let answer = if answer.is_null() { json!({}) } else { answer.clone() };
    let mut response = Response::new(Body::from(answer.to_string()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
