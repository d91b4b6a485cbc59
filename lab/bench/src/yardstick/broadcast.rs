//! Fan-out as in axum's examples: `Sse` over a `broadcast` channel, each event encoded for each reader.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::sse::{Event, Sse};
use axum::routing::get;
use futures_util::stream::{self, Stream};
use tokio::sync::broadcast;

use super::group::runtime;
use crate::clock::now_ns;
use crate::scene;

/// Events in the channel; a reader further behind loses the oldest.
const CHANNEL_EVENTS: usize = 4096;

type Message = (u64, Arc<str>);

#[derive(Clone)]
struct Shared {
    sender: broadcast::Sender<Message>,
    rate: u64,
    events: u64,
}

pub(crate) fn serve(rate: u64, events: u64) -> Result<()> {
    runtime()?.block_on(async {
        let shared = Shared { sender: broadcast::channel(CHANNEL_EVENTS).0, rate, events };
        let router = Router::new().route("/go", get(go)).fallback(get(read)).with_state(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        super::announce(listener.local_addr()?)?;
        axum::serve(listener, router).await?;
        Ok(())
    })
}

async fn read(State(shared): State<Shared>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let greeting = Event::default().event("caught_up").data("{}");
    let receiver = shared.sender.subscribe();
    let messages = stream::unfold((receiver, Some(greeting)), |(mut receiver, greeting)| async move {
        if let Some(greeting) = greeting {
            return Some((Ok(greeting), (receiver, None)));
        }
        loop {
            match receiver.recv().await {
                Ok((id, data)) => {
                    let event = Event::default().id(id.to_string()).data(&*data);
                    return Some((Ok(event), (receiver, None)));
                }
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    });
    Sse::new(messages)
}

async fn go(State(shared): State<Shared>, RawQuery(query): RawQuery) -> &'static str {
    let start = query.and_then(|query| query.strip_prefix("start=")?.parse().ok()).unwrap_or_else(now_ns);
    let mut tick = tokio::time::interval(std::time::Duration::from_millis(1));
    let mut sent = 0;
    while sent < shared.events {
        tick.tick().await;
        if now_ns() < start {
            continue;
        }
        let due = super::due(now_ns() - start, shared.rate, shared.events);
        while sent < due {
            let due_ns = start + sent * 1_000_000_000 / shared.rate;
            let text = String::from_utf8_lossy(&scene::stored(sent + 2, due_ns)).into_owned();
            // An error means that there is no listener, which is allowed.
            drop(shared.sender.send((sent + 2, text.into())));
            sent += 1;
        }
    }
    "sent"
}
