//! Routes for events of one run and of all runs: append, read as a page, read as a stream.

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::body::Body;
use axum::extract::{Extension, RawQuery, Request};
use axum::response::Response;
use futures_util::StreamExt as _;
use recount_api::query;
use recount_api::reply::One;
use recount_api::request::AppendEvents;
use recount_engine::{EventFilter, EventPage};
use recount_event::{Code, RunId};
use recount_transport::media::{self, ResponseFormat};
use recount_transport::{RequestId, sse};
use recount_world::Kind;

use super::Face;
use super::caller::RunInPath;
use super::http::{HandlerResult, Query, body_bytes, json, json_bytes};
use crate::error::Refusal;
use crate::stream::{self, Cursor, StreamEnd};
use crate::{accept, limits, project};

pub(super) async fn append_events(RunInPath { face, run }: RunInPath, request: Request) -> HandlerResult {
    let bytes = body_bytes(request, limits::BATCH_BODY_BYTES_MAX).await?;
    let request: AppendEvents = accept::body(&bytes)?;
    let (triple, drafts) = accept::batch(request)?;
    let receipt = face.engine.write().ingest(run, triple, drafts).await?;
    Ok(json(StatusCode::OK, &One::new("receipt", receipt)))
}

/// A validated request to read events.
struct Reading {
    stream: bool,
    after: Option<u64>,
    /// Whether the cursor came as `Last-Event-ID`, that is, from a reconnecting reader.
    is_reconnect: bool,
    limit: usize,
}

fn reading(headers: &HeaderMap, raw: Option<&str>, parameter: &str) -> Result<Reading, Refusal> {
    let query = Query::parse(raw);
    // Several headers are one list.
    let accept: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let stream = match media::prefers_event_stream(Some(&accept.join(","))) {
        ResponseFormat::Json => false,
        ResponseFormat::EventStream => true,
        ResponseFormat::Neither => {
            return Err(Refusal::new(
                Code::NotAcceptable,
                "the Accept header allows neither application/json nor text/event-stream",
            ));
        }
    };
    let last_id = match headers.get("last-event-id") {
        None => None,
        Some(value) => Some(value.to_str().map_err(|_| {
            Refusal::new(Code::CursorMalformed, "Last-Event-ID is not plain text; send a whole number")
        })?),
    };
    Ok(Reading {
        stream,
        after: accept::cursor(last_id, query.get(parameter))?,
        is_reconnect: last_id.is_some_and(|id| !id.is_empty()),
        limit: accept::limit(query.get(query::LIMIT), query::EVENTS_LIMIT_DEFAULT, query::EVENTS_LIMIT_MAX)?,
    })
}

pub(super) async fn read_run_events(
    RunInPath { face, run }: RunInPath,
    RawQuery(raw): RawQuery,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
) -> HandlerResult {
    let reading = reading(&headers, raw.as_deref(), query::AFTER_SEQUENCE)?;
    if !reading.stream {
        let page = face.engine.read().run_page(run, reading.after, reading.limit).await?;
        let first_requested = reading.after.map_or(0, |after| after + 1);
        let pruned = match page.events.first() {
            Some((first, _)) if *first > first_requested => Some(project::gap(first_requested, first - 1)),
            _ => None,
        };
        return Ok(events_page(&page, true, pruned));
    }
    let subscription = face.engine.read().follow_run(run, reading.after).await?;
    if reading.is_reconnect && nothing_can_follow(&face, run, reading.after).await? {
        // Stops a browser from reconnecting.
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        return Ok(response);
    }
    event_stream(&face, subscription, Cursor::Sequence, &id)
}

async fn nothing_can_follow(face: &Face, run: RunId, after: Option<u64>) -> Result<bool, Refusal> {
    let ended = face.engine.catalogue().run(run).await?.is_some_and(|row| row.has_ended());
    let tail = face.engine.read().tail(run).await?;
    Ok(ended && after.map(|after| after + 1) == tail)
}

