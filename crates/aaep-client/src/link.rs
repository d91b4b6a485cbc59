//! The subscriber's side of every transport. [`Link::open`] connects to a producer over HTTP with an event stream (both
//! surfaces), over a WebSocket, or to a child process. [`Link::next`] receives and [`Link::send`] sends.
//!
//! A link transfers texts with their times. It must not know what an event means; it reads only `type` and
//! `subscription_id`, to recognize the response to a handshake. It does not reconnect by itself: the caller decides,
//! with [`Link::reopen`].

mod address;
pub mod call;
mod command;
mod error;
mod socket;
mod stream;

use std::collections::VecDeque;
use std::time::Duration;

use recount_aaep::MessageKind;
use recount_world::World;
use tokio::time::Instant;

use self::call::Caller;
use self::command::Command;
use self::socket::Socket;
use self::stream::Stream;
use crate::glance::Glance;
use crate::limits;

pub use self::address::words;
pub use self::error::LinkError;

/// The address and transport of a producer. [`str::parse`] parses URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Http {
        base: String,
        surface: Surface,
    },
    WebSocket {
        url: String,
    },
    /// A program to start; messages go through its standard input and output.
    Command {
        argv: Vec<String>,
        framing: Framing,
    },
}

/// The two HTTP surfaces of producers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// `{base}/events` and `{base}/messages`, as existing producers have them.
    Legacy,
    /// `{base}/subscriptions`, `{base}/events` and `{base}/replies`, where the base ends in `/aaep/v1`.
    Versioned,
}

/// The format of a program's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A JSON-RPC 2.0 object.
    JsonRpc,
    /// A bare message.
    Lines,
}

/// Options for opening a link.
#[derive(Debug, Clone)]
pub struct Dial {
    pub target: Target,
    /// The bearer token to send.
    pub token: Option<String>,
    /// The `subscription.request` to send first, as JSON; without it there is no handshake.
    pub request: Option<String>,
    /// An existing subscription on the versioned surface: its events are requested without a handshake.
    pub subscription: Option<String>,
    pub last_event_id: Option<String>,
    /// Timeout for connecting, for an HTTP response and for a handshake response.
    pub patience: Duration,
}

impl Dial {
    /// Options without a token, a handshake or a position to resume after.
    pub fn to(target: Target) -> Self {
        Dial {
            target,
            token: None,
            request: None,
            subscription: None,
            last_event_id: None,
            patience: limits::PATIENCE,
        }
    }
}

/// One message from the producer.
#[derive(Debug, Clone)]
pub struct ReceivedMessage {
    /// The unchanged text. On event streams: the data lines, joined with line feeds.
    pub text: String,
    /// The `id` of its frame, on event streams.
    pub id: Option<String>,
    /// The event name of its frame, on event streams, if it has one.
    pub event: Option<String>,
    /// When its last byte arrived.
    pub at: Instant,
    /// The same in wall-clock time.
    pub at_ms: u64,
    /// Heartbeats since the previous message: comments of an event stream, pings of a WebSocket or a command.
    pub comments: u64,
}

/// The result of sending a message.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The status over HTTP, whatever it is; other transports have no response.
    pub status: Option<u16>,
    pub body: Vec<u8>,
    pub took: Duration,
}

/// One connection to a producer.
pub struct Link {
    world: World,
    dial: Dial,
    transport: Transport,
    response: Option<String>,
    response_status: Option<u16>,
    subscription: Option<String>,
    /// Messages that arrived before the handshake response.
    held: VecDeque<ReceivedMessage>,
}

enum Transport {
    Http(Box<Http>),
    Socket(Box<Socket>),
    Command(Box<Command>),
}

struct Http {
    caller: Caller,
    base: String,
    surface: Surface,
    /// URL of this subscription's events.
    events: String,
    /// `None` when the handshake was rejected.
    stream: Option<Stream>,
}

