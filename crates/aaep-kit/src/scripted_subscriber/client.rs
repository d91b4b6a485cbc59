//! Connections of the scripted subscriber: handshake, stream or socket, replies, reconnecting and closing. `reactions`
//! decides what messages mean.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, Stream, StreamExt};
use http::header;
use recount_transport::sse::Decoder;
use recount_world::World;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::reactions::{Reaction, Reactions, handshake};
use super::{Fault, Replies, SubscriberBehaviour, SubscriberError, SubscriberSurface};
use crate::limits;

pub(super) struct Client<'a> {
    world: &'a World,
    base: String,
    behaviour: SubscriberBehaviour,
    http: reqwest::Client,
    reactions: Reactions,
    last_event_id: String,
    /// For a fault: how often the terms were requested.
    requests: u32,
}

/// Why a connection ended or could not be opened.
enum Disconnect {
    Stopped,
    /// It broke; reconnect after a pause.
    Cut,
    /// Reconnect after this long.
    After(Duration),
    /// The subscription is unknown, so request another one at once.
    Resubscribe,
    Failed(SubscriberError),
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;
type Bodies = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

enum EventSource {
    Stream(Bodies, Box<Decoder>),
    Socket(Box<Socket>),
}

impl<'a> Client<'a> {
    pub(super) fn new(
        world: &'a World,
        url: &str,
        behaviour: SubscriberBehaviour,
    ) -> Result<Client<'a>, SubscriberError> {
        let http = crate::conformance::subscriber::push::client(None)
            .map_err(|why| SubscriberError(format!("no client for `{url}`: {why}")))?;
        let base = url.trim_end_matches('/').to_owned();
        let reactions = Reactions::new(behaviour.clone());
        Ok(Client { world, base, behaviour, http, reactions, last_event_id: String::new(), requests: 0 })
    }

