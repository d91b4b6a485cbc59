//! One attempt at an answer that comes as a stream of events: the wait for it, its bounds, and its end.
//!
//! Look at [`ModelStream`]; what the events say is for a [`Protocol`]. Every wait is kept in the answer and not in the
//! future that is polled, so dropping that loses nothing, and dropping the answer closes the connection. It must
//! never know what a provider's events look like.

use std::collections::VecDeque;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use recount_transport::sse::{Decoder, Frame};
use tokio::time::Instant;

use super::http::{Chunks, Endpoint};
use super::{Failure, Piece, Reply, failure};
use crate::model::limits;

/// What the events of a provider say.
pub(super) trait Protocol: Send {
    /// Takes an event, and says what it brought. Pieces go to `out`, all but the last.
    fn event(&mut self, frame: &Frame, out: &mut VecDeque<Piece>) -> Result<StreamProgress, Failure>;

    /// The end of the answer, when what was heard makes one. Calls that are still held come before it.
    fn finish(&mut self, out: &mut VecDeque<Piece>) -> Option<Piece>;
}

/// What an event brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamProgress {
    Something,
    /// A sign of life, and nothing else.
    Nothing,
    /// The last word: nothing of the answer follows.
    LastWord,
}

/// An answer on its way.
pub(super) struct ModelStream<P> {
    endpoint: Endpoint,
    protocol: P,
    stage: ConnectionStage,
    decoder: Decoder,
    pieces: VecDeque<Piece>,
    /// What the answer comes to, told when all pieces are.
    end: Option<Result<Piece, Failure>>,
    bytes: usize,
    frames: u64,
    last_word: bool,
    /// Nothing is waited for beyond this moment. Set when the first piece is asked for.
    until: Option<Instant>,
    words_until: Option<Instant>,
}

/// The answer to what could not be asked.
pub(super) struct NoAnswer(pub(super) Failure);

impl Reply for NoAnswer {
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
        let asked = endpoint.clone();
        let opening = async move { asked.ask(path, body).await }.boxed();
        ModelStream {
            endpoint: endpoint.clone(),
            protocol,
            stage: ConnectionStage::Opening(opening),
            decoder: Decoder::with_limits(limits::MODEL_LINE_BYTES_MAX, limits::MODEL_EVENT_BYTES_MAX),
            pieces: VecDeque::new(),
            end: None,
            bytes: 0,
            frames: 0,
            last_word: false,
            until: None,
            words_until: None,
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
            self.hear().await;
        }
    }

    /// Waits for the next chunk and takes it in.
    async fn hear(&mut self) {
        let patience = self.endpoint.patience;
        let now = recount_world::moment();
        let until = *self.until.get_or_insert(now + patience.first);
        let words_until = *self.words_until.get_or_insert(now + patience.first.max(patience.between_words));
        let heard = match &mut self.stage {
            ConnectionStage::Opening(opening) => {
                match tokio::time::timeout_at(until, opening).await {
                    Ok(Ok(chunks)) => self.stage = ConnectionStage::Reading(chunks),
                    Ok(Err(why)) => self.end = Some(Err(why)),
                    Err(_) => self.run_out(patience.first),
                }
                return;
            }
            ConnectionStage::Reading(chunks) => {
                tokio::time::timeout_at(until.min(words_until), chunks.next()).await
            }
        };
        match heard {
            Ok(Some(Ok(chunk))) => {
                self.take(&chunk);
                // The tail has one bound, however often something comes.
                if !self.last_word {
                    self.until = Some(recount_world::moment() + patience.between);
                }
            }
            Ok(Some(Err(why))) => self.over(why),
            Ok(None) => {
                let why = self.cut();
                self.over(why);
            }
            Err(_) if words_until < until => self.run_out(patience.between_words),
            Err(_) => self.run_out(if self.bytes == 0 { patience.first } else { patience.between }),
        }
    }

    fn take(&mut self, chunk: &[u8]) {
        self.bytes = self.bytes.saturating_add(chunk.len());
        if self.bytes > limits::MODEL_ANSWER_BYTES_MAX {
            let limit = limits::MODEL_ANSWER_BYTES_MAX;
            return self.malformed(format!("is larger than {limit} bytes (MODEL_ANSWER_BYTES_MAX)"));
        }
        let fed = self.decoder.feed(chunk);
        while let Some(frame) = self.decoder.next_frame() {
            self.frames += 1;
            if self.last_word || self.end.is_some() {
                continue;
            }
            match self.protocol.event(&frame, &mut self.pieces) {
                Ok(StreamProgress::Nothing) => {}
                Ok(StreamProgress::Something) => self.words_until = None,
                Ok(StreamProgress::LastWord) => {
                    self.last_word = true;
                    self.until = Some(recount_world::moment() + limits::MODEL_TAIL_TIMEOUT);
                }
                Err(why) => self.end = Some(Err(self.endpoint.scrub(why))),
            }
        }
        if let Err(why) = fed
            && !self.last_word
            && self.end.is_none()
        {
            self.malformed(format!("cannot be read: {why}"));
        }
    }

    /// Nothing more comes. That is the answer's end if it has one, and else the reason why it has none.
    fn over(&mut self, why: Failure) {
        let finish = self.protocol.finish(&mut self.pieces);
        self.end = Some(finish.ok_or(why));
    }

    fn cut(&self) -> Failure {
        let who = self.endpoint.who();
        if self.frames == 0 && self.bytes > 0 {
            let message = format!("the answer of {who} is no stream of events");
            return failure::plain("model_malformed", message);
        }
        failure::plain("model_cut", format!("the answer of {who} ended without a finish"))
    }

    fn run_out(&mut self, waited: std::time::Duration) {
        let who = self.endpoint.who();
        let message = format!("{who} said nothing for {} ms", waited.as_millis());
        self.over(failure::plain("model_timeout", message));
    }

    fn malformed(&mut self, what: String) {
        let message = format!("the answer of {} {what}", self.endpoint.who());
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