impl Link {
    /// Connects and, if there is a request, performs the handshake. A rejection is a response, not an error; no message
    /// follows it.
    pub async fn open(world: &World, dial: &Dial) -> Result<Link, LinkError> {
        if let Some(request) = &dial.request {
            Glance::at(request).ok_or_else(|| {
                LinkError::Unusable("the opening request is not a JSON object; nothing was sent".to_owned())
            })?;
        }
        match &dial.target {
            Target::Http { base, surface: Surface::Legacy } => {
                let caller = Caller::new(base, dial.token.as_deref(), dial.patience)?;
                let events = format!("{base}/events");
                let stream =
                    Stream::open(world, &caller, &events, dial.last_event_id.as_deref(), dial.patience)
                        .await?;
                let http = Http {
                    caller,
                    base: base.clone(),
                    surface: Surface::Legacy,
                    events,
                    stream: Some(stream),
                };
                Link::handshake(world, dial, Transport::Http(Box::new(http))).await
            }
            Target::Http { base, surface: Surface::Versioned } => Link::subscribe(world, dial, base).await,
            Target::WebSocket { url } => {
                let socket = Socket::open(world, url, dial.token.as_deref(), dial.patience).await?;
                Link::handshake(world, dial, Transport::Socket(Box::new(socket))).await
            }
            Target::Command { argv, framing } => {
                let command = Command::start(world, argv, *framing)?;
                Link::handshake(world, dial, Transport::Command(Box::new(command))).await
            }
        }
    }

    fn new(world: &World, dial: &Dial, transport: Transport) -> Link {
        Link {
            world: world.clone(),
            dial: dial.clone(),
            transport,
            response: None,
            response_status: None,
            subscription: dial.subscription.clone(),
            held: VecDeque::new(),
        }
    }

    /// Opens the versioned surface: the HTTP response is the handshake response and locates the events.
    async fn subscribe(world: &World, dial: &Dial, base: &str) -> Result<Link, LinkError> {
        let caller = Caller::new(base, dial.token.as_deref(), dial.patience)?;
        let mut response = None;
        let mut subscription = dial.subscription.clone();
        let mut location = None;
        if let (Some(request), None) = (&dial.request, &dial.subscription) {
            let url = format!("{base}/subscriptions");
            let reply = caller.post(&url, request.as_bytes()).await?;
            let text = String::from_utf8(reply.body.clone()).ok();
            let glance = text.as_deref().and_then(Glance::at);
            match glance.as_ref().and_then(Glance::kind) {
                Some(MessageKind::SubscriptionAccepted) if reply.is_success() => {
                    subscription = glance.and_then(|glance| glance.subscription_id);
                    location = reply.header("location").map(str::to_owned);
                    response = text.map(|text| (text, Some(reply.status)));
                }
                Some(MessageKind::SubscriptionRejected) => {
                    response = text.map(|text| (text, Some(reply.status)));
                    let http = Http {
                        caller,
                        base: base.to_owned(),
                        surface: Surface::Versioned,
                        events: String::new(),
                        stream: None,
                    };
                    let mut link = Link::new(world, dial, Transport::Http(Box::new(http)));
                    link.store_response(response);
                    return Ok(link);
                }
                _ => return Err(reply.refused(&url)),
            }
        }
        let events = match location {
            Some(location) => address::resolve_location(base, &location)?,
            None => address::events_url(base, subscription.as_deref())?,
        };
        let last = dial.last_event_id.as_deref();
        let stream = Stream::open(world, &caller, &events, last, dial.patience).await?;
        let http =
            Http { caller, base: base.to_owned(), surface: Surface::Versioned, events, stream: Some(stream) };
        let mut link = Link::new(world, dial, Transport::Http(Box::new(http)));
        link.store_response(response);
        link.subscription = subscription;
        Ok(link)
    }

