//! Follows an event stream over any number of connections. See [`Tail`].
//!
//! The server keeps no state of a reader; the cursor is the id of the last frame, kept here. After a
//! break the tail requests what follows it, so each event is returned once and in order.

use std::time::Duration;

use recount_api::problem::Problem;
use recount_api::reply::Gap;
use recount_transport::limits::RETRY_MS;
use recount_transport::sse::{Decoder, Frame};
use reqwest::Response;
use tokio::time::Instant;

use crate::boxed;
use crate::client::Client;
use crate::error::ClientError;
use crate::limits;
use crate::source::Source;

/// When a reading ends by itself. An error ends either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// At the first moment of being level with the server.
    CaughtUp,
    /// When the run has ended and all of it was given; for the feed, never.
    Ended,
}

/// An item of a tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailItem {
    /// The next event, as the bytes that were stored.
    Event { cursor: u64, envelope: String },
    /// Events that were pruned or are damaged; the others follow.
    Gap(Gap),
    /// Caught up with the server, once per connection. `cursor` is the last event returned, if any.
    CaughtUp { cursor: Option<u64> },
    /// The connection broke, or the server ended it with a reason; after the wait it is made again.
    Disconnected { reason: String, wait_ms: u64 },
}

/// A reading that resumes by itself. [`Tail::next`] may be dropped at any await without losing anything.
pub struct Tail {
    client: Client,
    source: Source,
    until: Until,
    /// The last event that was given, or where to begin.
    cursor: Option<u64>,
    retry_ms: u64,
    /// Whether any connection was made: before that, every failure is final.
    connected_once: bool,
    /// Connections in a row that brought nothing.
    in_vain: u32,
    state: TailState,
}

enum TailState {
    /// To be connected at that moment.
    Waiting(Instant),
    Reading(Box<Reading>),
    Over,
}

struct Reading {
    response: Response,
    decoder: Decoder,
    caught_up: bool,
    /// Whether it gave an event, or lasted: then it was not in vain.
    worked: bool,
    since: Instant,
}

impl Client {
    /// Follows a run or the feed as a stream, starting after the cursor `after`.
    pub fn tail(&self, source: Source, after: Option<u64>, until: Until) -> Tail {
        Tail {
            client: self.clone(),
            source,
            until,
            cursor: after,
            retry_ms: RETRY_MS,
            connected_once: false,
            in_vain: 0,
            state: TailState::Waiting(recount_world::moment()),
        }
    }
}

impl Tail {
    /// The cursor of the last event that was given: where another tail would go on.
    pub fn cursor(&self) -> Option<u64> {
        self.cursor
    }

    /// Asks the server whether nothing can follow what was given, because the run has ended.
    #[boxed]
    pub async fn is_whole(&self) -> Result<bool, ClientError> {
        let Some(cursor) = self.cursor else { return Ok(false) };
        Ok(self.client.open(&self.source, Some(cursor), true).await?.is_none())
    }

