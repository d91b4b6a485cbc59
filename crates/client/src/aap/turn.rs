//! Receives the events of a turn, over any number of connections where the server allows it. See [`Turn`].
//!
//! If the server gave the turn a name and its events ids, the client reconnects after the last event that it received.
//! Otherwise a lost connection ends the turn for the client; only the history shows its outcome.

use std::collections::VecDeque;
use std::time::Duration;

use recount_transport::sse::{self, Decoder, Frame};
use reqwest::header::ACCEPT;
use reqwest::{Method, Response};
use serde_json::Value;
use tokio::time::Instant;

use super::client::{AapClient, JSON};
use super::error::AapError;
use super::events::TurnEvent;
use super::wire::{NewTurn, Way};
use crate::boxed;
use crate::client::{has_type, whole_body};
use crate::error::ClientError;
use crate::limits;

/// The header in which our servers, and some others, name the turn they started. A turn with a name can be followed further
/// after a break, and cancelled.
const TURN_ID: &str = "aap-turn-id";

/// An item of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnItem {
    Event {
        event: TurnEvent,
        /// The frame as it came. For a turn that came as one reply, the first has all of it as `turn`, and the others
        /// are empty.
        frame: Frame,
    },
    /// The connection broke, or the server ended; the client reconnects.
    Interrupted { reason: String },
}

/// A turn under way. [`Turn::next`] may be dropped at any await without losing anything.
pub struct Turn {
    client: AapClient,
    session: String,
    id: Option<String>,
    state: TurnState,
    decoder: Decoder,
    /// Events of a turn that came as one reply.
    ready: VecDeque<(TurnEvent, Frame)>,
    /// The id of the last event, to resume after.
    last: Option<String>,
    /// Whether every event so far had an id.
    has_ids: bool,
    bytes: usize,
    /// Whether the server has sent comments: then it sends them as signs of life.
    shows_life: bool,
    /// Connections in a row that brought nothing.
    in_vain: u32,
}

enum TurnState {
    Reading(Box<Response>),
    /// To be connected again at that moment.
    Waiting(Instant, String),
    Over,
}

impl AapClient {
    /// Begins a turn, and answers once the server does.
    #[boxed]
    pub async fn turn(&self, session: &str, new: &NewTurn) -> Result<Turn, AapError> {
        self.begin_turn(session, new, None).await
    }

    /// The same with a key: if no answer comes, the same request can be sent again, and servers of ours begin one turn.
    #[boxed]
    pub async fn turn_once(&self, session: &str, new: &NewTurn, key: &str) -> Result<Turn, AapError> {
        self.begin_turn(session, new, Some(key)).await
    }

    async fn begin_turn(&self, session: &str, new: &NewTurn, key: Option<&str>) -> Result<Turn, AapError> {
        let accept = if new.stream == Way::None { JSON } else { sse::MEDIA_TYPE };
        let address = self.at(&["sessions", session, "turns"]);
        let response =
            self.send(limits::TURN_HEAD_MAX, Method::POST, address, accept, Some(new), key).await?;
        let id = response.headers().get(TURN_ID).and_then(|id| id.to_str().ok());
        let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
        // The response decides, not the request. A stream is recognised by not being JSON: some have no content type.
        if new.stream == Way::None || has_type(&response, JSON) {
            let silence =
                tokio::time::timeout(limits::TURN_SILENCE_MAX, whole_body(self.base_url(), response));
            let body = silence.await.map_err(|why| ClientError::unreachable(self.base_url(), &why))??;
            let reply = serde_json::from_slice(&body)
                .map_err(|why| self.unexpected(format!("the turn is malformed: {why}")))?;
            return Turn::whole(self.clone(), session, id, &reply);
        }
        Ok(Turn::streamed(self.clone(), session, id, response))
    }

    /// Follows a turn after the last event that was received. Only where the server gave the turn a name.
    async fn turn_events(
        &self,
        session: &str,
        turn: &str,
        after: Option<&str>,
    ) -> Result<Response, AapError> {
        let url = self.at(&["sessions", session, "turns", turn, "events"]).into_url()?;
        let mut request = self.request(Method::GET, &url).header(ACCEPT, sse::MEDIA_TYPE);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let response = self.patiently(limits::CALL_TIMEOUT, request).await?;
        match response.status().as_u16() {
            200 => Ok(response),
            204 => Err(self.unexpected("the turn has no further events".to_owned())),
            _ => Err(self.refusal(response).await),
        }
    }
}

impl Turn {
    fn streamed(client: AapClient, session: &str, id: Option<String>, response: Response) -> Self {
        Turn { state: TurnState::Reading(Box::new(response)), ..Turn::of(client, session, id) }
    }

    fn whole(client: AapClient, session: &str, id: Option<String>, reply: &Value) -> Result<Self, AapError> {
        let events =
            TurnEvent::of_reply(reply).map_err(|reason| AapError::protocol(client.base_url(), reason))?;
        // The first of its events carries the whole reply.
        let frame = |data: String| Frame { id: None, event: Some("turn".to_owned()), data };
        let whole = std::iter::once(reply.to_string()).chain(std::iter::repeat(String::new()));
        let ready = events.into_iter().zip(whole.map(frame)).collect();
        Ok(Turn { ready, ..Turn::of(client, session, id) })
    }

