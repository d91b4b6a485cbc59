//! A test subscriber: subscribes on any surface, records everything, and answers prompts as configured.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "it is part of the tests")]

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use recount_transport::sse::Decoder;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// The surface that a subscriber uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    Legacy,
    Versioned,
    Socket,
    LegacySocket,
}

impl Surface {
    pub(crate) const ALL: [Surface; 4] =
        [Surface::Legacy, Surface::Versioned, Surface::Socket, Surface::LegacySocket];
}

/// Longer than any step takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// A subscriber.
pub(crate) struct Peer {
    pub(crate) surface: Surface,
    pub(crate) base: String,
    pub(crate) subscription: String,
    /// All messages of both sides, in order.
    pub(crate) lines: Vec<String>,
    /// Ids of the events, in order.
    pub(crate) ids: Vec<String>,
    http: reqwest::Client,
    token: Option<String>,
    outgoing: mpsc::Sender<String>,
    received: mpsc::Receiver<String>,
    reading: tokio::task::JoinHandle<()>,
}

/// All capabilities of a level 3 subscriber.
pub(crate) fn everything() -> Value {
    json!({
        "supports_confirmation_reply": true,
        "supports_clarification_reply": true,
        "supported_conformance_levels": [1, 2, 3],
        "coalesce_boundaries": ["word", "sentence", "paragraph", "completion"],
    })
}

/// One client for all tests, because creating one loads all certificates. It keeps no connection, because each test
/// has its own runtime.
pub(crate) fn http() -> reqwest::Client {
    static HTTP: std::sync::OnceLock<reqwest::Client> = std::sync::OnceLock::new();
    let make = || {
        rustls::crypto::ring::default_provider().install_default().ok();
        reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap()
    };
    HTTP.get_or_init(make).clone()
}

impl Peer {
    /// Subscribes; `capabilities` are sent in a handshake, if there is one.
    pub(crate) async fn open(base: &str, surface: Surface, capabilities: Option<Value>) -> Peer {
        Peer::with_token(base, surface, capabilities, None).await
    }

