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
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::{HeaderValue, header};
use recount_api::problem::Problem;
use recount_event::Code;
use recount_transport::sse::{self, Decoder, Frame};
use recount_transport::{Heartbeat, limits as transport_limits};
use serde_json::{Map, Value, json};
use tokio::time::Sleep;

use crate::event_types::Subscription;
use crate::limits;
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
    /// After a fault: when the feed is opened again.
    retry: Option<Pin<Box<Sleep>>>,
    /// Since the last event.
    faults: u32,
    /// Resolves when the client loses access. One future for the whole stream, because it may have a timer.
    revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The position that the client continues from.
    cursor: u64,
    /// The last position at the time of the request. Later events are never too old.
    replay_end: u64,
    /// Whether the client knows that events are missing since the last event or heartbeat.
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
    subscription: Subscription,
) -> Result<Response, RpcError> {
    let caller = native.caller().cloned();
    let revoked = Box::pin(async move {
        match caller {
            Some(mut caller) => caller.revoked().await,
            None => std::future::pending().await,
        }
    });
    let replay_end = poll::latest(native, &subscription).await.map_err(|why| error(&why))?;
    let cursor = subscription.cursor.unwrap_or(replay_end);
    let (feed, cursor, truncated) = feed(native, &subscription, cursor).await.map_err(|why| error(&why))?;
    let push = Push {
        native: native.clone(),
        subscription,
        id,
        feed: feed.into_data_stream(),
        decoder: Decoder::new(),
        heartbeat: Heartbeat::new(transport_limits::HEARTBEAT_EVERY),
        retry: None,
        faults: 0,
        revoked,
        cursor,
        replay_end,
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

/// The feed after a position, or after the last pruned event: then the last value is true.
async fn feed(
    native: &Native,
    subscription: &Subscription,
    cursor: u64,
) -> Result<(Body, u64, bool), Failure> {
    let (cursor, truncated) = native.retained(cursor).await?;
    let feed = native.stream(&["events"], &subscription.query(&cursor.to_string(), None)).await?;
    Ok((feed, cursor, truncated))
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
            // Before each frame: one chunk of the feed may have many.
            if (&mut self.revoked).now_or_never().is_some() {
                return Some(self.forbidden());
            }
            if let Some(frame) = self.decoder.next_frame() {
                match self.piece(&frame).await {
                    Ok(None) => continue,
                    Ok(Some(piece)) => return Some(piece),
                    Err(why) => return Some(self.failed(&why)),
                }
            }
            let is_open = self.retry.is_none();
            let retry = self.retry.as_mut();
            let retried = async move {
                if let Some(retry) = retry {
                    retry.await;
                }
            };
            tokio::select! {
                biased;
                () = &mut self.revoked => return Some(self.forbidden()),
                () = retried, if !is_open => if let Some(piece) = self.reopen().await {
                    return Some(piece);
                },
                chunk = self.feed.next(), if is_open => match chunk {
                    Some(Ok(chunk)) => if let Err(why) = self.decoder.feed(&chunk) {
                        let why = format!("the feed cannot be read: {why}");
                        let why = RpcError::new(ErrorCode::Internal, 200, why);
                        return Some(self.last(Some(&why)));
                    },
                    // The server is shutting down.
                    Some(Err(_)) | None => return Some(self.last(None)),
                },
                () = self.heartbeat.due() => {
                    self.truncated = false;
                    return Some(self.notification("heartbeat", json!({ "cursor": self.cursor.to_string() })));
                }
            }
        }
    }

    /// What follows from a frame of the feed.
    async fn piece(&mut self, frame: &Frame) -> Result<Option<Bytes>, Failure> {
        let position = frame.id.as_deref().and_then(|id| id.parse::<u64>().ok());
        let data = || serde_json::from_str::<Value>(&frame.data).unwrap_or_default();
        match frame.event.as_deref() {
            None => {}
            Some("gap") => {
                self.passed(data()["last_position"].as_u64());
                return Ok(Some(self.missing()));
            }
            Some("error") => {
                let problem = serde_json::from_str::<Problem>(&frame.data);
                let unknown = |_| Failure::new(Code::Internal, self.native.masked(&frame.data));
                return Err(problem.map_or_else(unknown, Failure::from));
            }
            // A mark of a position without an event.
            Some(_) => {
                self.passed(position.or_else(|| data()["position"].as_u64()));
                return Ok(None);
            }
        }
        if position.is_some_and(|position| position > self.replay_end) {
            self.subscription.oldest_ms = None;
        }
        let look = poll::occurrence(&self.native, &self.subscription, &frame.data).await?;
        self.passed(position);
        self.faults = 0;
        Ok(match look {
            Look::Occurred(mut event) => {
                self.truncated = false;
                event["cursor"] = self.cursor.to_string().into();
                Some(self.notification("event", event))
            }
            Look::Skipped if self.truncated => None,
            Look::Skipped => Some(self.missing()),
            Look::Other => None,
        })
    }

    fn passed(&mut self, position: Option<u64>) {
        self.cursor = self.cursor.max(position.unwrap_or_default());
    }

    /// Continues from the cursor after a wait if that can help; otherwise the subscription ends.
    fn failed(&mut self, why: &Failure) -> Bytes {
        let why_rpc = error(why);
        if !why.retryable {
            return self.last(Some(&why_rpc));
        }
        self.faults += 1;
        if self.faults > limits::STREAM_FAULTS_MAX {
            return self.last(None);
        }
        self.feed = Body::empty().into_data_stream();
        self.decoder = Decoder::new();
        self.retry = Some(Box::pin(tokio::time::sleep(limits::STREAM_FAULT_WAIT)));
        self.notification("error", error_param(&why_rpc))
    }

    async fn reopen(&mut self) -> Option<Bytes> {
        self.retry = None;
        match feed(&self.native, &self.subscription, self.cursor).await {
            Ok((feed, cursor, truncated)) => {
                self.feed = feed.into_data_stream();
                self.cursor = cursor;
                truncated.then(|| self.missing())
            }
            Err(why) => Some(self.failed(&why)),
        }
    }

    fn forbidden(&mut self) -> Bytes {
        let why = "the token of this subscription was revoked or has expired";
        self.last(Some(&RpcError::new(ErrorCode::Forbidden, 200, why)))
    }

    fn active(&self) -> Bytes {
        self.notification("active", json!({ "cursor": self.cursor.to_string(), "truncated": self.truncated }))
    }

    /// Notes that events before the cursor are missing.
    fn missing(&mut self) -> Bytes {
        self.truncated = true;
        self.active()
    }

    /// The result of the request, after a notification if the client is not to come again.
    fn last(&mut self, why: Option<&RpcError>) -> Bytes {
        self.state = State::Over;
        let mut out = Vec::new();
        if let Some(why) = why {
            out.extend_from_slice(&self.notification("terminated", error_param(why)));
        }
        let mut result = project::response(&self.id, ProtocolEra::Stateless, json!({}), false);
        result["result"]["_meta"][META_SUBSCRIPTION] = self.id.clone();
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

fn error_param(why: &RpcError) -> Value {
    json!({ "error": why.to_json(&Value::Null)["error"] })
}

/// A message as a frame. JSON has no line breaks here.
fn framed(message: &Value) -> Bytes {
    format!("data: {message}\n\n").into()
}