    /// Performs the handshake on all other transports: the response is among the received messages.
    async fn handshake(world: &World, dial: &Dial, transport: Transport) -> Result<Link, LinkError> {
        let mut link = Link::new(world, dial, transport);
        let Some(request) = &dial.request else { return Ok(link) };
        let sent = link.send(request).await?;
        // Producers that put the response into the HTTP response are supported too.
        let body = String::from_utf8(sent.body).ok();
        let glance = body.as_deref().and_then(Glance::at);
        if glance.as_ref().is_some_and(Glance::is_handshake_response) {
            link.store_response(body.map(|body| (body, sent.status)));
            return Ok(link);
        }
        if let Some(status) = sent.status.filter(|status| !(200..300).contains(status)) {
            let url = link.reply_address(Some(MessageKind::SubscriptionRequest), true).unwrap_or_default();
            return Err(LinkError::Refused { url, status, body: body.unwrap_or_default().into_bytes() });
        }
        match tokio::time::timeout(dial.patience, link.wait_for_response()).await {
            Ok(outcome) => outcome?,
            Err(_) => return Err(LinkError::NoAnswer { waited: dial.patience }),
        }
        Ok(link)
    }

    /// Receives until the handshake response arrives, and buffers earlier messages.
    async fn wait_for_response(&mut self) -> Result<(), LinkError> {
        let mut bytes = 0;
        loop {
            let Some(message) = self.transport.next().await? else {
                return Err(LinkError::Broken {
                    reason: "the connection ended before the subscription.request was answered".to_owned(),
                });
            };
            if Glance::at(&message.text).as_ref().is_some_and(Glance::is_handshake_response) {
                self.store_response(Some((message.text, None)));
                return Ok(());
            }
            bytes += message.text.len();
            if self.held.len() == limits::HELD_MESSAGES_MAX || bytes > limits::HELD_BYTES_MAX {
                return Err(LinkError::Flooded { messages: self.held.len() + 1 });
            }
            self.held.push_back(message);
        }
    }

    fn store_response(&mut self, response: Option<(String, Option<u16>)>) {
        let Some((text, status)) = response else { return };
        self.subscription = Glance::at(&text).and_then(|glance| glance.subscription_id);
        self.response_status = status;
        self.response = Some(text);
    }

    /// The unchanged handshake response (accepted or rejected), if there was a request. [`Link::next`] does not
    /// return it.
    pub fn handshake_response(&self) -> Option<&str> {
        self.response.as_deref()
    }

    /// The HTTP status of the handshake response, if it was an HTTP response.
    pub fn response_status(&self) -> Option<u16> {
        self.response_status
    }

    /// Whether the handshake was rejected; then no message follows.
    pub fn is_rejected(&self) -> bool {
        let glance = self.handshake_response().and_then(Glance::at);
        glance.and_then(|glance| glance.kind()) == Some(MessageKind::SubscriptionRejected)
    }

    pub fn subscription(&self) -> Option<&str> {
        self.subscription.as_deref()
    }

    /// Whether [`Link::reopen`] resumes the subscription without another handshake.
    pub fn keeps_its_subscription(&self) -> bool {
        let is_versioned =
            matches!(&self.transport, Transport::Http(http) if http.surface == Surface::Versioned);
        is_versioned && self.subscription.is_some()
    }

    /// The negotiated WebSocket subprotocol.
    pub fn subprotocol(&self) -> Option<&str> {
        match &self.transport {
            Transport::Socket(socket) => socket.subprotocol(),
            Transport::Http(_) | Transport::Command(_) => None,
        }
    }

    /// The code and reason of the received close frame, if any.
    pub fn closed(&self) -> Option<(u16, &str)> {
        match &self.transport {
            Transport::Socket(socket) => socket.closed(),
            Transport::Http(_) | Transport::Command(_) => None,
        }
    }

    /// Heartbeats so far on this connection: comments of an event stream, pings of a WebSocket or a command.
    pub fn comments(&self) -> u64 {
        match &self.transport {
            Transport::Http(http) => http.stream.as_ref().map_or(0, Stream::comments),
            Transport::Socket(socket) => socket.comments(),
            Transport::Command(command) => command.comments(),
        }
    }

    /// The reconnection time that an event stream requests.
    pub fn retry_ms(&self) -> Option<u64> {
        match &self.transport {
            Transport::Http(http) => http.stream.as_ref().and_then(Stream::retry_ms),
            Transport::Socket(_) | Transport::Command(_) => None,
        }
    }

