//! What the events of the Messages API say.
//!
//! Look at [`Events`]. Kinds of events and of blocks that are not known are passed over, as the API asks of its
//! clients. It must never know how events travel.

use std::collections::{BTreeMap, VecDeque};

use recount_event::family::turn::StopReason;
use recount_transport::sse::Frame;
use serde::Deserialize;
use serde_json::Value;

use crate::model::http::failure_in;
use crate::model::stream::{Protocol, StreamProgress};
use crate::model::wire::{CallRoom, Count, GatheredCall, end_or_calls, malformed, read};
use crate::model::{Failure, Piece, Usage, adjusted, failure};

/// What was heard so far.
pub(super) struct Events {
    who: String,
    tells_thinking: bool,
    tells_inputs: bool,
    /// Calls whose blocks are open, by index, each with its place among all calls.
    open: BTreeMap<u64, (usize, GatheredCall)>,
    started: usize,
    room: CallRoom,
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

/// Figures are totals; a later event replaces what an earlier one said.
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

    /// The API counts what went into its cache and what came out of it beside the rest of the input.
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

impl Events {
    pub(super) fn new(who: String, tells_thinking: bool, tells_inputs: bool) -> Self {
        Events {
            who,
            tells_thinking,
            tells_inputs,
            open: BTreeMap::new(),
            started: 0,
            room: CallRoom::default(),
            has_calls: false,
            stop: None,
            usage: AnthropicUsage::default(),
        }
    }

    /// Takes figures of usage in, and passes on what they come to.
    fn used(&mut self, told: Option<AnthropicUsage>, out: &mut VecDeque<Piece>) {
        let Some(told) = told else { return };
        self.usage.update(told);
        if told.has_unreadable() {
            out.push_back(Piece::Adjusted(adjusted::USAGE_UNREADABLE));
        }
        out.push_back(Piece::Usage(self.usage.usage()));
    }

    fn block_begins(
        &mut self,
        index: u64,
        block: ContentBlock,
        out: &mut VecDeque<Piece>,
    ) -> Result<(), Failure> {
        match block {
            ContentBlock::Text { text } if !text.is_empty() => out.push_back(Piece::Text(text)),
            ContentBlock::ToolUse { id, name, input } => {
                self.room.take_call(&self.who)?;
                self.has_calls = true;
                // It is `{}` and the input follows; servers that imitate the API may say all of it here.
                let whole = input.as_object().is_some_and(|input| !input.is_empty());
                let input = if whole { input.to_string() } else { String::new() };
                self.room.take_bytes(&self.who, id.len() + name.len() + input.len())?;
                if self.tells_inputs && whole {
                    out.push_back(Piece::CallInput { call: self.started, text: input.clone() });
                }
                self.open.insert(index, (self.started, GatheredCall { id, name, input }));
                self.started += 1;
            }
            ContentBlock::Text { .. } | ContentBlock::Other => {}
        }
        Ok(())
    }
}

impl Protocol for Events {
    fn event(&mut self, frame: &Frame, out: &mut VecDeque<Piece>) -> Result<StreamProgress, Failure> {
        let (event, was_replaced) = read::<Event>(&frame.data).map_err(|why| {
            let begin = failure::cut(&frame.data);
            malformed(&self.who, &format!("holds an event that cannot be read ({why}): {begin}"))
        })?;
        if was_replaced {
            out.push_back(Piece::Adjusted(adjusted::TEXT_REPLACED));
        }
        match event {
            Event::MessageStart { message } => self.used(message.usage, out),
            Event::ContentBlockStart { index, content_block } => {
                self.block_begins(index, content_block, out)?;
            }
            Event::ContentBlockDelta { index, delta } => match delta {
                BlockDelta::Text { text } if !text.is_empty() => out.push_back(Piece::Text(text)),
                BlockDelta::Thinking { thinking } if self.tells_thinking && !thinking.is_empty() => {
                    out.push_back(Piece::Thinking(thinking));
                }
                BlockDelta::Input { partial_json } => {
                    if let Some((place, call)) = self.open.get_mut(&index) {
                        self.room.take_bytes(&self.who, partial_json.len())?;
                        call.input.push_str(&partial_json);
                        if self.tells_inputs {
                            out.push_back(Piece::CallInput { call: *place, text: partial_json });
                        }
                    }
                }
                BlockDelta::Text { .. } | BlockDelta::Thinking { .. } | BlockDelta::Other => {}
            },
            Event::ContentBlockStop { index } => {
                out.extend(self.open.remove(&index).map(|(_, call)| call.piece()));
            }
            Event::MessageDelta { delta, usage } => {
                self.used(usage, out);
                self.stop = delta.stop_reason.or(self.stop.take());
            }
            Event::MessageStop => return Ok(StreamProgress::LastWord),
            Event::Error { error } => return Err(failure_in(&self.who, &error)),
            Event::Other => return Ok(StreamProgress::Nothing),
        }
        Ok(StreamProgress::Something)
    }

    fn finish(&mut self, out: &mut VecDeque<Piece>) -> Option<Piece> {
        let stop = match self.stop.as_deref()? {
            "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
            "refusal" => StopReason::Refusal,
            // `pause_turn` comes when the provider runs tools of its own for long. None are ever asked for, so
            // there is nothing to go on with, and what was said is the answer.
            _ => end_or_calls(self.has_calls),
        };
        out.extend(std::mem::take(&mut self.open).into_values().map(|(_, call)| call.piece()));
        Some(Piece::Finish { stop, usage: self.usage.usage() })
    }
}
