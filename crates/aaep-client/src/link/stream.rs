//! Reads an event stream: [`Stream`]. `recount_transport::sse` decodes its frames.

use std::time::Duration;

use recount_transport::sse::{self, Decoder, DecoderError};
use recount_world::World;
use reqwest::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use reqwest::{Method, Response};
use tokio::time::Instant;

use super::ReceivedMessage;
use super::call::Caller;
use super::error::LinkError;
use crate::limits;

/// Bytes that the field name adds to a message on its line.
const FIELD_BYTES: usize = "data: ".len();

pub(super) struct Stream {
    world: World,
    /// `None` after its end.
    response: Option<Response>,
    decoder: Decoder,
    /// When the current chunk arrived.
    at: Instant,
    at_ms: u64,
    comments_reported: u64,
    failed: Option<DecoderError>,
}

impl Stream {
    pub(super) async fn open(
        world: &World,
        caller: &Caller,
        url: &str,
        last_event_id: Option<&str>,
        patience: Duration,
    ) -> Result<Stream, LinkError> {
        let mut request = caller
            .request(Method::GET, url)
            .header(ACCEPT, sse::MEDIA_TYPE)
            .header(CACHE_CONTROL, "no-cache");
        if let Some(id) = last_event_id.filter(|id| !id.is_empty()) {
            request = request.header("last-event-id", id);
        }
        let response = caller.head(url, request).await?;
        let status = response.status().as_u16();
        if status != 200 {
            // The body is reported if it arrives in time, the status always.
            let body = tokio::time::timeout(patience, caller.body(url, response)).await;
            let body = body.ok().and_then(Result::ok).unwrap_or_default();
            return Err(LinkError::Refused { url: url.to_owned(), status, body });
        }
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case(sse::MEDIA_TYPE) {
            let what = if kind.is_empty() { "no media type".to_owned() } else { kind.to_owned() };
            return Err(LinkError::NotAStream { url: url.to_owned(), what });
        }
        Ok(Stream {
            world: world.clone(),
            response: Some(response),
            decoder: Decoder::with_limits(
                limits::MESSAGE_BYTES_MAX + FIELD_BYTES,
                limits::MESSAGE_BYTES_MAX + 1,
            ),
            at: recount_world::moment(),
            at_ms: world.clock.now_ms(),
            comments_reported: 0,
            failed: None,
        })
    }

    /// Cancel-safe: a received chunk is decoded before the next await.
    pub(super) async fn next(&mut self) -> Result<Option<ReceivedMessage>, LinkError> {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                let comments = self.decoder.comments() - self.comments_reported;
                self.comments_reported += comments;
                return Ok(Some(ReceivedMessage {
                    text: frame.data,
                    id: frame.id,
                    event: frame.event,
                    at: self.at,
                    at_ms: self.at_ms,
                    comments,
                }));
            }
            if self.failed.take().is_some() {
                self.response = None;
                return Err(LinkError::TooLong { limit: limits::MESSAGE_BYTES_MAX });
            }
            let Some(response) = &mut self.response else { return Ok(None) };
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    self.at = recount_world::moment();
                    self.at_ms = self.world.clock.now_ms();
                    // Complete frames before the failure are returned first.
                    self.failed = self.decoder.feed(&chunk).err();
                }
                Ok(None) => self.response = None,
                Err(why) => {
                    self.response = None;
                    return Err(LinkError::broken(&why));
                }
            }
        }
    }

    pub(super) fn comments(&self) -> u64 {
        self.decoder.comments()
    }

    pub(super) fn retry_ms(&self) -> Option<u64> {
        self.decoder.retry_ms()
    }
}
