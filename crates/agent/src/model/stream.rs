//! A streamed response: opens it, applies timeouts and limits, and determines its end.
//!
//! All state is in [`ModelStream`] and not in the polled future, so dropping the future loses nothing, and dropping the
//! stream closes the connection. It must not know the events of a provider; a [`Protocol`] interprets them. Start with
//! [`ModelStream`].

use std::collections::VecDeque;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use recount_transport::sse::{Decoder, Frame};
use tokio::time::Instant;

use super::http::{Chunks, Endpoint};
use super::{Failure, Piece, Reply, failure};
use crate::model::limits;

/// Interprets the events of a provider.
pub(super) trait Protocol: Send {
    /// Processes an event and returns what it contained. All pieces but the last go to `out`.
    fn event(&mut self, frame: &Frame, out: &mut VecDeque<Piece>) -> Result<StreamProgress, Failure>;

    /// The last piece, if the received events are a complete response. Open calls go to `out` before it.
    fn finish(&mut self, out: &mut VecDeque<Piece>) -> Option<Piece>;
}

/// What an event contained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamProgress {
    /// Content of the response.
    Content,
    /// No content, for example a keep-alive message.
    KeepAlive,
    /// The final event; no content follows.
    End,
}

/// A response that is being received.
pub(super) struct ModelStream<P> {
    endpoint: Endpoint,
    protocol: P,
    stage: ConnectionStage,
    decoder: Decoder,
    pieces: VecDeque<Piece>,
    /// The result of the response, returned after all pieces.
    end: Option<Result<Piece, Failure>>,
    bytes: usize,
    frames: u64,
    has_final_event: bool,
    /// The deadline of the next chunk. Set when the first piece is requested.
    until: Option<Instant>,
    /// The deadline of the next content.
    content_until: Option<Instant>,
}

/// The reply to a request that could not be sent.
pub(super) struct FailedReply(pub(super) Failure);

impl Reply for FailedReply {
    fn next(&mut self) -> BoxFuture<'_, Result<Piece, Failure>> {
        std::future::ready(Err(self.0.clone())).boxed()
    }
}

enum ConnectionStage {
    Opening(BoxFuture<'static, Result<Chunks, Failure>>),
    Reading(Chunks),
}

impl<P: Protocol> ModelStream<P> {
    pub(super) fn begin(endpoint: &Endpoint, path: &'static str, body: Vec<u8>, protocol: P) -> Self {
        let sender = endpoint.clone();
        let opening = async move { sender.send(path, body).await }.boxed();
        ModelStream {
            endpoint: endpoint.clone(),
            protocol,
            stage: ConnectionStage::Opening(opening),
            decoder: Decoder::with_limits(limits::MODEL_LINE_BYTES_MAX, limits::MODEL_EVENT_BYTES_MAX),
            pieces: VecDeque::new(),
            end: None,
            bytes: 0,
            frames: 0,
            has_final_event: false,
            until: None,
            content_until: None,
        }
    }

    async fn step(&mut self) -> Result<Piece, Failure> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(piece);
            }
            if let Some(end) = self.end.clone() {
                return end;
            }
            self.receive().await;
        }
    }

    /// Waits for the next chunk and processes it.
    async fn receive(&mut self) {
        let patience = self.endpoint.patience;
        let now = recount_world::moment();
        let until = *self.until.get_or_insert(now + patience.first);
        let content_until =
            *self.content_until.get_or_insert(now + patience.first.max(patience.between_content));
        let received = match &mut self.stage {
            ConnectionStage::Opening(opening) => {
                match tokio::time::timeout_at(until, opening).await {
                    Ok(Ok(chunks)) => self.stage = ConnectionStage::Reading(chunks),
                    Ok(Err(why)) => self.end = Some(Err(why)),
                    Err(_) => self.time_out(patience.first),
                }
                return;
            }
            ConnectionStage::Reading(chunks) => {
                tokio::time::timeout_at(until.min(content_until), chunks.next()).await
            }
        };
        match received {
            Ok(Some(Ok(chunk))) => {
                self.process(&chunk);
                // The wait after the final event has one deadline, however many chunks arrive.
                if !self.has_final_event {
                    self.until = Some(recount_world::moment() + patience.between);
                }
            }
            Ok(Some(Err(why))) => self.finish_or_fail(why),
            Ok(None) => {
                let why = self.cut_failure();
                self.finish_or_fail(why);
            }
            Err(_) if content_until < until => self.time_out(patience.between_content),
            Err(_) => self.time_out(if self.bytes == 0 { patience.first } else { patience.between }),
        }
    }

    fn process(&mut self, chunk: &[u8]) {
        self.bytes = self.bytes.saturating_add(chunk.len());
        if self.bytes > limits::MODEL_ANSWER_BYTES_MAX {
            let limit = limits::MODEL_ANSWER_BYTES_MAX;
            return self.malformed(format!("is larger than {limit} bytes (MODEL_ANSWER_BYTES_MAX)"));
        }
        let fed = self.decoder.feed(chunk);
        while let Some(frame) = self.decoder.next_frame() {
            self.frames += 1;
            if self.has_final_event || self.end.is_some() {
                continue;
            }
            match self.protocol.event(&frame, &mut self.pieces) {
                Ok(StreamProgress::KeepAlive) => {}
                Ok(StreamProgress::Content) => self.content_until = None,
                Ok(StreamProgress::End) => {
                    self.has_final_event = true;
                    self.until = Some(recount_world::moment() + limits::MODEL_TAIL_TIMEOUT);
                }
                Err(why) => self.end = Some(Err(self.endpoint.scrub(why))),
            }
        }
        if let Err(why) = fed
            && !self.has_final_event
            && self.end.is_none()
        {
            self.malformed(format!("cannot be read: {why}"));
        }
    }

    /// Ends the stream: with the last piece if the response is complete, else with the failure.
    fn finish_or_fail(&mut self, why: Failure) {
        let finish = self.protocol.finish(&mut self.pieces);
        self.end = Some(finish.ok_or(why));
    }

    fn cut_failure(&self) -> Failure {
        let provider = self.endpoint.label();
        if self.frames == 0 && self.bytes > 0 {
            let message = format!("the response of {provider} is not an event stream");
            return failure::plain("model_malformed", message);
        }
        failure::plain("model_cut", format!("the response of {provider} ended before it was complete"))
    }

    fn time_out(&mut self, waited: std::time::Duration) {
        let provider = self.endpoint.label();
        let message = format!("{provider} sent nothing for {} ms", waited.as_millis());
        self.finish_or_fail(failure::plain("model_timeout", message));
    }

    fn malformed(&mut self, what: String) {
        let message = format!("the response of {} {what}", self.endpoint.label());
        self.end = Some(Err(failure::plain("model_malformed", message)));
    }
}

impl<P: Protocol> Reply for ModelStream<P> {
    fn next(&mut self) -> BoxFuture<'_, Result<Piece, Failure>> {
        self.step().boxed()
    }
}

#[cfg(test)]
mod tests;
