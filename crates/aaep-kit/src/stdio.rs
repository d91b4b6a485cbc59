//! Bridges a producer over HTTP to a program that speaks JSON-RPC 2.0 on standard input and output, one object per
//! line. After a lost connection it resumes after the last event that was written.
//!
//! It forwards messages and reads only their `type`. It does not depend on the producer. See [`serve`].

mod lines;

use recount_aaep::negotiate::{Reason, Refusal};
use recount_aaep::wire::{SubscriptionClose, SubscriptionId};
use recount_world::World;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Duration, Instant};

use self::lines::{InputLine, InputLines};
use crate::glance::Glance;
use crate::limits;
use crate::link::{Dial, Link, LinkError, ReceivedMessage, Target};

/// Error codes of JSON-RPC.
const PARSE_ERROR: i64 = -32_700;
const INVALID_REQUEST: i64 = -32_600;
const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;

/// A line from the program.
#[derive(Deserialize)]
struct Call<'l> {
    /// Responses have none.
    #[serde(borrow, default)]
    method: Option<std::borrow::Cow<'l, str>>,
    #[serde(borrow, default)]
    id: Option<&'l RawValue>,
    #[serde(borrow, default)]
    params: Option<&'l RawValue>,
    #[serde(borrow, default)]
    result: Option<&'l RawValue>,
    #[serde(borrow, default)]
    error: Option<&'l RawValue>,
}

