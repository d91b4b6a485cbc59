//! `events/stream` of MCP Events: the events of a subscription as notifications, while the client keeps the response open.
//! Start at [`open`].
//!
//! It reads the feed as a stream of the native face, as the client, so the limit of open streams, the filter and the end at
//! a shutdown are those of other streams.

use std::convert::Infallible;
use std::pin::Pin;

use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, header};
use recount_event::Code;
use recount_transport::sse::{self, Decoder, Frame};
use recount_transport::{Heartbeat, limits};
use serde_json::{Map, Value, json};

use crate::event_types::Subscription;
use crate::native::{Failure, Native};
use crate::poll::{self, Look, error};
use crate::project;
use crate::wire::{ErrorCode, META_SUBSCRIPTION, ProtocolEra, RpcError};

/// An open subscription.
struct Push {
    native: Native,
    subscription: Subscription,
    /// Of the request.
    id: Value,
    feed: BodyDataStream,
    decoder: Decoder,
    heartbeat: Heartbeat,
    /// Resolves when the client loses access. One future for the whole stream, because it may have a timer.
    revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The position that the client continues from.
    cursor: u64,
    /// Whether the client knows that events are missing.
    truncated: bool,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Opened,
    Active,
    Over,
}

/// The response to `events/stream`: notifications until the client ends it, or the server, with an empty result.
pub(crate) async fn open(
    native: &Native,
    id: Value,
    mut subscription: Subscription,
) -> Result<Response, RpcError> {
    let caller = native.caller().cloned();
    let revoked = Box::pin(async move {
        match caller {
            Some(mut caller) => caller.revoked().await,
            None => std::future::pending().await,
        }
    });
    let cursor = match subscription.cursor {
        Some(cursor) => cursor,
        None => poll::latest(native, &subscription).await.map_err(|why| error(&why))?,
    };
    subscription.cursor = Some(cursor);
    let (feed, cursor, truncated) = feed(native, &subscription, cursor).await.map_err(|why| error(&why))?;
    let push = Push {
        native: native.clone(),
        subscription,
        id,
        feed: feed.into_data_stream(),
        decoder: Decoder::new(),
        heartbeat: Heartbeat::new(limits::HEARTBEAT_EVERY),
        revoked,
        cursor,
        truncated,
        state: State::Opened,
    };
    let pieces = stream::unfold(push, |mut push| async move {
        let piece = push.next().await?;
        push.heartbeat.sent();
        Some((Ok::<_, Infallible>(piece), push))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(sse::MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The feed after a position, or after the first event that is still stored: then the last value is true.
async fn feed(
    native: &Native,
    subscription: &Subscription,
    cursor: u64,
) -> Result<(Body, u64, bool), Failure> {
    match native.stream(&["events"], &subscription.query(&cursor.to_string(), None)).await {
        Err(why) if why.is(&[Code::CursorPruned]) => {
            Ok((native.stream(&["events"], &subscription.query("0", None)).await?, 0, true))
        }
        opened => Ok((opened?, cursor, false)),
    }
}

impl Push {
    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            State::Over => return None,
            State::Opened => {
                self.state = State::Active;
                return Some(self.active());
            }
            State::Active => {}
        }
        loop {
            while let Some(frame) = self.decoder.next_frame() {
                if let Some(piece) = self.piece(&frame).await {
                    return Some(piece);
                }
            }
            tokio::select! {
                biased;
                () = &mut self.revoked => {
                    let why = "the token of this subscription was revoked or has expired";
                    let why = RpcError::new(ErrorCode::Forbidden, 200, why);
                    return Some(self.last(Some(("terminated", &why))));
                }
                chunk = self.feed.next() => match chunk {
                    Some(Ok(chunk)) => if let Err(why) = self.decoder.feed(&chunk) {
                        let why = RpcError::new(ErrorCode::Internal, 200, format!("the feed cannot be read: {why}"));
                        return Some(self.last(Some(("error", &why))));
                    },
                    // The server is shutting down.
                    Some(Err(_)) | None => return Some(self.last(None)),
                },
                () = self.heartbeat.due() => {
                    return Some(self.notification("heartbeat", json!({ "cursor": self.cursor.to_string() })));
                }
            }
        }
    }

    /// What follows from a frame of the feed.
    async fn piece(&mut self, frame: &Frame) -> Option<Bytes> {
        let position = frame.id.as_deref().and_then(|id| id.parse::<u64>().ok());
        match frame.event.as_deref() {
            None => {}
            Some("gap") => return self.missing(),
            Some("error") => {
                let why = RpcError::new(ErrorCode::Internal, 200, self.native.masked(&frame.data));
                return Some(self.last(Some(("error", &why))));
            }
            // A mark of a position without an event.
            Some(_) => {
                let data: Value = serde_json::from_str(&frame.data).unwrap_or_default();
                self.cursor = self.cursor.max(position.or(data["position"].as_u64()).unwrap_or_default());
                return None;
            }
        }
        match poll::occurrence(&self.native, &self.subscription, &frame.data).await {
            Ok(look) => {
                self.cursor = self.cursor.max(position.unwrap_or_default());
                match look {
                    Look::Occurred(mut event) => {
                        event["cursor"] = self.cursor.to_string().into();
                        Some(self.notification("event", event))
                    }
                    Look::Skipped => self.missing(),
                    Look::Other => None,
                }
            }
            // The client comes again with the cursor before this event.
            Err(why) => Some(self.last(Some(("error", &error(&why))))),
        }
    }

    fn active(&self) -> Bytes {
        self.notification("active", json!({ "cursor": self.cursor.to_string(), "truncated": self.truncated }))
    }

    /// Notes that events are missing; once is enough.
    fn missing(&mut self) -> Option<Bytes> {
        let is_new = !std::mem::replace(&mut self.truncated, true);
        is_new.then(|| self.active())
    }

    /// A notification of why the stream ends, and the result of the request.
    fn last(&mut self, why: Option<(&str, &RpcError)>) -> Bytes {
        self.state = State::Over;
        let mut out = Vec::new();
        if let Some((name, why)) = why {
            let error = why.to_json(&Value::Null)["error"].take();
            out.extend_from_slice(&self.notification(name, json!({ "error": error })));
        }
        let result = project::response(&self.id, ProtocolEra::Stateless, json!({}), false);
        out.extend_from_slice(&framed(&result));
        out.into()
    }

    fn notification(&self, name: &str, mut params: Value) -> Bytes {
        let mut meta = Map::new();
        meta.insert(META_SUBSCRIPTION.to_owned(), self.id.clone());
        params["_meta"] = meta.into();
        framed(
            &json!({ "jsonrpc": "2.0", "method": format!("notifications/events/{name}"), "params": params }),
        )
    }
}

/// A message as a frame. JSON has no line breaks here.
fn framed(message: &Value) -> Bytes {
    format!("data: {message}\n\n").into()
}
