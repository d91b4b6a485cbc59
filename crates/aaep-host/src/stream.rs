//! Event stream routes: writes the items of a feed as frames of `text/event-stream`. Frames end with LF only, because
//! existing subscribers split at it.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Query, State};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use http::Method;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName};
use recount_transport::{Handover, Piece, sse};

use crate::{Feed, Item, Problem, Producer, Route, StreamRoute};

/// `GET /events`
pub(super) async fn legacy<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    if method == Method::HEAD {
        return event_stream(Body::empty());
    }
    open(producer, &caller, StreamRoute::Legacy, &headers).await
}

#[derive(serde::Deserialize)]
pub(super) struct EventsQuery {
    subscription_id: Option<String>,
}

/// `GET /aaep/v1/events`
pub(super) async fn versioned<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
    method: Method,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Response {
    let Some(id) = query.subscription_id else {
        return producer.refusal(Problem::SubscriptionMissing, Route::Events);
    };
    if method == Method::HEAD && producer.has_subscription(&caller, &id).await {
        return event_stream(Body::empty());
    }
    open(producer, &caller, StreamRoute::Subscription(&id), &headers).await
}

async fn open<P: Producer>(
    producer: Arc<P>,
    caller: &P::Caller,
    stream_route: StreamRoute<'_>,
    headers: &HeaderMap,
) -> Response {
    let (name, route) = match stream_route {
        // Existing subscribers listen for frames without a name.
        StreamRoute::Legacy | StreamRoute::LegacySocket => (None, Route::Legacy),
        StreamRoute::Subscription(_) | StreamRoute::Socket(_) => (Some("aaep.event"), Route::Events),
    };
    let last = headers.get("last-event-id").map(|id| String::from_utf8_lossy(id.as_bytes()));
    let feed = match producer.open(caller, stream_route, last.as_deref()).await {
        Ok(feed) => feed,
        Err(problem) => return producer.refusal(problem, route),
    };
    let piece = |bytes| Piece { bytes, cursor: None };
    let first = stream::once(ready(piece(Bytes::from_static(b": connected\n\n"))));
    let rest = stream::unfold((feed, false), move |(mut feed, has_ended)| {
        let producer = producer.clone();
        async move {
            if has_ended {
                return None;
            }
            let (bytes, has_ended) = next_write(&*producer, &mut feed, name).await;
            // Keeps the feed until its last bytes are written.
            (!(has_ended && bytes.is_empty())).then_some((piece(bytes), (feed, has_ended)))
        }
    });
    // A server may take the stream out of the HTTP library, whose buffers are most of the cost of an idle stream.
    let handover = Handover::new(Box::pin(first.chain(rest)));
    let body = handover.clone().body().map(Ok::<_, Infallible>);
    let mut response = event_stream(Body::from_stream(body));
    response.extensions_mut().insert(handover);
    response
}

/// Builds the next write from one item and the items that are ready after it. Also returns whether the stream has
/// ended.
async fn next_write<P: Producer>(
    producer: &P,
    feed: &mut P::Feed,
    name: Option<&'static str>,
) -> (Bytes, bool) {
    let policy = producer.policy();
    let item = match policy.heartbeat {
        None => Some(feed.next().await),
        Some(silence) => tokio::time::timeout(silence, feed.next()).await.ok(),
    };
    let Some(item) = item else { return (Bytes::from_static(sse::HEARTBEAT), false) };
    let (mut out, mut next) = (BytesMut::new(), Some(item));
    while let Some(item) = next {
        match item {
            Item::Event { id, text } => push(&mut out, name, id.as_deref(), &text),
            Item::Message(text) => push(&mut out, None, None, &text),
            Item::Raw(bytes) => out.put_slice(&bytes),
            Item::End(_) => return (out.freeze(), true),
        }
        next = if out.len() < policy.write_bytes { feed.ready() } else { None };
    }
    (out.freeze(), false)
}

/// Appends one frame; the text must not contain a line end.
fn push(out: &mut BytesMut, name: Option<&str>, id: Option<&str>, text: &[u8]) {
    for (field, value) in [("event: ", name), ("id: ", id)] {
        if let Some(value) = value {
            out.put_slice(field.as_bytes());
            out.put_slice(value.as_bytes());
            out.put_slice(b"\n");
        }
    }
    out.put_slice(b"data: ");
    out.put_slice(text);
    out.put_slice(b"\n\n");
}

fn event_stream(body: Body) -> Response {
    let accel = HeaderName::from_static("x-accel-buffering");
    ([(CONTENT_TYPE, sse::MEDIA_TYPE), (CACHE_CONTROL, "no-cache"), (accel, "no")], body).into_response()
}
