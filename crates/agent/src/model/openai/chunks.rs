//! Decodes the chunks of a chat completion, in the dialects of different servers.
//!
//! Unknown fields are ignored, because servers differ. It must not know the connection. Start with [`ChunkDecoder`].

use std::collections::{BTreeSet, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_event::family::turn::StopReason;
use recount_transport::sse::Frame;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::model::http::failure_in;
use crate::model::stream::{Protocol, StreamProgress};
use crate::model::wire::{CallCounter, Count, PartialCall, end_or_calls, malformed, read};
use crate::model::{Failure, Piece, Usage, adjusted, failure};

/// The state of the response so far.
pub(super) struct ChunkDecoder {
    provider: String,
    /// Calls in the order of their start, with the index of the server.
    calls: Vec<(Option<u64>, PartialCall)>,
    calls_before: usize,
    streams_inputs: bool,
    call_counter: CallCounter,
    refused: bool,
    stop: Option<String>,
    usage: Usage,
}

#[derive(Debug, Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<OpenAiUsage>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<ChoiceDelta>,
    /// Used by some servers that send the response in one piece.
    message: Option<ChoiceDelta>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ChoiceDelta {
    content: Option<Value>,
    reasoning_content: Option<Value>,
    /// Another name for `reasoning_content`. Servers that send both send the same text.
    reasoning: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
    function_call: Option<FunctionDelta>,
    /// Generated images, as routers of several providers send them.
    images: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    /// A text in pieces, or an object from less compatible servers.
    arguments: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct OpenAiUsage {
    prompt_tokens: Option<Count>,
    completion_tokens: Option<Count>,
    prompt_tokens_details: Option<PromptDetails>,
    prompt_cache_hit_tokens: Option<Count>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<Count>,
}

impl ChunkDecoder {
    pub(super) fn new(provider: String, calls_before: usize, streams_inputs: bool) -> Self {
        ChunkDecoder {
            provider,
            calls: Vec::new(),
            calls_before,
            streams_inputs,
            call_counter: CallCounter::default(),
            refused: false,
            stop: None,
            usage: Usage::default(),
        }
    }

    fn add_choice(&mut self, choice: Choice, out: &mut VecDeque<Piece>) -> Result<(), Failure> {
        if let Some(delta) = choice.delta.or(choice.message) {
            let thinking = delta.reasoning_content.or(delta.reasoning);
            let thinking = thinking.as_ref().map(text_of).unwrap_or_default();
            if !thinking.is_empty() {
                out.push_back(Piece::Thinking(thinking));
            }
            let text = delta.content.as_ref().map(text_of).unwrap_or_default();
            if !text.is_empty() {
                out.push_back(Piece::Text(text));
            }
            if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
                self.refused = true;
                out.push_back(Piece::Text(refusal));
            }
            for call in delta.tool_calls.unwrap_or_default() {
                self.add_call_delta(call, out)?;
            }
            if let Some(function) = delta.function_call {
                self.add_call_delta(CallDelta { index: Some(0), id: None, function: Some(function) }, out)?;
            }
            out.extend(delta.images.unwrap_or_default().iter().map(image_piece));
        }
        if let Some(stop) = choice.finish_reason.filter(|stop| !stop.is_empty()) {
            self.stop = Some(stop);
        }
        Ok(())
    }

    /// Adds a delta to its call, or starts a call. Servers send an index, an id, both in every piece, or neither. Some
    /// send the index 0 with every complete call.
    fn add_call_delta(&mut self, delta: CallDelta, out: &mut VecDeque<Piece>) -> Result<(), Failure> {
        let id = delta.id.unwrap_or_default();
        let function = delta.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let input = match function.arguments {
            Some(Value::String(text)) => text,
            None | Some(Value::Null) => String::new(),
            Some(complete) => complete.to_string(),
        };
        let starts_call = |call: &PartialCall| {
            let has_other_id = !id.is_empty() && !call.id.is_empty() && id != call.id;
            let is_complete = !input.is_empty()
                && call.input.ends_with('}')
                && serde_json::from_str::<IgnoredAny>(&call.input).is_ok();
            !name.is_empty() && (has_other_id || is_complete)
        };
        let found = match delta.index {
            Some(_) => self.calls.iter().rposition(|(index, _)| *index == delta.index),
            None if !id.is_empty() => self.calls.iter().rposition(|(_, call)| call.id == id),
            None if name.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        };
        let found = found.filter(|at| !starts_call(&self.calls[*at].1));
        self.call_counter.add_bytes(&self.provider, id.len() + name.len() + input.len())?;
        if self.streams_inputs && !input.is_empty() {
            let call = found.unwrap_or(self.calls.len());
            out.push_back(Piece::CallInput { call, text: input.clone() });
        }
        let Some(at) = found else {
            self.call_counter.add_call(&self.provider)?;
            self.calls.push((delta.index, PartialCall { id, name, input }));
            return Ok(());
        };
        let call = &mut self.calls[at].1;
        if call.id.is_empty() {
            call.id = id;
        }
        // The name is sent once, with every piece, or in pieces.
        if call.name != name {
            call.name.push_str(&name);
        }
        call.input.push_str(&input);
        Ok(())
    }

    /// Takes the calls. Missing and duplicate ids are replaced.
    fn take_calls(&mut self) -> Vec<PartialCall> {
        let mut seen = BTreeSet::new();
        let mut calls = Vec::new();
        for (at, (_, mut call)) in std::mem::take(&mut self.calls).into_iter().enumerate() {
            if call.id.is_empty() || seen.contains(&call.id) {
                call.id = format!("call_{}", self.calls_before + at + 1);
            }
            seen.insert(call.id.clone());
            calls.push(call);
        }
        calls
    }
}

/// An image as `{"image_url": {"url": "data:image/png;base64,…"}}`. Other URLs are not fetched.
fn image_piece(image: &Value) -> Piece {
    let url = image.pointer("/image_url/url").and_then(Value::as_str).unwrap_or_default();
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match parts.and_then(|(mime, data)| Some((mime, STANDARD.decode(data).ok()?))) {
        Some((mime, bytes)) => Piece::Image { mime: mime.to_owned(), bytes: bytes.into() },
        None => Piece::Adjusted(adjusted::IMAGE_DROPPED),
    }
}

impl Protocol for ChunkDecoder {
    fn event(&mut self, frame: &Frame, out: &mut VecDeque<Piece>) -> Result<StreamProgress, Failure> {
        let data = frame.data.trim();
        if data == "[DONE]" {
            return Ok(StreamProgress::End);
        }
        if data.is_empty() {
            return Ok(StreamProgress::KeepAlive);
        }
        let (chunk, was_replaced) = read::<Chunk>(data).map_err(|why| {
            let begin = failure::cut(data);
            malformed(&self.provider, &format!("has a chunk that cannot be read ({why}): {begin}"))
        })?;
        if was_replaced {
            out.push_back(Piece::Adjusted(adjusted::TEXT_REPLACED));
        }
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(failure_in(&self.provider, &error));
        }
        // The request asks for one choice.
        for choice in chunk.choices.unwrap_or_default().into_iter().filter(|choice| choice.index == 0) {
            self.add_choice(choice, out)?;
        }
        if let Some(reported) = chunk.usage {
            let cached = reported.prompt_tokens_details.and_then(|details| details.cached_tokens);
            let cached = cached.or(reported.prompt_cache_hit_tokens);
            if [reported.prompt_tokens, reported.completion_tokens, cached].contains(&Some(Count::Unreadable))
            {
                out.push_back(Piece::Adjusted(adjusted::USAGE_UNREADABLE));
            }
            self.usage = Usage {
                input_tokens: Count::of(reported.prompt_tokens).unwrap_or(0),
                output_tokens: Count::of(reported.completion_tokens).unwrap_or(0),
                cached_input_tokens: Count::of(cached).unwrap_or(0),
            };
            out.push_back(Piece::Usage(self.usage));
        }
        Ok(StreamProgress::Content)
    }

    fn finish(&mut self, out: &mut VecDeque<Piece>) -> Option<Piece> {
        let stop = match self.stop.as_deref()? {
            "length" | "max_tokens" => StopReason::MaxTokens,
            "content_filter" | "refusal" => StopReason::Refusal,
            "error" => StopReason::Error,
            _ if self.refused => StopReason::Refusal,
            _ => end_or_calls(!self.calls.is_empty()),
        };
        out.extend(self.take_calls().into_iter().map(PartialCall::into_piece));
        Some(Piece::Finish { stop, usage: self.usage })
    }
}

/// The text of a string or of a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}
