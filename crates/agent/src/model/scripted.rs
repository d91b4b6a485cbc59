//! A model that replays a script: for tests, the demo and protocol checks.
//!
//! The response depends only on the request, so it is the same after a restart. Only attempts of failures with a count
//! are counted in memory. It must never need a network, an API key, or more than a few bytes for an open response.
//! Start with [`Scripted`]; [`script`] has the format.

pub mod script;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use recount_event::family::turn::StopReason;
use tokio::time::Instant;

use self::script::{
    FailureKind, Pace, Script, ScriptError, ScriptPosition, ScriptedCall, ScriptedFailure, Turn,
};
use super::{Capability, Failure, Message, Model, Part, Patience, Piece, Reply, Request, Usage, failure};
use crate::model::limits;

/// A provider whose models are scripts: one for all model names, or one for each.
pub struct Scripted {
    by_model: BTreeMap<Option<String>, Script>,
    patience: Patience,
    attempts: Arc<Mutex<Attempts>>,
}

impl Scripted {
    /// One script for all model names.
    pub fn new(script: Script) -> Self {
        Self::of(BTreeMap::from([(None, script)]))
    }

    /// Loads a script for all models from a file, or one script `NAME.toml` for each model `NAME` from a folder.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        Ok(Self::of(script::load(path)?))
    }

    fn of(by_model: BTreeMap<Option<String>, Script>) -> Self {
        Scripted { by_model, patience: Patience::default(), attempts: Arc::default() }
    }

    /// Sets the timeouts for silent scripts.
    pub fn with_patience(self, patience: Patience) -> Self {
        Scripted { patience, ..self }
    }

    /// The model names; a single script has none.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.by_model.keys().flatten().map(String::as_str)
    }
}

impl Model for Scripted {
    fn begin(&self, request: Arc<Request>) -> Box<dyn Reply> {
        let script = self.by_model.get(&None).or_else(|| self.by_model.get(&Some(request.model.clone())));
        let Some(script) = script else {
            let known: Vec<&str> = self.models().collect();
            let message =
                format!("unknown script {:?}; available scripts: {}", request.model, known.join(", "));
            return Box::new(UnavailableReply(failure::plain("model_not_found", failure::cut(&message))));
        };
        let tokens = (input_bytes(&request) as u64).div_ceil(4);
        if let Some(most) = script.context_tokens.filter(|most| tokens > *most) {
            let text = format!("the request has {tokens} tokens; the limit of the script is {most}");
            let error_code = Some("context_length_exceeded");
            return Box::new(UnavailableReply(failure::of_status(
                "the script",
                400,
                error_code,
                &text,
                None,
            )));
        }
        let position = script.turn_for(&request);
        let mut turn = script.at(position);
        if let Some(failure) = &turn.failure
            && let Some(times) = failure.times
        {
            let mut attempts = self.attempts.lock().expect("counting does not panic");
            if attempts.count(&request, position) > times {
                turn.failure = None;
            }
        }
        let usage = usage(&request, &turn);
        Box::new(ScriptedReply {
            pace: turn.pace.or(script.pace),
            earlier_calls: calls_in(&request),
            streams_call_inputs: request.streams_call_inputs,
            turn,
            usage,
            patience: self.patience,
            started: None,
            tokens_sent: 0.0,
            pieces_sent: 0,
            at: PlayStage::Thinking(0),
        })
    }

    fn can(&self, _model: &str, _capability: Capability) -> bool {
        true
    }
}

/// The reply to a request without a usable script.
struct UnavailableReply(Failure);

impl Reply for UnavailableReply {
    fn next(&mut self) -> BoxFuture<'_, Result<Piece, Failure>> {
        std::future::ready(Err(self.0.clone())).boxed()
    }
}

/// One turn that is being sent.
struct ScriptedReply {
    turn: Turn,
    pace: Pace,
    usage: Usage,
    patience: Patience,
    /// Calls in the conversation before this turn. Generated ids continue from this number.
    earlier_calls: usize,
    streams_call_inputs: bool,
    started: Option<Instant>,
    tokens_sent: f64,
    pieces_sent: u32,
    at: PlayStage,
}

/// What is sent next, from which byte or call.
#[derive(Debug, Clone, Copy)]
enum PlayStage {
    Thinking(usize),
    Text(usize),
    Image(usize),
    /// The streamed input of a call, from this byte.
    Input(usize, usize),
    Call(usize),
    Finish,
}

impl Reply for ScriptedReply {
    fn next(&mut self) -> BoxFuture<'_, Result<Piece, Failure>> {
        self.step().boxed()
    }
}