    pub(crate) async fn with_token(
        base: &str,
        surface: Surface,
        capabilities: Option<Value>,
        token: Option<&str>,
    ) -> Peer {
        let http = http();
        let token = token.map(str::to_owned);
        let request = capabilities.map(|capabilities| {
            json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "test",
                "capabilities": capabilities})
            .to_string()
        });
        let mut lines: Vec<String> = request.clone().into_iter().collect();
        let (outgoing, outgoing_receiver) = mpsc::channel::<String>(64);
        let (incoming, received) = mpsc::channel::<String>(8_192);
        let mut subscription = "sub_room".to_owned();
        let bearer = |request: reqwest::RequestBuilder| match &token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let reading = match surface {
            Surface::Legacy => {
                let stream = bearer(http.get(format!("{base}/events"))).send().await.unwrap();
                assert_eq!(stream.status(), 200);
                if let Some(request) = &request {
                    let response = bearer(http.post(format!("{base}/messages")))
                        .body(request.clone())
                        .send()
                        .await
                        .unwrap();
                    assert_eq!(response.status(), 204);
                }
                tokio::spawn(read(stream, incoming))
            }
            Surface::Versioned => {
                let request = request.clone().unwrap_or_else(|| {
                    json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "test",
                        "capabilities": everything()})
                    .to_string()
                });
                if lines.is_empty() {
                    lines.push(request.clone());
                }
                let response = bearer(http.post(format!("{base}/aaep/v1/subscriptions")))
                    .body(request)
                    .send()
                    .await
                    .unwrap();
                assert_eq!(response.status(), 201);
                let place = response.headers()["location"].to_str().unwrap().to_owned();
                let text = response.text().await.unwrap();
                let answer: Value = serde_json::from_str(&text).unwrap();
                subscription = answer["subscription_id"].as_str().unwrap().to_owned();
                lines.push(text);
                let stream = bearer(http.get(format!("{base}{place}"))).send().await.unwrap();
                assert_eq!(stream.status(), 200);
                tokio::spawn(read(stream, incoming))
            }
            Surface::Socket | Surface::LegacySocket => {
                let path = if surface == Surface::Socket { "/aaep/v1/ws" } else { "/ws" };
                let mut upgrade =
                    format!("{}{path}", base.replace("http://", "ws://")).into_client_request().unwrap();
                upgrade.headers_mut().insert("sec-websocket-protocol", "aaep.v1".parse().unwrap());
                if let Some(token) = &token {
                    upgrade.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
                }
                let (mut socket, _) = tokio_tungstenite::connect_async(upgrade).await.unwrap();
                let request = request.clone().or_else(|| {
                    (surface == Surface::Socket).then(|| {
                        json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "test",
                            "capabilities": everything()}).to_string()
                    })
                });
                if let Some(request) = request {
                    if lines.is_empty() {
                        lines.push(request.clone());
                    }
                    socket.send(Message::text(request)).await.unwrap();
                }
                tokio::spawn(talk(socket, outgoing_receiver, incoming))
            }
        };
        let mut peer = Peer {
            surface,
            base: base.into(),
            subscription,
            lines,
            ids: Vec::new(),
            http,
            token,
            outgoing,
            received,
            reading,
        };
        if !peer.lines.is_empty() && surface != Surface::Versioned {
            let answer = peer.next().await.expect("a handshake is answered");
            peer.subscription = answer["subscription_id"].as_str().unwrap_or_default().to_owned();
        }
        peer
    }

    /// The next message; `None` when the stream has ended or stays silent.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        self.next_within(PATIENCE).await
    }

    pub(crate) async fn next_within(&mut self, patience: Duration) -> Option<Value> {
        let text = tokio::time::timeout(patience, self.received.recv()).await.ok()??;
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        self.ids.extend(value["event_id"].as_str().map(str::to_owned));
        self.lines.push(text);
        Some(value)
    }

    /// Sends a message; returns status and body if there is a response.
    pub(crate) async fn send(&mut self, message: &Value) -> (u16, String) {
        let drives = message.get("kind").is_some();
        if !drives {
            self.lines.push(message.to_string());
        }
        let path = match self.surface {
            Surface::Versioned if !drives => "/aaep/v1/replies",
            Surface::Legacy | Surface::Versioned => "/messages",
            Surface::Socket | Surface::LegacySocket => {
                self.outgoing.send(message.to_string()).await.unwrap();
                return (0, String::new());
            }
        };
        self.post(path, message).await
    }

    pub(crate) async fn post(&self, path: &str, message: &Value) -> (u16, String) {
        let mut request = self.http.post(format!("{}{path}", self.base)).body(message.to_string());
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Requests a scenario.
    pub(crate) async fn input(&mut self, text: &str) {
        self.send(&json!({"kind": "user_input", "text": text})).await;
    }

    pub(crate) fn reply(&self, prompt: &Value, answer: &Value) -> Value {
        let now = recount_aaep_kit::World::real().clock.now_ms();
        let now = recount_aaep_kit::aaep::wire::Timestamp::of_millis(i64::try_from(now).unwrap());
        let mut reply = json!({"reply_token": prompt["reply_token"], "subscription_id": self.subscription,
            "timestamp": now.as_str()});
        let fields = reply.as_object_mut().unwrap();
        fields.extend(answer.as_object().unwrap().clone());
        let confirms = prompt["type"] == "aaep:agent.awaiting.confirmation";
        let kind = if confirms { "confirmation.reply" } else { "clarification.reply" };
        fields.insert("type".into(), kind.into());
        reply
    }

    /// Reads to the end of a session and answers its prompts; `null` means no reply.
    pub(crate) async fn through(&mut self, confirm: &Value, clarify: &Value) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            let kind = event["type"].as_str().unwrap_or_default().to_owned();
            let answer = match kind.as_str() {
                "aaep:agent.awaiting.confirmation" => confirm,
                "aaep:agent.awaiting.clarification" => clarify,
                _ => &Value::Null,
            };
            if !answer.is_null() {
                let reply = self.reply(&event, answer);
                self.send(&reply).await;
            }
            events.push(event);
            if ["completed", "errored", "cancelled"]
                .iter()
                .any(|end| kind.ends_with(&format!("session.{end}")))
            {
                break;
            }
        }
        events
    }

    /// Cuts the connection so that the other side notices.
    pub(crate) async fn cut(&mut self) {
        self.reading.abort();
        (&mut self.reading).await.ok();
    }

    /// Connects again with the last event id.
    pub(crate) async fn resume(&mut self, last: &str) {
        let path = match self.surface {
            Surface::Versioned => format!("/aaep/v1/events?subscription_id={}", self.subscription),
            _ => "/events".into(),
        };
        let mut request = self.http.get(format!("{}{path}", self.base)).header("last-event-id", last);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let stream = request.send().await.unwrap();
        assert_eq!(stream.status(), 200);
        let (incoming, received) = mpsc::channel(8_192);
        self.received = received;
        self.reading = tokio::spawn(read(stream, incoming));
    }
}

async fn read(stream: reqwest::Response, incoming: mpsc::Sender<String>) {
    let mut bytes = stream.bytes_stream();
    let mut decoder = Decoder::new();
    while let Some(Ok(chunk)) = bytes.next().await {
        decoder.feed(&chunk).unwrap();
        while let Some(frame) = decoder.next_frame() {
            if incoming.send(frame.data).await.is_err() {
                return;
            }
        }
    }
}

async fn talk<S>(socket: S, mut outgoing_receiver: mpsc::Receiver<String>, incoming: mpsc::Sender<String>)
where
    S: futures_util::Stream<Item = Result<Message, tokio_tungstenite::tungstenite::Error>>
        + futures_util::Sink<Message, Error = tokio_tungstenite::tungstenite::Error>,
{
    let mut socket = std::pin::pin!(socket);
    loop {
        tokio::select! {
            received = socket.next() => match received {
                Some(Ok(Message::Text(text))) => if incoming.send(text.to_string()).await.is_err() { return },
                Some(Ok(_)) => {}
                _ => return,
            },
            outgoing = outgoing_receiver.recv() => match outgoing {
                Some(text) => socket.send(Message::text(text)).await.unwrap(),
                None => return,
            },
        }
    }
}
