//! A reader of one subscription, as a stream of messages, and as an event stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, BytesMut};
use futures_util::stream;
use http::header;
use recount_transport::sse;
use tokio::sync::watch;

use super::super::Fault;
use super::super::room::{Read, Room};
use super::super::subscription::Sent;
use crate::limits;

/// Reads one subscription. When it is dropped, the reader is gone.
pub(super) struct Feed {
    room: Arc<Room>,
    id: String,
    reader: u64,
    at: u64,
    ticks: watch::Receiver<u64>,
    beat_at: tokio::time::Instant,
}

/// What a reader is to hear.
pub(super) enum Told {
    Message(Sent),
    /// That the stream lives.
    Beat,
}

impl Feed {
    /// Begins to read behind this many messages.
    pub(super) fn open(room: &Arc<Room>, id: &str, at: u64) -> Option<Feed> {
        let reader = room.attach(id)?;
        let (ticks, beat_at) = (room.ticks(), next_beat(room));
        Some(Feed { room: room.clone(), id: id.to_owned(), reader, at, ticks, beat_at })
    }

    /// The next thing to hear; `None` when the subscription is over. Nothing is lost when it is not awaited to its end.
    pub(super) async fn next(&mut self) -> Option<Told> {
        loop {
            self.ticks.borrow_and_update();
            if *self.room.stopped.borrow() {
                return None;
            }
            let due_ms = match self.room.read(&self.id, self.reader, self.at) {
                Read::Over => return None,
                Read::Message(sent) => {
                    self.at += 1;
                    self.beat_at = next_beat(&self.room);
                    self.room.noticed();
                    return Some(Told::Message(sent));
                }
                Read::Wait(due_ms) => due_ms,
            };
            let due = async {
                match due_ms {
                    Some(due_ms) => self.room.world.sleep_until_ms(due_ms).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.ticks.changed() => changed.ok()?,
                () = due => {}
                () = tokio::time::sleep_until(self.beat_at) => {
                    self.beat_at = next_beat(&self.room);
                    return Some(Told::Beat);
                }
            }
        }
    }
}

fn next_beat(room: &Room) -> tokio::time::Instant {
    let wait = if room.is(Fault::HeartbeatMissing) {
        limits::SCRIPTED_NO_BEAT_MS
    } else {
        room.behaviour.heartbeat_ms
    };
    recount_world::moment() + Duration::from_millis(wait)
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.room.detach(&self.id, self.reader);
    }
}

/// The reader as an event stream; `named` frames are `aaep.event`.
pub(super) fn event_stream(feed: Feed, named: bool) -> Response {
    let mut first = BytesMut::new();
    sse::push_comment(&mut first, "connected");
    let begin = stream::once(std::future::ready(Ok::<_, Infallible>(first.freeze())));
    let rest = stream::unfold(feed, move |mut feed| async move {
        let told = feed.next().await?;
        Some((Ok::<_, Infallible>(frame(&told, named)), feed))
    });
    let headers = [
        (header::CONTENT_TYPE, sse::MEDIA_TYPE),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(futures_util::StreamExt::chain(begin, rest))).into_response()
}

fn frame(told: &Told, named: bool) -> Bytes {
    let mut out = BytesMut::new();
    let Told::Message(sent) = told else { return Bytes::from_static(sse::HEARTBEAT) };
    if let Some(id) = &sent.id {
        if named {
            out.put_slice(b"event: aaep.event\n");
        }
        out.put_slice(b"id: ");
        out.put_slice(id.as_bytes());
        out.put_slice(b"\n");
    }
    out.put_slice(b"data: ");
    out.put_slice(sent.text.as_bytes());
    out.put_slice(b"\n\n");
    out.freeze()
}