impl ScriptedReply {
    /// Waits before it advances, so that a dropped wait can be resumed.
    async fn step(&mut self) -> Result<Piece, Failure> {
        let started = *self.started.get_or_insert_with(recount_world::moment);
        let due = started + self.due();
        if due > recount_world::moment() {
            tokio::time::sleep_until(due).await;
        }
        if let Some(scripted) = &self.turn.failure
            && (self.pieces_sent >= scripted.after || matches!(self.skip_empty(), PlayStage::Finish))
        {
            return Err(self.fail(scripted, due).await);
        }
        self.pieces_sent = self.pieces_sent.saturating_add(1);
        let piece = match self.skip_empty() {
            PlayStage::Thinking(from) => {
                let thinking = self.turn.thinking.as_deref().unwrap_or_default();
                let range = next_piece(thinking, from, self.pace);
                let piece = thinking[range.clone()].to_owned();
                self.advance(PlayStage::Thinking(range.end), &piece);
                Piece::Thinking(piece)
            }
            PlayStage::Text(from) => {
                let text = self.turn.text.as_deref().unwrap_or_default();
                let range = next_piece(text, from, self.pace);
                let piece = text[range.clone()].to_owned();
                self.advance(PlayStage::Text(range.end), &piece);
                Piece::Text(piece)
            }
            PlayStage::Image(at) => {
                let image = &self.turn.image[at];
                let bytes = STANDARD.decode(&image.base64).unwrap_or_default().into();
                let piece = Piece::Image { mime: image.mime.clone(), bytes };
                self.advance(PlayStage::Image(at + 1), "");
                piece
            }
            PlayStage::Input(call, from) => {
                let input = input_of(&self.turn.call[call]);
                let range = next_piece(&input, from, self.pace);
                let next = if range.end < input.len() {
                    PlayStage::Input(call, range.end)
                } else {
                    PlayStage::Call(call)
                };
                let text = input[range].to_owned();
                self.advance(next, &text);
                Piece::CallInput { call, text }
            }
            PlayStage::Call(at) => {
                let call = self.turn.call[at].clone();
                let input = input_of(&call);
                self.advance(self.call_stage(at + 1), &input);
                let generated = || format!("scripted_{}", self.earlier_calls + at + 1);
                Piece::Call { provider_call_id: call.id.unwrap_or_else(generated), name: call.name, input }
            }
            PlayStage::Finish => {
                self.at = PlayStage::Finish;
                let default =
                    if self.turn.call.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
                Piece::Finish { stop: self.turn.stop.unwrap_or(default), usage: self.usage }
            }
        };
        Ok(piece)
    }

    /// The time of the next piece from the start of the turn, so that delays do not accumulate.
    fn due(&self) -> Duration {
        let delay = Duration::from_millis(self.pace.delay_ms.unwrap_or(0));
        match self.pace.tokens_per_second {
            Some(rate) => delay + Duration::from_secs_f64(self.tokens_sent / rate),
            None => delay,
        }
    }

    /// The next stage with content.
    fn skip_empty(&self) -> PlayStage {
        let length = |text: &Option<String>| text.as_deref().map_or(0, str::len);
        let mut at = self.at;
        if let PlayStage::Thinking(from) = at
            && from >= length(&self.turn.thinking)
        {
            at = PlayStage::Text(0);
        }
        if let PlayStage::Text(from) = at
            && from >= length(&self.turn.text)
        {
            at = PlayStage::Image(0);
        }
        if let PlayStage::Image(image) = at
            && image >= self.turn.image.len()
        {
            at = self.call_stage(0);
        }
        match at {
            PlayStage::Call(call) | PlayStage::Input(call, _) if call >= self.turn.call.len() => {
                PlayStage::Finish
            }
            at => at,
        }
    }

    /// The first stage of a call.
    fn call_stage(&self, call: usize) -> PlayStage {
        if self.streams_call_inputs { PlayStage::Input(call, 0) } else { PlayStage::Call(call) }
    }

    fn advance(&mut self, next: PlayStage, sent: &str) {
        self.at = next;
        self.tokens_sent += tokens(sent, self.pace);
    }

    async fn fail(&self, scripted: &ScriptedFailure, due: Instant) -> Failure {
        let message = |default: &str| scripted.message.clone().unwrap_or_else(|| default.to_owned());
        let wait = scripted.retry_after_ms.map(Duration::from_millis);
        let mut failure = match scripted.how {
            FailureKind::Status => {
                failure::of_status("the script", scripted.status.unwrap_or(500), None, &message(""), wait)
            }
            FailureKind::Cut => {
                failure::plain("model_cut", message("the script ended before the response was complete"))
            }
            FailureKind::Malformed => {
                failure::plain("model_malformed", message("the script sends a response that cannot be read"))
            }
            FailureKind::Unreachable => {
                failure::plain("model_unreachable", message("the script refuses the connection"))
            }
            FailureKind::Silent => {
                let is_first = self.pieces_sent == 0;
                let patience = if is_first { self.patience.first } else { self.patience.between };
                tokio::time::sleep_until(due + patience).await;
                let default = format!("the script sent nothing for {} ms", patience.as_millis());
                failure::plain("model_timeout", message(&default))
            }
        };
        failure.retry_after = wait;
        failure.retriable = scripted.retriable.unwrap_or(failure.retriable);
        failure
    }
}

