//! Event streams: a reader's items as frames of `text/event-stream`. Frames end with LF alone, because subscribers in
//! use split at it.

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

use crate::{Feed, Item, Place, Problem, Producer, Route};

/// `GET /events`
pub(super) async fn of_room<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    if method == Method::HEAD {
        return event_stream(Body::empty());
    }
    open(producer, &caller, Place::Room, &headers).await
}

#[derive(serde::Deserialize)]
pub(super) struct Which {
    subscription_id: Option<String>,
}

/// `GET /aaep/v1/events`
pub(super) async fn of_subscription<P: Producer>(
    State(producer): State<Arc<P>>,
    Extension(caller): Extension<P::Caller>,
    method: Method,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Response {
    let Some(id) = which.subscription_id else {
        return producer.refusal(Problem::SubscriptionMissing, Route::Events);
    };
    if method == Method::HEAD && producer.knows(&caller, &id).await {
        return event_stream(Body::empty());
    }
    open(producer, &caller, Place::Subscription(&id), &headers).await
}

async fn open<P: Producer>(
    producer: Arc<P>,
    caller: &P::Caller,
    place: Place<'_>,
    headers: &HeaderMap,
) -> Response {
    let (name, route) = match place {
        // Subscribers in use listen for frames without a name.
        Place::Room | Place::RoomSocket => (None, Route::Room),
        Place::Subscription(_) | Place::Socket(_) => (Some("aaep.event"), Route::Events),
    };
    let last = headers.get("last-event-id").map(|id| String::from_utf8_lossy(id.as_bytes()));
    let feed = match producer.open(caller, place, last.as_deref()).await {
        Ok(feed) => feed,
        Err(problem) => return producer.refusal(problem, route),
    };
    let piece = |bytes| Piece { bytes, cursor: None };
    let first = stream::once(ready(piece(Bytes::from_static(b": connected\n\n"))));
    let rest = stream::unfold((feed, false), move |(mut feed, over)| {
        let producer = producer.clone();
        async move {
            if over {
                return None;
            }
            let (bytes, over) = write_of(&*producer, &mut feed, name).await;
            // The reader stays until what it was given is written.
            (!(over && bytes.is_empty())).then_some((piece(bytes), (feed, over)))
        }
    });
    // A server may take it out of the HTTP library, whose buffers are most of what a quiet stream costs.
    let handover = Handover::new(Box::pin(first.chain(rest)));
    let body = handover.clone().body().map(Ok::<_, Infallible>);
    let mut response = event_stream(Body::from_stream(body));
    response.extensions_mut().insert(handover);
    response
}

/// The next write: one item, and what is ready after it; and whether the stream is over then.
async fn write_of<P: Producer>(
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

/// One frame; the text holds no line end.
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