    /// The next item; `None` when the reading has ended. An error is the last item.
    #[boxed]
    pub async fn next(&mut self) -> Option<Result<TailItem, ClientError>> {
        loop {
            let item = match &mut self.state {
                TailState::Over => return None,
                TailState::Waiting(at) => {
                    tokio::time::sleep_until(*at).await;
                    self.connect().await
                }
                TailState::Reading(_) => self.read().await,
            };
            match item {
                Ok(Some(item)) => return Some(Ok(item)),
                Ok(None) => {}
                Err(why) => {
                    self.state = TailState::Over;
                    return Some(Err(why));
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<Option<TailItem>, ClientError> {
        match self.client.open(&self.source, self.cursor, self.connected_once).await {
            Ok(Some(response)) => {
                self.connected_once = true;
                let decoder = Decoder::new();
                let since = recount_world::moment();
                let reading = Reading { response, decoder, caught_up: false, worked: false, since };
                self.state = TailState::Reading(Box::new(reading));
                Ok(None)
            }
            Ok(None) => {
                self.state = TailState::Over;
                Ok(None)
            }
            Err(why) if self.connected_once && why.may_pass() => self.wait(why).map(Some),
            Err(why) => Err(why),
        }
    }

    async fn read(&mut self) -> Result<Option<TailItem>, ClientError> {
        let TailState::Reading(reading) = &mut self.state else { return Ok(None) };
        while let Some(frame) = reading.decoder.next_frame() {
            let item = match frame.event.as_deref() {
                Some("error") => {
                    let why = stream_error(self.client.base_url(), &frame.data);
                    if !why.may_pass() {
                        return Err(why);
                    }
                    if reading.worked {
                        self.in_vain = 0;
                    }
                    return self.wait(why).map(Some);
                }
                _ => item_of(frame, &mut self.cursor, &mut reading.caught_up)
                    .map_err(|reason| ClientError::protocol(self.client.base_url(), reason))?,
            };
            let Some(item) = item else { continue };
            reading.worked |= matches!(item, TailItem::Event { .. });
            if matches!(item, TailItem::CaughtUp { .. }) && self.until == Until::CaughtUp {
                self.state = TailState::Over;
            }
            return Ok(Some(item));
        }
        let lost =
            |reason: String| ClientError::Unreachable { url: self.client.base_url().to_owned(), reason };
        let broken = match tokio::time::timeout(limits::SILENCE_MAX, reading.response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let fed = reading.decoder.feed(&chunk);
                self.retry_ms = reading.decoder.retry_ms().unwrap_or(self.retry_ms);
                fed.map_err(|why| ClientError::protocol(self.client.base_url(), why.to_string()))?;
                return Ok(None);
            }
            Ok(Ok(None)) if reading.worked || self.in_vain == 0 => {
                // Closed normally, as the server does after the ending: reconnect at once, but
                // not repeatedly.
                self.in_vain = if reading.worked { 0 } else { 1 };
                self.state = TailState::Waiting(recount_world::moment());
                return Ok(None);
            }
            Ok(Ok(None)) => lost("the stream was closed".to_owned()),
            Ok(Err(why)) => ClientError::unreachable(self.client.base_url(), &why),
            Err(_) => lost(format!("no data for {} seconds", limits::SILENCE_MAX.as_secs())),
        };
        if reading.worked || reading.since.elapsed() >= Duration::from_millis(limits::RECONNECT_WAIT_MS_MAX) {
            self.in_vain = 0;
        }
        self.wait(broken).map(Some)
    }

    /// Plans the next connection: twice as long after each one in vain, up to the limit, and scattered by
    /// a quarter, so that many readers do not come back in step.
    fn wait(&mut self, why: ClientError) -> Result<TailItem, ClientError> {
        if self.until == Until::CaughtUp && self.in_vain >= limits::ATTEMPTS_MAX {
            return Err(why);
        }
        let planned = self.retry_ms.saturating_mul(1 << self.in_vain.min(16));
        self.in_vain = self.in_vain.saturating_add(1);
        let scatter = u64::try_from(self.client.world().entropy.draw() % 256).expect("it is below 256");
        let planned = planned.min(limits::RECONNECT_WAIT_MS_MAX);
        let wait_ms = planned + planned * scatter / 1024;
        self.state = TailState::Waiting(recount_world::moment() + Duration::from_millis(wait_ms));
        let reason = match why {
            ClientError::Unreachable { reason, .. } => reason,
            other => other.to_string(),
        };
        Ok(TailItem::Disconnected { reason, wait_ms })
    }
}

/// Why the server ends a stream, in its own words.
fn stream_error(base_url: &str, data: &str) -> ClientError {
    match serde_json::from_str::<Problem>(data) {
        Ok(problem) => ClientError::Problem(Box::new(problem)),
        Err(why) => ClientError::protocol(
            base_url,
            format!("the stream ended with a malformed problem document: {why}"),
        ),
    }
}

/// The item of one frame, if any: events returned before and frames of later releases have none.
fn item_of(frame: Frame, cursor: &mut Option<u64>, caught_up: &mut bool) -> Result<Option<TailItem>, String> {
    match frame.event.as_deref() {
        Some("caught_up") => {
            let is_first = !std::mem::replace(caught_up, true);
            Ok(is_first.then_some(TailItem::CaughtUp { cursor: *cursor }))
        }
        Some("gap") => {
            let mut gap: Gap =
                serde_json::from_str(&frame.data).map_err(|why| format!("a gap is malformed: {why}"))?;
            let last = gap.last_cursor().ok_or("a gap has no end")?;
            // After a connection that broke directly after it, it comes again.
            if cursor.is_some_and(|cursor| last <= cursor) {
                return Ok(None);
            }
            if let Gap::Pruned { first_pruned_sequence: first, .. } = &mut gap {
                *first = (*first).max(cursor.map_or(0, |cursor| cursor + 1));
            }
            *cursor = Some(last);
            Ok(Some(TailItem::Gap(gap)))
        }
        // Nothing that was wanted up to here: after a break this is where it goes on.
        Some("position") => {
            *cursor = (*cursor).max(frame.id.and_then(|id| id.parse().ok()));
            Ok(None)
        }
        Some(_) => Ok(None),
        None => {
            let id = frame.id.ok_or("an event has no id")?;
            let id: u64 = id.parse().map_err(|_| format!("the id {id:?} of an event is not a number"))?;
            if cursor.is_some_and(|cursor| id <= cursor) {
                return Ok(None);
            }
            *cursor = Some(id);
            Ok(Some(TailItem::Event { cursor: id, envelope: frame.data }))
        }
    }
}
