//! What the chunks of a chat completion say, in the dialects that servers speak.
//!
//! Look at [`Chunks`]. It takes what it understands and passes over the rest, because no two servers send the same.
//! It must never know how chunks travel.

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
use crate::model::wire::{CallRoom, Count, GatheredCall, end_or_calls, malformed, read};
use crate::model::{Failure, Piece, Usage, adjusted, failure};

/// What was heard so far.
pub(super) struct Chunks {
    who: String,
    /// Calls in the order in which they began, with the index that the server gives them.
    calls: Vec<(Option<u64>, GatheredCall)>,
    calls_before: usize,
    tells_inputs: bool,
    room: CallRoom,
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
    /// Some servers that send an answer in one piece call it so.
    message: Option<ChoiceDelta>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ChoiceDelta {
    content: Option<Value>,
    reasoning_content: Option<Value>,
    /// The same by another name; servers that send both send it twice.
    reasoning: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
    function_call: Option<FunctionDelta>,
    /// What routers of several providers send of models that make images.
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
    /// A text in pieces; an object from servers that take the imitation lightly.
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

impl Chunks {
    pub(super) fn new(who: String, calls_before: usize, tells_inputs: bool) -> Self {
        Chunks {
            who,
            calls: Vec::new(),
            calls_before,
            tells_inputs,
            room: CallRoom::default(),
            refused: false,
            stop: None,
            usage: Usage::default(),
        }
    }

    fn choice(&mut self, choice: Choice, out: &mut VecDeque<Piece>) -> Result<(), Failure> {
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
                self.call(call, out)?;
            }
            if let Some(function) = delta.function_call {
                self.call(CallDelta { index: Some(0), id: None, function: Some(function) }, out)?;
            }
            out.extend(delta.images.unwrap_or_default().iter().map(image));
        }
        if let Some(stop) = choice.finish_reason.filter(|stop| !stop.is_empty()) {
            self.stop = Some(stop);
        }
        Ok(())
    }

    /// Adds to the call it belongs to, or begins one. Servers give an index, an id, both in every piece or neither;
    /// some give every whole call the index 0.
    fn call(&mut self, delta: CallDelta, out: &mut VecDeque<Piece>) -> Result<(), Failure> {
        let id = delta.id.unwrap_or_default();
        let function = delta.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let input = match function.arguments {
            Some(Value::String(text)) => text,
            None | Some(Value::Null) => String::new(),
            Some(whole) => whole.to_string(),
        };
        let begins = |call: &GatheredCall| {
            let other_id = !id.is_empty() && !call.id.is_empty() && id != call.id;
            let is_whole = !input.is_empty()
                && call.input.ends_with('}')
                && serde_json::from_str::<IgnoredAny>(&call.input).is_ok();
            !name.is_empty() && (other_id || is_whole)
        };
        let found = match delta.index {
            Some(_) => self.calls.iter().rposition(|(index, _)| *index == delta.index),
            None if !id.is_empty() => self.calls.iter().rposition(|(_, call)| call.id == id),
            None if name.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        };
        let found = found.filter(|at| !begins(&self.calls[*at].1));
        self.room.take_bytes(&self.who, id.len() + name.len() + input.len())?;
        if self.tells_inputs && !input.is_empty() {
            let call = found.unwrap_or(self.calls.len());
            out.push_back(Piece::CallInput { call, text: input.clone() });
        }
        let Some(at) = found else {
            self.room.take_call(&self.who)?;
            self.calls.push((delta.index, GatheredCall { id, name, input }));
            return Ok(());
        };
        let call = &mut self.calls[at].1;
        if call.id.is_empty() {
            call.id = id;
        }
        // The name comes once, in every piece again, or in pieces itself.
        if call.name != name {
            call.name.push_str(&name);
        }
        call.input.push_str(&input);
        Ok(())
    }

    /// Ids that are missing or not unique are made up.
    fn take_calls(&mut self) -> Vec<GatheredCall> {
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

/// An image as `{"image_url": {"url": "data:image/png;base64,…"}}`. What is at an address is not fetched.
fn image(told: &Value) -> Piece {
    let url = told.pointer("/image_url/url").and_then(Value::as_str).unwrap_or_default();
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match parts.and_then(|(mime, data)| Some((mime, STANDARD.decode(data).ok()?))) {
        Some((mime, bytes)) => Piece::Image { mime: mime.to_owned(), bytes: bytes.into() },
        None => Piece::Adjusted(adjusted::IMAGE_DROPPED),
    }
}

impl Protocol for Chunks {
    fn event(&mut self, frame: &Frame, out: &mut VecDeque<Piece>) -> Result<StreamProgress, Failure> {
        let data = frame.data.trim();
        if data == "[DONE]" {
            return Ok(StreamProgress::LastWord);
        }
        if data.is_empty() {
            return Ok(StreamProgress::Nothing);
        }
        let (chunk, was_replaced) = read::<Chunk>(data).map_err(|why| {
            let begin = failure::cut(data);
            malformed(&self.who, &format!("holds a chunk that cannot be read ({why}): {begin}"))
        })?;
        if was_replaced {
            out.push_back(Piece::Adjusted(adjusted::TEXT_REPLACED));
        }
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(failure_in(&self.who, &error));
        }
        // Only one answer was asked for.
        for choice in chunk.choices.unwrap_or_default().into_iter().filter(|choice| choice.index == 0) {
            self.choice(choice, out)?;
        }
        if let Some(told) = chunk.usage {
            let cached = told.prompt_tokens_details.and_then(|details| details.cached_tokens);
            let cached = cached.or(told.prompt_cache_hit_tokens);
            if [told.prompt_tokens, told.completion_tokens, cached].contains(&Some(Count::Unreadable)) {
                out.push_back(Piece::Adjusted(adjusted::USAGE_UNREADABLE));
            }
            self.usage = Usage {
                input_tokens: Count::of(told.prompt_tokens).unwrap_or(0),
                output_tokens: Count::of(told.completion_tokens).unwrap_or(0),
                cached_input_tokens: Count::of(cached).unwrap_or(0),
            };
            out.push_back(Piece::Usage(self.usage));
        }
        Ok(StreamProgress::Something)
    }

    fn finish(&mut self, out: &mut VecDeque<Piece>) -> Option<Piece> {
        let stop = match self.stop.as_deref()? {
            "length" | "max_tokens" => StopReason::MaxTokens,
            "content_filter" | "refusal" => StopReason::Refusal,
            "error" => StopReason::Error,
            _ if self.refused => StopReason::Refusal,
            _ => end_or_calls(!self.calls.is_empty()),
        };
        out.extend(self.take_calls().into_iter().map(GatheredCall::piece));
        Some(Piece::Finish { stop, usage: self.usage })
    }
}

/// A text, or a list of parts of which some are texts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}