/// The next piece of a text: some words with the white space after them, or some bytes.
fn next_piece(text: &str, from: usize, pace: Pace) -> Range<usize> {
    let rest = &text[from..];
    if let Some(bytes) = pace.bytes {
        let mut end = rest.len().min(bytes as usize);
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        return from..from + end;
    }
    let mut words = pace.words.unwrap_or(1);
    let mut in_word = false;
    for (at, letter) in rest.char_indices() {
        let is_space = letter.is_whitespace();
        if in_word && is_space {
            words -= 1;
        } else if !is_space && !in_word && words == 0 {
            return from..from + at;
        }
        in_word = !is_space;
    }
    from..text.len()
}

fn tokens(text: &str, pace: Pace) -> f64 {
    if pace.bytes.is_some() { text.len() as f64 / 4.0 } else { text.split_whitespace().count() as f64 }
}

fn input_of(call: &ScriptedCall) -> String {
    match (&call.raw, &call.input) {
        (Some(raw), _) => raw.clone(),
        (None, Some(input)) => input.to_string(),
        (None, None) => "{}".to_owned(),
    }
}

/// The usage of the script. Missing figures are estimated with four bytes per token.
fn usage(request: &Request, turn: &Turn) -> Usage {
    let scripted = turn.usage.unwrap_or_default();
    let written = turn.text.as_deref().map_or(0, str::len)
        + turn.thinking.as_deref().map_or(0, str::len)
        + turn.call.iter().map(|call| call.name.len() + input_of(call).len()).sum::<usize>();
    let estimate = |bytes: usize| (bytes as u64).div_ceil(4);
    Usage {
        input_tokens: scripted.input_tokens.unwrap_or_else(|| estimate(input_bytes(request))),
        output_tokens: scripted.output_tokens.unwrap_or_else(|| estimate(written)),
        cached_input_tokens: scripted.cached_input_tokens,
    }
}

fn input_bytes(request: &Request) -> usize {
    let part = |part: &Part| match part {
        Part::Text(text) => text.len(),
        Part::Image { bytes, .. } => bytes.len(),
        Part::ImageUrl(url) => url.len(),
    };
    let parts = |parts: &[Part]| parts.iter().map(part).sum::<usize>();
    let message = |message: &Message| match message {
        Message::User(content) => parts(content),
        Message::Assistant { text, .. } => text.as_deref().map_or(0, str::len),
        Message::Results(results) => results.iter().map(|result| parts(&result.parts)).sum(),
    };
    request.system.as_deref().map_or(0, str::len) + request.messages.iter().map(message).sum::<usize>()
}

fn calls_in(request: &Request) -> usize {
    let calls = |message: &Message| match message {
        Message::Assistant { calls, .. } => calls.len(),
        _ => 0,
    };
    request.messages.iter().map(calls).sum()
}

/// How often a turn was sent for a conversation. The oldest counts are dropped first.
#[derive(Default)]
struct Attempts {
    counts: HashMap<u64, u32>,
    oldest_first: VecDeque<u64>,
}

impl Attempts {
    /// Counts an attempt and returns the new count.
    fn count(&mut self, request: &Request, position: ScriptPosition) -> u32 {
        let key = fingerprint(request, position);
        if !self.counts.contains_key(&key) {
            if self.oldest_first.len() == limits::SCRIPT_ATTEMPTS_REMEMBERED_MAX
                && let Some(oldest) = self.oldest_first.pop_front()
            {
                self.counts.remove(&oldest);
            }
            self.oldest_first.push_back(key);
        }
        let count = self.counts.entry(key).or_insert(0);
        *count = count.saturating_add(1);
        *count
    }
}

fn fingerprint(request: &Request, position: ScriptPosition) -> u64 {
    let mut hasher = DefaultHasher::new();
    position.hash(&mut hasher);
    request.model.hash(&mut hasher);
    request.system.hash(&mut hasher);
    let hash_parts = |parts: &[Part], hasher: &mut DefaultHasher| {
        for part in parts {
            match part {
                Part::Text(text) => text.hash(hasher),
                Part::Image { mime, bytes } => (mime, bytes).hash(hasher),
                Part::ImageUrl(url) => url.hash(hasher),
            }
        }
    };
    for message in &request.messages {
        match message {
            Message::User(parts) => hash_parts(parts, &mut hasher),
            Message::Assistant { text, calls } => {
                text.hash(&mut hasher);
                for call in calls {
                    (&call.id, &call.name).hash(&mut hasher);
                }
            }
            Message::Results(results) => {
                for result in results {
                    (&result.call_id, result.is_error).hash(&mut hasher);
                    hash_parts(&result.parts, &mut hasher);
                }
            }
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
