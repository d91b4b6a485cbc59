//! Encodes a request for the Messages API.
//!
//! It must not know the connection. Start with [`body`].

use serde_json::{Map, Value, json};

use super::AnthropicOptions;
use crate::model::wire::{in_base64, object, plain_name};
use crate::model::{Message, Part, Request, ToolSpec};

/// The minimum thinking budget of the API.
const THINKING_TOKENS_MIN: u32 = 1024;

pub(super) fn body(request: &Request, options: AnthropicOptions) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("max_tokens".into(), json!(request.max_output_tokens));
    body.insert("stream".into(), json!(true));
    if let Some(tokens) = thinking_budget(request, options) {
        body.insert("thinking".into(), json!({ "type": "enabled", "budget_tokens": tokens }));
    }
    if let Some(system) = request.system.as_deref().filter(|system| !system.trim().is_empty()) {
        let mut blocks = vec![json!({ "type": "text", "text": system })];
        mark(&mut blocks, options);
        body.insert("system".into(), Value::Array(blocks));
    }
    if !request.tools.is_empty() {
        let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
        mark(&mut tools, options);
        body.insert("tools".into(), Value::Array(tools));
    }
    body.insert("messages".into(), Value::Array(messages(request, options)));
    Value::Object(body).to_string().into_bytes()
}

/// The thinking budget, which leaves at least half of the output for the response. Thinking is off between calls: the
/// API then requires the earlier signed thinking blocks, and these are not stored.
fn thinking_budget(request: &Request, options: AnthropicOptions) -> Option<u32> {
    let requested = options.thinking_tokens?;
    let limit = request.max_output_tokens / 2;
    let in_calls = matches!(request.messages.last(), Some(Message::Results(_)));
    (!in_calls && limit >= THINKING_TOKENS_MIN).then(|| requested.clamp(THINKING_TOKENS_MIN, limit))
}

fn tool(tool: &ToolSpec) -> Value {
    json!({ "name": tool.name, "description": tool.description, "input_schema": tool.schema })
}

/// Marks the last block for the prompt cache: the provider caches everything up to a mark. Three of the four possible
/// marks are used: tools, system prompt and newest message. The next request then reads all earlier messages from the
/// cache.
fn mark(blocks: &mut [Value], options: AnthropicOptions) {
    if let Some(last) = blocks.last_mut().filter(|_| options.cache) {
        last["cache_control"] = json!({ "type": "ephemeral" });
    }
}

/// The messages. Roles must alternate, so consecutive messages of one role become one.
fn messages(request: &Request, options: AnthropicOptions) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &request.messages {
        let (role, blocks) = match message {
            Message::User(parts) => ("user", contents(parts)),
            Message::Assistant { text, calls } => {
                let text = text.as_deref().filter(|text| !text.trim().is_empty());
                let text = text.map(|text| json!({ "type": "text", "text": text }));
                let calls = calls.iter().map(|call| {
                    let (id, input) = (plain_id(&call.id), object(&call.input));
                    let name = plain_name(&call.name);
                    json!({ "type": "tool_use", "id": id, "name": name, "input": input })
                });
                ("assistant", text.into_iter().chain(calls).collect())
            }
            Message::Results(results) => {
                let results = results.iter().map(|result| {
                    let mut block =
                        json!({ "type": "tool_result", "tool_use_id": plain_id(&result.call_id) });
                    let content = contents(&result.parts);
                    if !content.is_empty() {
                        block["content"] = Value::Array(content);
                    }
                    // The API rejects pictures in failed results.
                    if result.is_error && result.parts.iter().all(|part| matches!(part, Part::Text(_))) {
                        block["is_error"] = json!(true);
                    }
                    block
                });
                ("user", results.collect())
            }
        };
        match turns.last_mut() {
            Some((last, content)) if *last == role => content.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => turns.push((role, blocks)),
        }
    }
    if let Some((_, blocks)) = turns.last_mut() {
        mark(blocks, options);
    }
    turns.into_iter().map(|(role, content)| json!({ "role": role, "content": content })).collect()
}

/// The content blocks. The API rejects blank texts.
fn contents(parts: &[Part]) -> Vec<Value> {
    let block = |part: &Part| match part {
        Part::Text(text) if text.trim().is_empty() => None,
        Part::Text(text) => Some(json!({ "type": "text", "text": text })),
        Part::Image { mime, bytes } => {
            let source = json!({ "type": "base64", "media_type": mime, "data": in_base64(bytes) });
            Some(json!({ "type": "image", "source": source }))
        }
        Part::ImageUrl(url) => Some(json!({ "type": "image", "source": { "type": "url", "url": url } })),
    };
    parts.iter().filter_map(block).collect()
}

/// A valid call id. An id of another provider may contain characters that this one rejects.
fn plain_id(id: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let id: String = id.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect();
    if id.is_empty() { "_".into() } else { id }
}