pub(super) async fn read_feed(
    face: Face,
    RawQuery(raw): RawQuery,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
) -> HandlerResult {
    let reading = reading_feed(&face, &headers, raw.as_deref()).await?;
    let sieve = sieve(&face, raw.as_deref())?;
    if reading.stream {
        return follow_feed(&face, reading.after, sieve, &id).await;
    }
    let names_run = sieve.is_open();
    let page = face.engine.read().feed_page(reading.after, reading.limit, sieve).await?;
    Ok(events_page(&page, names_run, None))
}

/// The filter of the feed, restricted to what the caller may see.
fn sieve(face: &Face, raw: Option<&str>) -> Result<EventFilter, Refusal> {
    let query = Query::parse(raw);
    let sieve = accept::sieve(|name| query.get(name))?;
    Ok(EventFilter { within: face.caller.narrowing.clone(), ..sieve })
}

async fn follow_feed(face: &Face, after: Option<u64>, sieve: EventFilter, id: &RequestId) -> HandlerResult {
    let subscription = match sieve.is_open() {
        true => face.engine.read().follow_feed(after).await?,
        false => face.engine.read().follow_feed_of(after, sieve).await?,
    };
    event_stream(face, subscription, Cursor::Position, id)
}

/// A read of the feed. `after_position=latest` is the current end of the feed.
async fn reading_feed(face: &Face, headers: &HeaderMap, raw: Option<&str>) -> Result<Reading, Refusal> {
    if Query::parse(raw).get(query::AFTER_POSITION) != Some(query::LATEST) {
        return reading(headers, raw, query::AFTER_POSITION);
    }
    let reading = reading(headers, raw, "")?;
    if reading.is_reconnect {
        return Ok(reading);
    }
    let latest = face.engine.read().last_position().await?;
    Ok(Reading { after: Some(latest), ..reading })
}

/// Always a stream, also for clients without an `Accept` header.
pub(super) async fn stream_feed(
    face: Face,
    RawQuery(raw): RawQuery,
    Extension(id): Extension<RequestId>,
    mut headers: HeaderMap,
) -> HandlerResult {
    headers.insert(header::ACCEPT, HeaderValue::from_static(sse::MEDIA_TYPE));
    let reading = reading_feed(&face, &headers, raw.as_deref()).await?;
    let sieve = sieve(&face, raw.as_deref())?;
    follow_feed(&face, reading.after, sieve, &id).await
}

/// A page with the gap in it: unreadable events, or pruned ones.
fn events_page(page: &EventPage, names_run: bool, pruned: Option<String>) -> Response {
    let gap = page.damage.as_ref().map(|damage| project::damaged(damage, names_run)).or(pruned);
    let next = cursor_or_none(page.next);
    json_bytes(StatusCode::OK, project::events_page(&page.events, next, page.has_more, gap))
}

/// A cursor in the form of pages; -1 is before the first event.
fn cursor_or_none(cursor: Option<u64>) -> i64 {
    cursor.map_or(-1, |cursor| i64::try_from(cursor).unwrap_or(i64::MAX))
}

fn event_stream(
    face: &Face,
    subscription: recount_engine::Subscription,
    cursor: Cursor,
    RequestId(id): &RequestId,
) -> HandlerResult {
    let Some(place) = face.face_state.streams.try_take(&face.engine.instance(), 1) else {
        return Err(Refusal {
            retry_after: Some(limits::STREAMS_RETRY),
            ..Refusal::new(
                Code::TooManyStreams,
                format!(
                    "the limit of {} open streams is reached; close one or try again later",
                    face.face_state.streams_max
                ),
            )
        });
    };
    let mut shutdown = face.engine.world().tasks.shutdown_signal(Kind::Connection);
    let mut caller = face.caller.clone();
    let over = async move {
        tokio::select! {
            () = caller.revoked() => StreamEnd::Revoked,
            () = shutdown.requested() => StreamEnd::Shutdown,
        }
    };
    let handover = stream::open(subscription, cursor, Box::pin(over), id.to_string(), place);
    let body = handover.clone().body().map(Ok::<_, std::convert::Infallible>);
    let mut response = Response::new(Body::from_stream(body));
    response.extensions_mut().insert(handover);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(sse::MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}
