//! The subscriber's end of every transport: [`Link::open`] connects to a producer over HTTP with an event stream (both
//! surfaces), over WebSocket, or as a command that is started; [`Link::next`] receives and [`Link::send`] sends.
//!
//! A link moves texts with their times. It must not know what an event means; it reads only `type` and
//! `subscription_id`, to recognize the answer to a handshake. It does not reconnect by itself: the caller decides,
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

/// Where a producer is, and how it is spoken to. Addresses are read with [`str::parse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Http {
        base: String,
        surface: Surface,
    },
    WebSocket {
        url: String,
    },
    /// A program that is started and spoken to through its input and output.
    Command {
        argv: Vec<String>,
        framing: Framing,
    },
}

/// The two ways producers are spoken to over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// `{base}/events` and `{base}/messages`, as running producers have it.
    Legacy,
    /// `{base}/subscriptions`, `{base}/events` and `{base}/replies`, where the base ends in `/aaep/v1`.
    Versioned,
}

/// What a line of a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A JSON-RPC 2.0 object.
    JsonRpc,
    /// A message as it is.
    Lines,
}

/// How a link is to be opened.
#[derive(Debug, Clone)]
pub struct Dial {
    pub target: Target,
    /// The bearer token to show.
    pub token: Option<String>,
    /// The text of a `subscription.request` to open with; without one there is no handshake.
    pub request: Option<String>,
    /// A subscription there is already, on the versioned surface: its events are asked for, without a handshake.
    pub subscription: Option<String>,
    pub last_event_id: Option<String>,
    /// How long the other side may take to let itself be reached, to answer a call, and to answer a handshake.
    pub patience: Duration,
}

impl Dial {
    /// Without a token, without a handshake, from now on.
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

/// One message of the other side.
#[derive(Debug, Clone)]
pub struct Heard {
    /// As it came. Of an event stream: the data lines, joined with line feeds.
    pub text: String,
    /// The `id` of its frame, on event streams.
    pub id: Option<String>,
    /// The name of its frame, on event streams, where it has one.
    pub event: Option<String>,
    /// When its last byte was there.
    pub at: Instant,
    /// The same by the wall clock.
    pub at_ms: u64,
    /// Signs of life since the message before: comments of an event stream, pings of a WebSocket or a command.
    pub comments: u64,
}

/// What became of something that was sent.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Over HTTP, whatever it was; other transports answer nothing.
    pub status: Option<u16>,
    pub body: Vec<u8>,
    pub took: Duration,
}

/// One connection to a producer.
pub struct Link {
    world: World,
    dial: Dial,
    way: Way,
    answer: Option<String>,
    answer_status: Option<u16>,
    subscription: Option<String>,
    /// Messages that came before the handshake's answer.
    held: VecDeque<Heard>,
}

enum Way {
    Http(Box<Http>),
    Socket(Box<Socket>),
    Command(Box<Command>),
}

struct Http {
    caller: Caller,
    base: String,
    surface: Surface,
    /// Where the events of this subscription are.
    events: String,
    /// `None` when the handshake was rejected.
    stream: Option<Stream>,
}

