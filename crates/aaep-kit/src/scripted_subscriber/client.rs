//! Connections of the scripted subscriber: handshake, stream or socket, replies, reconnecting and closing. `mind`
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

use super::mind::{Mind, Reaction, handshake};
use super::{Fault, Replies, SubscriberBehaviour, SubscriberError, SubscriberSurface};
use crate::limits;

pub(super) struct Client<'a> {
    world: &'a World,
    base: String,
    behaviour: SubscriberBehaviour,
    http: reqwest::Client,
    mind: Mind,
    last_event_id: String,
    /// For a fault: how often the terms were asked for.
    requests: u32,
}

/// Why a connection is over, or did not come about.
enum Over {
    Stopped,
    /// It broke off; come again after a pause.
    Cut,
    /// Come again after so long.
    After(Duration),
    /// The subscription is not known any more, so another one is asked for at once.
    Anew,
    Ended(SubscriberError),
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
        let mind = Mind::new(behaviour.clone());
        Ok(Client { world, base, behaviour, http, mind, last_event_id: String::new(), requests: 0 })
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
                Ok(mut line) => {
                    (pause, was_connected) = (limits::SCRIPT_PAUSE, true);
                    let over = self.follow(&mut line, stop.as_mut()).await;
                    if let Over::Stopped = over {
                        self.close(&mut line).await;
                    }
                    self.mind.cut();
                    over
                }
                Err(over) => over,
            };
            let wait = match over {
                Over::Stopped => return Ok(()),
                Over::Ended(why) => return Err(why),
                Over::Cut if was_connected && self.is(Fault::EndsAtCut) => {
                    return Err(SubscriberError("the connection was cut".into()));
                }
                Over::Anew => Duration::ZERO,
                Over::After(_) if self.is(Fault::StormsWhenRejected) => Duration::ZERO,
                Over::After(after) => after,
                Over::Cut if self.is(Fault::StormsWhenDown) => Duration::ZERO,
                Over::Cut => {
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

    async fn connect(&mut self) -> Result<EventSource, Over> {
        match self.surface() {
            SubscriberSurface::Versioned => {
                if self.mind.subscription.is_none() {
                    self.subscribe().await?;
                }
                let id = self.mind.subscription.clone().unwrap_or_default();
                let opened = self.stream(&format!("/aaep/v1/events?subscription_id={id}")).await;
                if let Err(Over::Anew) = opened {
                    self.mind.subscription = None;
                }
                opened
            }
            SubscriberSurface::LegacyBare => self.stream("/events").await,
            SubscriberSurface::Legacy => {
                let line = self.stream("/events").await?;
                let request = self.request();
                self.post("/messages", &request, true).await.map_err(|_| Over::Cut)?;
                Ok(line)
            }
            SubscriberSurface::Socket => self.socket().await,
        }
    }

    /// The handshake of the versioned surface.
    async fn subscribe(&mut self) -> Result<(), Over> {
        let request = self.request();
        let text = self.post("/aaep/v1/subscriptions", &request, true).await.map_err(|_| Over::Cut)?;
        let answer: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        self.answered(handshake(&answer).unwrap_or(Reaction::Nothing))
    }

    fn answered(&mut self, answer: Reaction) -> Result<(), Over> {
        match answer {
            Reaction::Accepted(accepted) => {
                let id = accepted.get("subscription_id").and_then(Value::as_str).map(str::to_owned);
                let rate = &accepted["honored_capabilities"]["max_events_per_second"];
                self.requests += 1;
                let lower = rate.as_u64() < Some(limits::SCRIPT_EVENTS_PER_SECOND);
                if self.is(Fault::WantsItsTerms) && lower && self.requests <= limits::SCRIPT_ASKS {
                    return Err(Over::Anew);
                }
                self.mind.subscription = id;
                Ok(())
            }
            Reaction::Rejected(after) => Err(Over::After(after)),
            _ => Err(Over::Cut),
        }
    }

    async fn stream(&mut self, path: &str) -> Result<EventSource, Over> {
        let mut request = self.http.get(format!("{}{path}", self.base));
        request = self.entitled(request).header(header::ACCEPT, recount_transport::sse::MEDIA_TYPE);
        if !self.last_event_id.is_empty() && !self.is(Fault::ResumesNowhere) {
            request = request.header("last-event-id", self.last_event_id.as_str());
        }
        let response = request.send().await.map_err(|_| Over::Cut)?;
        match response.status() {
            status if status.is_success() => {
                let decoder = Decoder::with_limits(limits::MESSAGE_BYTES_MAX, limits::MESSAGE_BYTES_MAX);
                Ok(EventSource::Stream(Box::pin(response.bytes_stream()), Box::new(decoder)))
            }
            http::StatusCode::NOT_FOUND => Err(Over::Anew),
            _ => Err(Over::Cut),
        }
    }

    async fn socket(&mut self) -> Result<EventSource, Over> {
        let ended =
            |why: &dyn std::fmt::Display| Over::Ended(SubscriberError(format!("no socket address: {why}")));
        let url = format!("{}/aaep/v1/ws", self.base.replacen("http", "ws", 1));
        let mut request = url.into_client_request().map_err(|why| ended(&why))?;
        let protocol = http::HeaderValue::from_static("aaep.v1");
        request.headers_mut().insert("sec-websocket-protocol", protocol);
        if let Some(token) = &self.behaviour.token {
            let bearer =
                http::HeaderValue::from_str(&format!("Bearer {token}")).map_err(|why| ended(&why))?;
            request.headers_mut().insert(header::AUTHORIZATION, bearer);
        }
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.map_err(|_| Over::Cut)?;
        let ask = Message::Text(self.request().to_string().into());
        socket.send(ask).await.map_err(|_| Over::Cut)?;
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let answer: Value = serde_json::from_str(text.as_str()).unwrap_or(Value::Null);
                    self.answered(handshake(&answer).unwrap_or(Reaction::Nothing))?;
                    return Ok(EventSource::Socket(Box::new(socket)));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Over::Cut),
                Some(Ok(_)) => {}
            }
        }
    }

    /// Hears and answers until the line is over.
    async fn follow(&mut self, line: &mut EventSource, mut stop: Pin<&mut impl Future<Output = ()>>) -> Over {
        loop {
            let due = self.mind.next_due();
            let texts = tokio::select! {
                texts = hear(line, self.behaviour.fault) => match texts {
                    Some(texts) => texts,
                    None => return Over::Cut,
                },
                () = async { tokio::time::sleep_until(due.unwrap_or_else(recount_world::moment)).await }, if due.is_some() => Vec::new(),
                () = &mut stop => return Over::Stopped,
            };
            for (id, text) in texts {
                if let Some(id) = id {
                    self.last_event_id = id;
                }
                match self.mind.hear(&text, recount_world::moment(), self.world.clock.now_ms()) {
                    Reaction::Nothing => {}
                    accepted @ Reaction::Accepted(_) => {
                        if let Err(over) = self.answered(accepted) {
                            return over;
                        }
                    }
                    Reaction::Rejected(after) => return Over::After(after),
                    Reaction::Closed => {
                        self.mind.subscription = None;
                        return Over::After(limits::SCRIPT_PAUSE_MAX);
                    }
                    Reaction::Ends(why) => return Over::Ended(SubscriberError(why)),
                }
            }
            for reply in self.mind.due(recount_world::moment()) {
                if self.send(line, &reply).await.is_err() {
                    return Over::Cut;
                }
            }
        }
    }

    async fn send(&self, line: &mut EventSource, message: &Value) -> Result<(), ()> {
        if let EventSource::Socket(socket) = line {
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

    /// Says that it goes.
    async fn close(&mut self, line: &mut EventSource) {
        let Some(id) = self.mind.subscription.clone() else { return };
        let id = if self.is(Fault::ClosesOther) { "sub_other".to_owned() } else { id };
        let close = json!({
            "type": "subscription.close",
            "subscription_id": id,
            "reason_code": "subscriber_shutdown",
            "reason_message": "The subscriber was told to end.",
        });
        if !self.is(Fault::LeavesSilently) {
            // The producer may be gone, too.
            self.send(line, &close).await.ok();
        }
        if let EventSource::Socket(socket) = line {
            (**socket).close(None).await.ok();
            // Read to the end: who lets go of a connection on which something lies unread resets it, and with it what
            // was said last.
            let rest = async { while let Some(Ok(_)) = socket.next().await {} };
            tokio::time::timeout(limits::SCRIPT_PARTING, rest).await.ok();
        }
    }
}

/// What comes next on a line, with its ids; `None` when the line is over.
async fn hear(line: &mut EventSource, fault: Option<Fault>) -> Option<Vec<(Option<String>, String)>> {
    match line {
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
                // Each piece is read as if nothing came before it.
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
