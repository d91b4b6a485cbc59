//! Handlers of plain HTTP requests: handshakes, messages, replies, health and manifest.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};

use crate::response::{empty, json};
use crate::{Handshake, Problem, Producer, Reply, Route, Source};

pub(super) async fn subscriptions<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
    body: Body,
) -> Response {
    let request = match read_text(&*producer, body, Route::Subscriptions).await {
        Ok(request) => request,
        Err(refused) => return refused,
    };
    let Handshake { text, result } = producer.subscribe(&caller, &request, false).await;
    let status = result.as_ref().map_or_else(|rejected| rejected.status, |_| StatusCode::CREATED);
    let mut response = text.map_or_else(|| empty(StatusCode::NO_CONTENT), |text| json(status, text));
    let headers = response.headers_mut();
    match result {
        Ok(id) => {
            let location = HeaderValue::try_from(format!("/aaep/v1/events?subscription_id={id}"));
            headers.extend(location.ok().map(|location| (header::LOCATION, location)));
        }
        Err(rejected) => {
            let retry = rejected.retry_after_seconds.map(HeaderValue::from);
            headers.extend(retry.map(|retry| (header::RETRY_AFTER, retry)));
        }
    }
    response
}

pub(super) async fn replies<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
    body: Body,
) -> Response {
    receive(&*producer, &caller, Source::Replies, Route::Replies, body).await
}

pub(super) async fn messages<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
    body: Body,
) -> Response {
    receive(&*producer, &caller, Source::Messages, Route::Legacy, body).await
}

pub(super) async fn sessions<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
    body: Body,
) -> Response {
    receive(&*producer, &caller, Source::Sessions, Route::Legacy, body).await
}

async fn receive<P: Producer>(
    producer: &P,
    caller: &P::Caller,
    source: Source<'_, P::Feed>,
    route: Route,
    body: Body,
) -> Response {
    let text = match read_text(producer, body, route).await {
        Ok(text) => text,
        Err(refused) => return refused,
    };
    match producer.receive(caller, source, &text).await {
        Reply::Accepted => empty(StatusCode::NO_CONTENT),
        Reply::Started(text) => json(StatusCode::ACCEPTED, text),
        Reply::Message(text) | Reply::FinalMessage(text) => json(StatusCode::OK, text),
        Reply::Refused(problem) => producer.refusal(problem, route),
        Reply::Response(response) => response,
    }
}

/// Reads the body of a request as text.
async fn read_text<P: Producer>(producer: &P, body: Body, route: Route) -> Result<String, Response> {
    let policy = producer.policy();
    let arrived = axum::body::to_bytes(body, policy.message_bytes_max);
    let bytes = match policy.body_wait {
        None => arrived.await,
        Some(wait) => {
            let arrived = tokio::time::timeout(wait, arrived).await;
            arrived.map_err(|_| producer.refusal(Problem::Slow, route))?
        }
    };
    let bytes = bytes.map_err(|_| producer.refusal(Problem::TooLarge, route))?;
    String::from_utf8(bytes.into()).map_err(|_| producer.refusal(Problem::NotText, route))
}

pub(super) async fn health<P: Producer>(State(producer): State<Arc<P>>) -> Response {
    json(StatusCode::OK, producer.health().to_string())
}

pub(super) async fn manifest<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
) -> Response {
    match producer.manifest(&caller) {
        Some(text) => json(StatusCode::OK, text),
        None => producer.refusal(Problem::NotFound, Route::Other),
    }
}

pub(super) async fn not_found<P: Producer>(State(producer): State<Arc<P>>) -> Response {
    producer.refusal(Problem::NotFound, Route::Other)
}