    fn of(client: AapClient, session: &str, id: Option<String>) -> Self {
        Turn {
            client,
            session: session.to_owned(),
            id,
            state: TurnState::Over,
            decoder: Decoder::new(),
            ready: VecDeque::new(),
            last: None,
            has_ids: true,
            bytes: 0,
            shows_life: false,
            in_vain: 0,
        }
    }

    /// What the server calls it, if it gave it a name: then it can be cancelled.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The next item; `None` after the stop. An error also ends the turn.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<TurnItem>, AapError> {
        if let Some((event, frame)) = self.ready.pop_front() {
            return Ok(Some(TurnItem::Event { event, frame }));
        }
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                return self.received(frame).map(Some);
            }
            match &mut self.state {
                TurnState::Over => return Ok(None),
                TurnState::Waiting(until, _) => {
                    tokio::time::sleep_until(*until).await;
                    if let Some(item) = self.connect().await? {
                        return Ok(Some(item));
                    }
                }
                TurnState::Reading(response) => {
                    let silence = match self.shows_life {
                        true => limits::SILENCE_MAX,
                        false => limits::TURN_SILENCE_MAX,
                    };
                    let why = match tokio::time::timeout(silence, response.chunk()).await {
                        Ok(Ok(Some(chunk))) => {
                            self.feed(&chunk)?;
                            continue;
                        }
                        Ok(Ok(None)) => "the stream was closed before the end of the turn".to_owned(),
                        Ok(Err(why)) => match ClientError::unreachable(self.client.base_url(), &why) {
                            ClientError::Unreachable { reason, .. } => reason,
                            other => other.to_string(),
                        },
                        Err(_) => format!("no data for {} seconds", silence.as_secs()),
                    };
                    return self.interrupted(why).map(Some);
                }
            }
        }
    }

    fn feed(&mut self, chunk: &[u8]) -> Result<(), AapError> {
        self.bytes = self.bytes.saturating_add(chunk.len());
        let wrong = if self.bytes > limits::TURN_BYTES_MAX {
            Some(format!("the turn is larger than {} bytes (TURN_BYTES_MAX)", limits::TURN_BYTES_MAX))
        } else {
            self.decoder.feed(chunk).err().map(|why| why.to_string())
        };
        self.shows_life |= self.decoder.comments() > 0;
        match wrong {
            None => Ok(()),
            Some(reason) => Err(self.wrong(reason)),
        }
    }

    fn received(&mut self, frame: Frame) -> Result<TurnItem, AapError> {
        let event = TurnEvent::read(&frame).map_err(|reason| self.wrong(reason))?;
        if let TurnEvent::Stop(stop) = &event {
            // A server that shuts down sends a stop that is not part of the turn, which goes on when it is back.
            let is_no_part = frame.id.is_none() && self.last.is_some() && self.can_resume();
            if is_no_part && stop.error.as_ref().is_some_and(|error| error.retryable) {
                let reason = stop.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
                return self.interrupted(reason);
            }
            self.state = TurnState::Over;
        }
        match &frame.id {
            Some(id) => self.last = Some(id.clone()),
            None => self.has_ids = false,
        }
        self.in_vain = 0;
        Ok(TurnItem::Event { event, frame })
    }

    fn can_resume(&self) -> bool {
        self.id.is_some() && self.has_ids
    }

    /// Plans another connection, or gives the turn up.
    fn interrupted(&mut self, reason: String) -> Result<TurnItem, AapError> {
        // A sign of life is not nothing.
        if self.decoder.comments() > 0 {
            self.in_vain = 0;
        }
        if !self.can_resume() || self.in_vain >= limits::TURN_ATTEMPTS_MAX {
            self.state = TurnState::Over;
            return Err(AapError::BrokenOff { reason });
        }
        // A partly read frame comes again, whole.
        self.decoder = Decoder::new();
        let wait = limits::TURN_RETRY_MS.saturating_mul(1 << self.in_vain.min(16));
        let wait = Duration::from_millis(wait.min(limits::RECONNECT_WAIT_MS_MAX));
        self.in_vain = self.in_vain.saturating_add(1);
        self.state = TurnState::Waiting(recount_world::moment() + wait, reason.clone());
        Ok(TurnItem::Interrupted { reason })
    }

    /// Reconnects after the last event. An unreachable server may come back; a refusal is final.
    async fn connect(&mut self) -> Result<Option<TurnItem>, AapError> {
        let Some(id) = self.id.clone() else { return Ok(None) };
        match self.client.turn_events(&self.session, &id, self.last.as_deref()).await {
            Ok(response) => {
                self.state = TurnState::Reading(Box::new(response));
                Ok(None)
            }
            Err(AapError::Unreachable { reason, .. }) => self.interrupted(reason).map(Some),
            Err(why) => {
                let first = match std::mem::replace(&mut self.state, TurnState::Over) {
                    TurnState::Waiting(_, reason) => format!("{reason}; "),
                    _ => String::new(),
                };
                let reason = format!("{first}it cannot be followed further: {why}");
                Err(AapError::BrokenOff { reason })
            }
        }
    }

    fn wrong(&mut self, reason: String) -> AapError {
        self.state = TurnState::Over;
        self.decoder = Decoder::new();
        AapError::protocol(self.client.base_url(), reason)
    }
}
