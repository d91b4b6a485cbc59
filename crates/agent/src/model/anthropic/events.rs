//! Decodes the events of a Messages API response.
//!
//! Unknown kinds of events and blocks are ignored, as the API requires of its clients. It must not know the connection.
//! Start with [`EventDecoder`].

use std::collections::{BTreeMap, VecDeque};

use recount_event::family::turn::StopReason;
use recount_transport::sse::Frame;
use serde::Deserialize;
use serde_json::Value;

use crate::model::http::failure_in;
use crate::model::stream::{Protocol, StreamProgress};
use crate::model::wire::{CallCounter, Count, PartialCall, end_or_calls, malformed, read};
use crate::model::{Failure, Piece, Usage, adjusted, failure};

/// The state of the response so far.
pub(super) struct EventDecoder {
    provider: String,
    returns_thinking: bool,
    streams_inputs: bool,
    /// Calls with open blocks, by block index, each with its index among all calls.
    open: BTreeMap<u64, (usize, PartialCall)>,
    started: usize,
    call_counter: CallCounter,
    has_calls: bool,
    stop: Option<String>,
    usage: AnthropicUsage,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Started,
    },
    ContentBlockStart {
        index: u64,
        content_block: ContentBlock,
    },
    ContentBlockDelta {
        index: u64,
        delta: BlockDelta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: MessageChange,
        usage: Option<AnthropicUsage>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Started {
    usage: Option<AnthropicUsage>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentBlock {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
enum BlockDelta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct MessageChange {
    stop_reason: Option<String>,
}

/// Totals; a later event replaces an earlier one.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct AnthropicUsage {
    input_tokens: Option<Count>,
    cache_creation_input_tokens: Option<Count>,
    cache_read_input_tokens: Option<Count>,
    output_tokens: Option<Count>,
}

impl AnthropicUsage {
    fn update(&mut self, newer: AnthropicUsage) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.cache_creation_input_tokens =
            newer.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens = newer.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
    }

    fn has_unreadable(self) -> bool {
        [
            self.input_tokens,
            self.cache_creation_input_tokens,
            self.cache_read_input_tokens,
            self.output_tokens,
        ]
        .contains(&Some(Count::Unreadable))
    }

    /// The usage. The API counts tokens written to and read from the cache separately from other input.
    fn usage(self) -> Usage {
        let of = |count| Count::of(count).unwrap_or(0);
        let cached = of(self.cache_read_input_tokens);
        let written = of(self.cache_creation_input_tokens);
        Usage {
            input_tokens: of(self.input_tokens).saturating_add(written).saturating_add(cached),
            output_tokens: of(self.output_tokens),
            cached_input_tokens: cached,
        }
    }
}

impl EventDecoder {
    pub(super) fn new(provider: String, returns_thinking: bool, streams_inputs: bool) -> Self {
        EventDecoder {
            provider,
            returns_thinking,
            streams_inputs,
            open: BTreeMap::new(),
            started: 0,
            call_counter: CallCounter::default(),
            has_calls: false,
            stop: None,
            usage: AnthropicUsage::default(),
        }
    }

    /// Adds usage figures, and passes on the totals.
    fn add_usage(&mut self, reported: Option<AnthropicUsage>, out: &mut VecDeque<Piece>) {
        let Some(reported) = reported else { return };
        self.usage.update(reported);
        if reported.has_unreadable() {
            out.push_back(Piece::Adjusted(adjusted::USAGE_UNREADABLE));
        }
        out.push_back(Piece::Usage(self.usage.usage()));
    }

    fn start_block(
        &mut self,
        index: u64,
        block: ContentBlock,
        out: &mut VecDeque<Piece>,
    ) -> Result<(), Failure> {
        match block {
            ContentBlock::Text { text } if !text.is_empty() => out.push_back(Piece::Text(text)),
            ContentBlock::ToolUse { id, name, input } => {
                self.call_counter.add_call(&self.provider)?;
                self.has_calls = true;
                // Usually it is `{}` and the input follows. Some compatible servers send the complete input here.
                let is_complete = input.as_object().is_some_and(|input| !input.is_empty());
                let input = if is_complete { input.to_string() } else { String::new() };
                self.call_counter.add_bytes(&self.provider, id.len() + name.len() + input.len())?;
                if self.streams_inputs && is_complete {
                    out.push_back(Piece::CallInput { call: self.started, text: input.clone() });
                }
                self.open.insert(index, (self.started, PartialCall { id, name, input }));
                self.started += 1;
            }
            ContentBlock::Text { .. } | ContentBlock::Other => {}
        }
        Ok(())
    }
}

impl Protocol for EventDecoder {
    fn event(&mut self, frame: &Frame, out: &mut VecDeque<Piece>) -> Result<StreamProgress, Failure> {
        let (event, was_replaced) = read::<Event>(&frame.data).map_err(|why| {
            let begin = failure::cut(&frame.data);
            malformed(&self.provider, &format!("has an event that cannot be read ({why}): {begin}"))
        })?;
        if was_replaced {
            out.push_back(Piece::Adjusted(adjusted::TEXT_REPLACED));
        }
        match event {
            Event::MessageStart { message } => self.add_usage(message.usage, out),
            Event::ContentBlockStart { index, content_block } => {
                self.start_block(index, content_block, out)?;
            }
            Event::ContentBlockDelta { index, delta } => match delta {
                BlockDelta::Text { text } if !text.is_empty() => out.push_back(Piece::Text(text)),
                BlockDelta::Thinking { thinking } if self.returns_thinking && !thinking.is_empty() => {
                    out.push_back(Piece::Thinking(thinking));
                }
                BlockDelta::Input { partial_json } => {
                    if let Some((at, call)) = self.open.get_mut(&index) {
                        self.call_counter.add_bytes(&self.provider, partial_json.len())?;
                        call.input.push_str(&partial_json);
                        if self.streams_inputs {
                            out.push_back(Piece::CallInput { call: *at, text: partial_json });
                        }
                    }
                }
                BlockDelta::Text { .. } | BlockDelta::Thinking { .. } | BlockDelta::Other => {}
            },
            Event::ContentBlockStop { index } => {
                out.extend(self.open.remove(&index).map(|(_, call)| call.into_piece()));
            }
            Event::MessageDelta { delta, usage } => {
                self.add_usage(usage, out);
                self.stop = delta.stop_reason.or(self.stop.take());
            }
            Event::MessageStop => return Ok(StreamProgress::End),
            Event::Error { error } => return Err(failure_in(&self.provider, &error)),
            Event::Other => return Ok(StreamProgress::KeepAlive),
        }
        Ok(StreamProgress::Content)
    }

    fn finish(&mut self, out: &mut VecDeque<Piece>) -> Option<Piece> {
        let stop = match self.stop.as_deref()? {
            "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
            "refusal" => StopReason::Refusal,
            // `pause_turn` means that a tool of the provider runs long. Requests never include such tools, so there is
            // nothing to continue, and the response is complete.
            _ => end_or_calls(self.has_calls),
        };
        out.extend(std::mem::take(&mut self.open).into_values().map(|(_, call)| call.into_piece()));
        Some(Piece::Finish { stop, usage: self.usage.usage() })
    }
}