/// Serves until the input ends; then closes the subscription.
pub async fn serve(
    world: &World,
    target: &Target,
    token: Option<&str>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> std::io::Result<()> {
    let dial = Dial { token: token.map(str::to_owned), ..Dial::to(target.clone()) };
    let written_at = recount_world::moment();
    let mut bridge = Bridge { world, dial, output, subscribed: None, written_at, pings: 0 };
    let mut lines = InputLines::new(input);
    loop {
        let silent_until = bridge.written_at + limits::STDIO_PING_EVERY;
        let received = async {
            match &mut bridge.subscribed {
                Some(subscribed) => subscribed.link.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            line = lines.next() => match line? {
                InputLine::Text(line) => bridge.handle_line(&line).await?,
                InputLine::TooLong => {
                    let message = format!("a line is longer than {} bytes", limits::MESSAGE_BYTES_MAX);
                    bridge.send_error(None, PARSE_ERROR, &message).await?;
                }
                InputLine::End => break,
            },
            received = received => bridge.forward(received).await?,
            () = tokio::time::sleep_until(silent_until) => bridge.ping().await?,
        }
    }
    if let Some(mut subscribed) = bridge.subscribed.take() {
        let close = close(&subscribed, "subscriber_shutdown", "the input has ended");
        // If this is lost, the subscription expires soon.
        subscribed.link.send(&close).await.ok();
    }
    Ok(())
}

struct Bridge<'w, W> {
    world: &'w World,
    dial: Dial,
    output: W,
    subscribed: Option<Subscribed>,
    /// When the last line was written.
    written_at: Instant,
    pings: u64,
}

struct Subscribed {
    link: Link,
    id: String,
    last_event_id: Option<String>,
    /// Consecutive connections without any message.
    empty_connections: u32,
}

impl<W: AsyncWrite + Unpin> Bridge<'_, W> {
    async fn write(&mut self, object: Value) -> std::io::Result<()> {
        self.write_text(&object.to_string()).await
    }

    async fn write_text(&mut self, text: &str) -> std::io::Result<()> {
        self.output.write_all(text.as_bytes()).await?;
        self.output.write_all(b"\n").await?;
        self.output.flush().await?;
        self.written_at = recount_world::moment();
        Ok(())
    }

    /// Sends a heartbeat. Its response is ignored.
    async fn ping(&mut self) -> std::io::Result<()> {
        self.pings += 1;
        self.write(json!({ "jsonrpc": "2.0", "id": format!("ping-{}", self.pings), "method": "aaep.ping" }))
            .await
    }

    /// Sends the error of a call. JSON-RPC forbids responses to notifications.
    async fn fail(&mut self, id: Option<&RawValue>, code: i64, message: &str) -> std::io::Result<()> {
        match id {
            Some(_) => self.send_error(id, code, message).await,
            None => Ok(()),
        }
    }

    /// Sends an error; without an id for a line that is not a call.
    async fn send_error(&mut self, id: Option<&RawValue>, code: i64, message: &str) -> std::io::Result<()> {
        let error = json!({ "code": code, "message": message });
        self.write(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await
    }

    async fn succeed(&mut self, id: Option<&RawValue>, result: &str) -> std::io::Result<()> {
        let Some(id) = id else { return Ok(()) };
        match serde_json::from_str::<&RawValue>(result) {
            Ok(result) => {
                self.write_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).await
            }
            Err(_) => {
                self.fail(Some(id), INVALID_REQUEST, "the producer returned a response that is not JSON")
                    .await
            }
        }
    }

    /// Handles a line from the program.
    async fn handle_line(&mut self, line: &str) -> std::io::Result<()> {
        let call: Call<'_> = match serde_json::from_str(line) {
            Ok(call) => call,
            Err(why) => {
                let message = format!("the line is not a JSON-RPC request: {why}");
                return self.send_error(None, PARSE_ERROR, &message).await;
            }
        };
        let (id, params) = (call.id, call.params.map(RawValue::get));
        let Some(method) = call.method.as_deref() else {
            let responds = call.result.is_some() || call.error.is_some();
            let message = "`method` is missing; it is the name of the call, such as aaep.subscribe";
            return if responds { Ok(()) } else { self.send_error(id, INVALID_REQUEST, message).await };
        };
        match (method, params) {
            ("aaep.ping", _) => self.succeed(id, "{}").await,
            ("aaep.subscribe", Some(request)) if self.subscribed.is_none() => {
                self.subscribe(id, request).await
            }
            ("aaep.subscribe", Some(_)) => {
                self.fail(id, INVALID_REQUEST, "a subscription is already open; close it first").await
            }
            ("aaep.renegotiate" | "aaep.reply" | "aaep.close", Some(message)) => {
                self.send(method, id, message).await
            }
            ("aaep.subscribe" | "aaep.renegotiate" | "aaep.reply" | "aaep.close", None) => {
                self.fail(id, INVALID_PARAMS, "`params` is missing; it is the message of the protocol").await
            }
            (_, _) if id.is_none() => Ok(()),
            (method, _) => {
                let message = format!("unknown method {method:?}");
                self.fail(id, METHOD_NOT_FOUND, &message).await
            }
        }
    }

    async fn subscribe(&mut self, id: Option<&RawValue>, request: &str) -> std::io::Result<()> {
        let dial = Dial { request: Some(request.to_owned()), ..self.dial.clone() };
        let link = match Link::open(self.world, &dial).await {
            Ok(link) => link,
            Err(LinkError::Unusable(why)) => return self.fail(id, INVALID_PARAMS, &why).await,
            // A rejection is a result.
            Err(why) => {
                let refusal = Refusal::new(Reason::TransportUnavailable, why.to_string());
                let rejected = serde_json::to_string(&refusal.to_message())?;
                return self.succeed(id, &rejected).await;
            }
        };
        let answer = link.handshake_response().unwrap_or("null").to_owned();
        if let Some(subscription) = link.subscription().filter(|_| !link.is_rejected()) {
            let id = subscription.to_owned();
            self.subscribed = Some(Subscribed { link, id, last_event_id: None, empty_connections: 0 });
        }
        self.succeed(id, &answer).await
    }

    /// Sends a message from the program to the producer.
    async fn send(&mut self, method: &str, id: Option<&RawValue>, message: &str) -> std::io::Result<()> {
        let Some(subscribed) = &mut self.subscribed else {
            return self
                .fail(id, INVALID_REQUEST, "no subscription is open; send aaep.subscribe first")
                .await;
        };
        let sent = subscribed.link.send(message).await;
        if method == "aaep.close" {
            self.subscribed = None;
        }
        match sent {
            Ok(sent) if sent.body.is_empty() => self.succeed(id, "{}").await,
            Ok(sent) => {
                let body = String::from_utf8_lossy(&sent.body).into_owned();
                let takes = sent.status.is_some_and(|status| (200..300).contains(&status));
                // A rejection of the protocol is a result.
                match takes || Glance::at(&body).as_ref().is_some_and(Glance::is_handshake_response) {
                    true => self.succeed(id, &body).await,
                    false => self.fail(id, INVALID_PARAMS, &body).await,
                }
            }
            Err(why) => self.fail(id, INVALID_REQUEST, &why.to_string()).await,
        }
    }

    /// Forwards a message from the producer.
    async fn forward(&mut self, received: Result<Option<ReceivedMessage>, LinkError>) -> std::io::Result<()> {
        let Some(subscribed) = &mut self.subscribed else { return Ok(()) };
        if let Ok(Some(received)) = received {
            subscribed.empty_connections = 0;
            subscribed.last_event_id = received.id.or(subscribed.last_event_id.take());
            let event = &received.text;
            return self
                .write_text(&format!(r#"{{"jsonrpc":"2.0","method":"aaep.event","params":{event}}}"#))
                .await;
        }
        let refused = loop {
            if subscribed.empty_connections >= limits::RECONNECTS_IN_VAIN_MAX {
                break "the producer can no longer be reached".to_owned();
            }
            if subscribed.empty_connections > 0 {
                tokio::time::sleep(Duration::from_millis(limits::RECONNECT_WAIT_MS)).await;
            }
            subscribed.empty_connections += 1;
            match subscribed.link.reopen(subscribed.last_event_id.as_deref()).await {
                Ok(()) => return Ok(()),
                Err(LinkError::Refused { status: 404, .. }) => break "the subscription has ended".to_owned(),
                Err(LinkError::Refused { status: 401 | 403, .. }) => {
                    break "the token is not valid".to_owned();
                }
                Err(_) => {}
            }
        };
        let close = close(subscribed, "ended", &refused);
        self.subscribed = None;
        self.write_text(&format!(r#"{{"jsonrpc":"2.0","method":"aaep.close","params":{close}}}"#)).await
    }
}

/// The message that ends a subscription.
fn close(subscribed: &Subscribed, code: &str, message: &str) -> String {
    let Ok(id) = SubscriptionId::new(subscribed.id.clone()) else { return "{}".to_owned() };
    let mut close = SubscriptionClose::new(id);
    close.reason_code = Some(code.to_owned());
    close.reason_message = Some(message.to_owned());
    serde_json::to_string(&close).unwrap_or_default()
}