    fn is(&self, fault: Fault) -> bool {
        self.behaviour.fault == Some(fault)
    }

    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), SubscriberError> {
        let mut stop = pin!(stop);
        let mut pause = limits::SCRIPT_PAUSE;
        let mut was_connected = false;
        loop {
            let connected = tokio::select! {
                connected = self.connect() => connected,
                () = &mut stop => return Ok(()),
            };
            let over = match connected {
                Ok(mut source) => {
                    (pause, was_connected) = (limits::SCRIPT_PAUSE, true);
                    let over = self.follow(&mut source, stop.as_mut()).await;
                    if let Disconnect::Stopped = over {
                        self.close(&mut source).await;
                    }
                    self.reactions.cut();
                    over
                }
                Err(over) => over,
            };
            let wait = match over {
                Disconnect::Stopped => return Ok(()),
                Disconnect::Failed(why) => return Err(why),
                Disconnect::Cut if was_connected && self.is(Fault::EndsAtCut) => {
                    return Err(SubscriberError("the connection was cut".into()));
                }
                Disconnect::Resubscribe => Duration::ZERO,
                Disconnect::After(_) if self.is(Fault::StormsWhenRejected) => Duration::ZERO,
                Disconnect::After(after) => after,
                Disconnect::Cut if self.is(Fault::StormsWhenDown) => Duration::ZERO,
                Disconnect::Cut => {
                    let wait = pause;
                    pause = (pause * 2).min(limits::SCRIPT_PAUSE_MAX);
                    wait
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = &mut stop => return Ok(()),
            }
        }
    }

    fn surface(&self) -> SubscriberSurface {
        match (self.behaviour.surface, self.is(Fault::OpensUnasked)) {
            (SubscriberSurface::Versioned | SubscriberSurface::Legacy, true) => SubscriberSurface::LegacyBare,
            (surface, _) => surface,
        }
    }

    fn request(&self) -> Value {
        let levels: Vec<u8> = (1..=self.behaviour.level).collect();
        let replies = self.behaviour.replies != Replies::Never || self.behaviour.level >= 2;
        let mut request = json!({
            "type": "subscription.request",
            "aaep_version": recount_aaep::VERSION,
            "subscriber_id": "scripted-subscriber",
            "subscriber_name": "Scripted subscriber",
            "subscriber_version": env!("CARGO_PKG_VERSION"),
            "capabilities": {
                "max_events_per_second": limits::SCRIPT_EVENTS_PER_SECOND,
                "supports_confirmation_reply": replies && !self.is(Fault::DeniesReplies),
                "supports_clarification_reply": replies,
                "supported_conformance_levels": levels,
            },
        });
        if let (true, Some(fields)) = (self.is(Fault::AsksWithoutCapabilities), request.as_object_mut()) {
            fields.remove("capabilities");
        }
        request
    }

    fn entitled(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.behaviour.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn connect(&mut self) -> Result<EventSource, Disconnect> {
        match self.surface() {
            SubscriberSurface::Versioned => {
                if self.reactions.subscription.is_none() {
                    self.subscribe().await?;
                }
                let id = self.reactions.subscription.clone().unwrap_or_default();
                let opened = self.stream(&format!("/aaep/v1/events?subscription_id={id}")).await;
                if let Err(Disconnect::Resubscribe) = opened {
                    self.reactions.subscription = None;
                }
                opened
            }
            SubscriberSurface::LegacyBare => self.stream("/events").await,
            SubscriberSurface::Legacy => {
                let source = self.stream("/events").await?;
                let request = self.request();
                self.post("/messages", &request, true).await.map_err(|_| Disconnect::Cut)?;
                Ok(source)
            }
            SubscriberSurface::Socket => self.socket().await,
        }
    }

    /// The handshake of the versioned surface.
    async fn subscribe(&mut self) -> Result<(), Disconnect> {
        let request = self.request();
        let text = self.post("/aaep/v1/subscriptions", &request, true).await.map_err(|_| Disconnect::Cut)?;
        let answer: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        self.answered(handshake(&answer).unwrap_or(Reaction::Nothing))
    }

    fn answered(&mut self, answer: Reaction) -> Result<(), Disconnect> {
        match answer {
            Reaction::Accepted(accepted) => {
                let id = accepted.get("subscription_id").and_then(Value::as_str).map(str::to_owned);
                let rate = &accepted["honored_capabilities"]["max_events_per_second"];
                self.requests += 1;
                let lower = rate.as_u64() < Some(limits::SCRIPT_EVENTS_PER_SECOND);
                if self.is(Fault::WantsItsTerms) && lower && self.requests <= limits::SCRIPT_ASKS {
                    return Err(Disconnect::Resubscribe);
                }
                self.reactions.subscription = id;
                Ok(())
            }
            Reaction::Rejected(after) => Err(Disconnect::After(after)),
            _ => Err(Disconnect::Cut),
        }
    }

    async fn stream(&mut self, path: &str) -> Result<EventSource, Disconnect> {
        let mut request = self.http.get(format!("{}{path}", self.base));
        request = self.entitled(request).header(header::ACCEPT, recount_transport::sse::MEDIA_TYPE);
        if !self.last_event_id.is_empty() && !self.is(Fault::ResumesNowhere) {
            request = request.header("last-event-id", self.last_event_id.as_str());
        }
        let response = request.send().await.map_err(|_| Disconnect::Cut)?;
        match response.status() {
            status if status.is_success() => {
                let decoder = Decoder::with_limits(limits::MESSAGE_BYTES_MAX, limits::MESSAGE_BYTES_MAX);
                Ok(EventSource::Stream(Box::pin(response.bytes_stream()), Box::new(decoder)))
            }
            http::StatusCode::NOT_FOUND => Err(Disconnect::Resubscribe),
            _ => Err(Disconnect::Cut),
        }
    }

    async fn socket(&mut self) -> Result<EventSource, Disconnect> {
        let ended = |why: &dyn std::fmt::Display| {
            Disconnect::Failed(SubscriberError(format!("no socket address: {why}")))
        };
        let url = format!("{}/aaep/v1/ws", self.base.replacen("http", "ws", 1));
        let mut request = url.into_client_request().map_err(|why| ended(&why))?;
        let protocol = http::HeaderValue::from_static("aaep.v1");
        request.headers_mut().insert("sec-websocket-protocol", protocol);
        if let Some(token) = &self.behaviour.token {
            let bearer =
                http::HeaderValue::from_str(&format!("Bearer {token}")).map_err(|why| ended(&why))?;
            request.headers_mut().insert(header::AUTHORIZATION, bearer);
        }
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.map_err(|_| Disconnect::Cut)?;
        let ask = Message::Text(self.request().to_string().into());
        socket.send(ask).await.map_err(|_| Disconnect::Cut)?;
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let answer: Value = serde_json::from_str(text.as_str()).unwrap_or(Value::Null);
                    self.answered(handshake(&answer).unwrap_or(Reaction::Nothing))?;
                    return Ok(EventSource::Socket(Box::new(socket)));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Disconnect::Cut),
                Some(Ok(_)) => {}
            }
        }
    }

    /// Receives and answers messages until the connection ends.
    async fn follow(
        &mut self,
        source: &mut EventSource,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Disconnect {
        loop {
            let due = self.reactions.next_due();
            let reply_is_due =
                async { tokio::time::sleep_until(due.unwrap_or_else(recount_world::moment)).await };
            let texts = tokio::select! {
                texts = receive(source, self.behaviour.fault) => match texts {
                    Some(texts) => texts,
                    None => return Disconnect::Cut,
                },
                () = reply_is_due, if due.is_some() => Vec::new(),
                () = &mut stop => return Disconnect::Stopped,
            };
            for (id, text) in texts {
                if let Some(id) = id {
                    self.last_event_id = id;
                }
                match self.reactions.handle(&text, recount_world::moment(), self.world.clock.now_ms()) {
                    Reaction::Nothing => {}
                    accepted @ Reaction::Accepted(_) => {
                        if let Err(over) = self.answered(accepted) {
                            return over;
                        }
                    }
                    Reaction::Rejected(after) => return Disconnect::After(after),
                    Reaction::Closed => {
                        self.reactions.subscription = None;
                        return Disconnect::After(limits::SCRIPT_PAUSE_MAX);
                    }
                    Reaction::Ends(why) => return Disconnect::Failed(SubscriberError(why)),
                }
            }
            for reply in self.reactions.due(recount_world::moment()) {
                if self.send(source, &reply).await.is_err() {
                    return Disconnect::Cut;
                }
            }
        }
    }

    async fn send(&self, source: &mut EventSource, message: &Value) -> Result<(), ()> {
        if let EventSource::Socket(socket) = source {
            return socket.send(Message::Text(message.to_string().into())).await.map_err(|_| ());
        }
        let path =
            if self.surface() == SubscriberSurface::Versioned { "/aaep/v1/replies" } else { "/messages" };
        let entitled = !self.is(Fault::RepliesWithoutToken);
        self.post(path, message, entitled).await.map(|_| ())
    }

    async fn post(&self, path: &str, message: &Value, entitled: bool) -> Result<String, ()> {
        let mut request = self.http.post(format!("{}{path}", self.base));
        if entitled {
            request = self.entitled(request);
        }
        let request = request.header(header::CONTENT_TYPE, "application/json").body(message.to_string());
        let response = request.send().await.map_err(|_| ())?;
        response.text().await.map_err(|_| ())
    }

    /// Sends a close message.
    async fn close(&mut self, source: &mut EventSource) {
        let Some(id) = self.reactions.subscription.clone() else { return };
        let id = if self.is(Fault::ClosesOther) { "sub_other".to_owned() } else { id };
        let close = json!({
            "type": "subscription.close",
            "subscription_id": id,
            "reason_code": "subscriber_shutdown",
            "reason_message": "The subscriber was told to end.",
        });
        if !self.is(Fault::LeavesSilently) {
            // The producer may have ended, too.
            self.send(source, &close).await.ok();
        }
        if let EventSource::Socket(socket) = source {
            (**socket).close(None).await.ok();
            // Read to the end: closing a socket with unread data resets it, which can drop the last message sent.
            let rest = async { while let Some(Ok(_)) = socket.next().await {} };
            tokio::time::timeout(limits::SCRIPT_PARTING, rest).await.ok();
        }
    }
}

/// The next messages of a connection with their ids; `None` at its end.
async fn receive(source: &mut EventSource, fault: Option<Fault>) -> Option<Vec<(Option<String>, String)>> {
    match source {
        EventSource::Socket(socket) => loop {
            match socket.next().await? {
                Ok(Message::Text(text)) => return Some(vec![(None, text.as_str().to_owned())]),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        },
        EventSource::Stream(bodies, decoder) => loop {
            let chunk = bodies.next().await?.ok()?;
            if fault == Some(Fault::ReadsWrites) {
                // Read each piece as if nothing came before it.
                **decoder = Decoder::with_limits(limits::MESSAGE_BYTES_MAX, limits::MESSAGE_BYTES_MAX);
            }
            decoder.feed(&chunk).ok()?;
            let mut texts = Vec::new();
            while let Some(frame) = decoder.next_frame() {
                texts.push((frame.id, frame.data));
            }
            if !texts.is_empty() {
                return Some(texts);
            }
        },
    }
}