impl Link {
    /// Connects, and with a request makes the handshake. A rejection is an answer and no error; nothing follows it.
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
                Link::shake(world, dial, Way::Http(Box::new(http))).await
            }
            Target::Http { base, surface: Surface::Versioned } => Link::subscribe(world, dial, base).await,
            Target::WebSocket { url } => {
                let socket = Socket::open(world, url, dial.token.as_deref(), dial.patience).await?;
                Link::shake(world, dial, Way::Socket(Box::new(socket))).await
            }
            Target::Command { argv, framing } => {
                let command = Command::start(world, argv, *framing)?;
                Link::shake(world, dial, Way::Command(Box::new(command))).await
            }
        }
    }

    fn new(world: &World, dial: &Dial, way: Way) -> Link {
        Link {
            world: world.clone(),
            dial: dial.clone(),
            way,
            answer: None,
            answer_status: None,
            subscription: dial.subscription.clone(),
            held: VecDeque::new(),
        }
    }

    /// The versioned surface: the answer comes to the call, and says where the events are.
    async fn subscribe(world: &World, dial: &Dial, base: &str) -> Result<Link, LinkError> {
        let caller = Caller::new(base, dial.token.as_deref(), dial.patience)?;
        let mut answer = None;
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
                    answer = text.map(|text| (text, Some(reply.status)));
                }
                Some(MessageKind::SubscriptionRejected) => {
                    answer = text.map(|text| (text, Some(reply.status)));
                    let http = Http {
                        caller,
                        base: base.to_owned(),
                        surface: Surface::Versioned,
                        events: String::new(),
                        stream: None,
                    };
                    let mut link = Link::new(world, dial, Way::Http(Box::new(http)));
                    link.remember(answer);
                    return Ok(link);
                }
                _ => return Err(reply.refused(&url)),
            }
        }
        let events = match location {
            Some(location) => address::beside(base, &location)?,
            None => address::events_of(base, subscription.as_deref())?,
        };
        let last = dial.last_event_id.as_deref();
        let stream = Stream::open(world, &caller, &events, last, dial.patience).await?;
        let http =
            Http { caller, base: base.to_owned(), surface: Surface::Versioned, events, stream: Some(stream) };
        let mut link = Link::new(world, dial, Way::Http(Box::new(http)));
        link.remember(answer);
        link.subscription = subscription;
        Ok(link)
    }

    /// All other ways: the request is sent, and its answer is among what comes.
    async fn shake(world: &World, dial: &Dial, way: Way) -> Result<Link, LinkError> {
        let mut link = Link::new(world, dial, way);
        let Some(request) = &dial.request else { return Ok(link) };
        let sent = link.send(request).await?;
        // Producers that answer the call itself are heard as well.
        let body = String::from_utf8(sent.body).ok();
        let glance = body.as_deref().and_then(Glance::at);
        if glance.as_ref().is_some_and(Glance::is_answer) {
            link.remember(body.map(|body| (body, sent.status)));
            return Ok(link);
        }
        if let Some(status) = sent.status.filter(|status| !(200..300).contains(status)) {
            let url = link.reply_address(Some(MessageKind::SubscriptionRequest), true).unwrap_or_default();
            return Err(LinkError::Refused { url, status, body: body.unwrap_or_default().into_bytes() });
        }
        match tokio::time::timeout(dial.patience, link.answered()).await {
            Ok(outcome) => outcome?,
            Err(_) => return Err(LinkError::NoAnswer { waited: dial.patience }),
        }
        Ok(link)
    }

    /// Hears until the answer is there, and keeps what comes before it.
    async fn answered(&mut self) -> Result<(), LinkError> {
        let mut bytes = 0;
        loop {
            let Some(heard) = self.way.next().await? else {
                return Err(LinkError::Broken {
                    reason: "the connection ended before the subscription.request was answered".to_owned(),
                });
            };
            if Glance::at(&heard.text).as_ref().is_some_and(Glance::is_answer) {
                self.remember(Some((heard.text, None)));
                return Ok(());
            }
            bytes += heard.text.len();
            if self.held.len() == limits::HELD_MESSAGES_MAX || bytes > limits::HELD_BYTES_MAX {
                return Err(LinkError::Flooded { messages: self.held.len() + 1 });
            }
            self.held.push_back(heard);
        }
    }

    fn remember(&mut self, answer: Option<(String, Option<u16>)>) {
        let Some((text, status)) = answer else { return };
        self.subscription = Glance::at(&text).and_then(|glance| glance.subscription_id);
        self.answer_status = status;
        self.answer = Some(text);
    }

    /// The handshake's answer (accepted or rejected), byte for byte, when there was a request. [`Link::next`] does
    /// not tell it again.
    pub fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    /// The status the answer came with, where it was the answer to a call.
    pub fn answer_status(&self) -> Option<u16> {
        self.answer_status
    }

    /// Whether the handshake was turned down; then nothing follows.
    pub fn is_rejected(&self) -> bool {
        let glance = self.answer().and_then(Glance::at);
        glance.and_then(|glance| glance.kind()) == Some(MessageKind::SubscriptionRejected)
    }

    pub fn subscription(&self) -> Option<&str> {
        self.subscription.as_deref()
    }

    /// Whether [`Link::reopen`] goes on with the subscription, without another handshake.
    pub fn keeps_its_subscription(&self) -> bool {
        let is_versioned = matches!(&self.way, Way::Http(http) if http.surface == Surface::Versioned);
        is_versioned && self.subscription.is_some()
    }

    /// The subprotocol that a WebSocket was given.
    pub fn subprotocol(&self) -> Option<&str> {
        match &self.way {
            Way::Socket(socket) => socket.subprotocol(),
            Way::Http(_) | Way::Command(_) => None,
        }
    }

    /// Why the other side closed a WebSocket, in code and words, once it has.
    pub fn closed(&self) -> Option<(u16, &str)> {
        match &self.way {
            Way::Socket(socket) => socket.closed(),
            Way::Http(_) | Way::Command(_) => None,
        }
    }

    /// Signs of life so far on this connection: comments of an event stream, pings of a WebSocket or a command.
    pub fn comments(&self) -> u64 {
        match &self.way {
            Way::Http(http) => http.stream.as_ref().map_or(0, Stream::comments),
            Way::Socket(socket) => socket.comments(),
            Way::Command(command) => command.comments(),
        }
    }

    /// How long an event stream asks clients to wait before they connect again.
    pub fn retry_ms(&self) -> Option<u64> {
        match &self.way {
            Way::Http(http) => http.stream.as_ref().and_then(Stream::retry_ms),
            Way::Socket(_) | Way::Command(_) => None,
        }
    }

    /// The next message of the other side; `None` once it ended the stream. May be dropped at any await without
    /// losing anything. An error is the end, except [`LinkError::Rpc`].
    pub async fn next(&mut self) -> Result<Option<Heard>, LinkError> {
        match self.held.pop_front() {
            Some(heard) => Ok(Some(heard)),
            None => self.way.next().await,
        }
    }

    /// Sends a reply, a renegotiation, a close, or the drivers' `user_input`, each where it belongs. A status that
    /// says no is told and no error. Answers to a renegotiation are in the body on the versioned surface, and among
    /// what [`Link::next`] tells on the others.
    pub async fn send(&mut self, text: &str) -> Result<Sent, LinkError> {
        let began = recount_world::moment();
        let glance = Glance::at(text)
            .ok_or_else(|| LinkError::Unusable("the message to send must be a JSON object".to_owned()))?;
        let address = self.reply_address(glance.kind(), glance.name.is_some());
        let patience = self.dial.patience;
        let sent = match &mut self.way {
            Way::Http(http) => {
                let reply = http.caller.post(&address.unwrap_or_default(), text.as_bytes()).await?;
                return Ok(Sent { status: Some(reply.status), body: reply.body, took: reply.took });
            }
            Way::Socket(socket) => tokio::time::timeout(patience, socket.send(text)).await,
            Way::Command(command) => tokio::time::timeout(patience, command.send(text, glance.kind())).await,
        };
        sent.map_err(|_| LinkError::Broken {
            reason: format!(
                "no data was accepted for {} ms; the other side does not read",
                patience.as_millis()
            ),
        })??;
        Ok(Sent { status: None, body: Vec::new(), took: began.elapsed() })
    }

    /// Over HTTP: where a message of this kind is sent. Messages of extensions have a type and no kind; the drivers' have
    /// neither.
    fn reply_address(&self, kind: Option<MessageKind>, has_type: bool) -> Option<String> {
        let Way::Http(http) = &self.way else { return None };
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

    /// Connects again, behind an event. A subscription of the versioned surface is gone on with; elsewhere the
    /// handshake, if there was one, is made anew. A command is not started twice.
    pub async fn reopen(&mut self, last_event_id: Option<&str>) -> Result<(), LinkError> {
        let keeps = self.keeps_its_subscription();
        let Link { world, dial, way, .. } = self;
        if let (Way::Http(http), true) = (&mut *way, keeps) {
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

    /// Ends the connection in good order; a command is given a moment to end. Says no `subscription.close`: who wants
    /// that sends it before.
    pub async fn close(self) {
        match self.way {
            // Letting go of the response closes its connection.
            Way::Http(_) => {}
            Way::Socket(socket) => socket.close().await,
            Way::Command(command) => command.close().await,
        }
    }
}

impl Way {
    async fn next(&mut self) -> Result<Option<Heard>, LinkError> {
        match self {
            Way::Http(http) => match &mut http.stream {
                Some(stream) => stream.next().await,
                None => Ok(None),
            },
            Way::Socket(socket) => socket.next().await,
            Way::Command(command) => command.next().await,
        }
    }
}