    /// Receives the next message; `None` after the end of the stream. Cancel-safe. Any error ends the link, except
    /// [`LinkError::Rpc`].
    pub async fn next(&mut self) -> Result<Option<ReceivedMessage>, LinkError> {
        match self.held.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.transport.next().await,
        }
    }

    /// Sends a reply, a renegotiation, a close, or the drivers' `user_input` to its route. An error status is returned,
    /// not an error. The response to a renegotiation is in the body on the versioned surface, and among the messages of
    /// [`Link::next`] elsewhere.
    pub async fn send(&mut self, text: &str) -> Result<Sent, LinkError> {
        let began = recount_world::moment();
        let glance = Glance::at(text)
            .ok_or_else(|| LinkError::Unusable("the message to send must be a JSON object".to_owned()))?;
        let address = self.reply_address(glance.kind(), glance.name.is_some());
        let patience = self.dial.patience;
        let sent = match &mut self.transport {
            Transport::Http(http) => {
                let reply = http.caller.post(&address.unwrap_or_default(), text.as_bytes()).await?;
                return Ok(Sent { status: Some(reply.status), body: reply.body, took: reply.took });
            }
            Transport::Socket(socket) => tokio::time::timeout(patience, socket.send(text)).await,
            Transport::Command(command) => {
                tokio::time::timeout(patience, command.send(text, glance.kind())).await
            }
        };
        sent.map_err(|_| LinkError::Broken {
            reason: format!(
                "no data was accepted for {} ms; the other side does not read",
                patience.as_millis()
            ),
        })??;
        Ok(Sent { status: None, body: Vec::new(), took: began.elapsed() })
    }

    /// The URL for a message of this kind over HTTP. Messages of extensions have a type but no kind; those of drivers
    /// have neither.
    fn reply_address(&self, kind: Option<MessageKind>, has_type: bool) -> Option<String> {
        let Transport::Http(http) = &self.transport else { return None };
        Some(match (http.surface, kind) {
            (Surface::Legacy, _) => format!("{}/messages", http.base),
            (Surface::Versioned, Some(MessageKind::SubscriptionRequest)) => {
                format!("{}/subscriptions", http.base)
            }
            (Surface::Versioned, Some(_)) => format!("{}/replies", http.base),
            (Surface::Versioned, None) if has_type => format!("{}/replies", http.base),
            (Surface::Versioned, None) => {
                format!("{}/messages", http.base.strip_suffix(address::VERSIONED).unwrap_or(&http.base))
            }
        })
    }

    /// Reconnects and resumes after an event. The versioned surface keeps its subscription; elsewhere the handshake, if
    /// any, is repeated. A command is not restarted.
    pub async fn reopen(&mut self, last_event_id: Option<&str>) -> Result<(), LinkError> {
        let keeps = self.keeps_its_subscription();
        let Link { world, dial, transport, .. } = self;
        if let (Transport::Http(http), true) = (&mut *transport, keeps) {
            let stream = Stream::open(world, &http.caller, &http.events, last_event_id, dial.patience);
            http.stream = Some(stream.await?);
            return Ok(());
        }
        if let Target::Command { argv, .. } = &dial.target {
            return Err(LinkError::Unusable(format!("{:?} has ended; start it again", argv.join(" "))));
        }
        let dial = Dial { last_event_id: last_event_id.map(str::to_owned), ..dial.clone() };
        *self = Link::open(&self.world, &dial).await?;
        Ok(())
    }

    /// Closes the connection cleanly; a command gets time to exit. Does not send `subscription.close`: the caller sends
    /// it first if needed.
    pub async fn close(self) {
        match self.transport {
            // Dropping the response closes its connection.
            Transport::Http(_) => {}
            Transport::Socket(socket) => socket.close().await,
            Transport::Command(command) => command.close().await,
        }
    }
}

impl Transport {
    async fn next(&mut self) -> Result<Option<ReceivedMessage>, LinkError> {
        match self {
            Transport::Http(http) => match &mut http.stream {
                Some(stream) => stream.next().await,
                None => Ok(None),
            },
            Transport::Socket(socket) => socket.next().await,
            Transport::Command(command) => command.next().await,
        }
    }
}
