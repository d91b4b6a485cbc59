//! A conversation as the Messages API takes it.
//!
//! Look at [`body`]. It must never know how the request travels.

use serde_json::{Map, Value, json};

use super::AnthropicOptions;
use crate::model::wire::{in_base64, object, plain_name};
use crate::model::{Message, Part, Request, ToolSpec};

/// The least that the API lets a model think with.
const THINKING_TOKENS_MIN: u32 = 1024;

pub(super) fn body(request: &Request, options: AnthropicOptions) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("max_tokens".into(), json!(request.max_output_tokens));
    body.insert("stream".into(), json!(true));
    if let Some(tokens) = thinking(request, options) {
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

/// Thinking must leave room for the answer. It is not asked for in the middle of calls: the API then wants the
/// earlier thoughts back, signed, and those are not kept.
fn thinking(request: &Request, options: AnthropicOptions) -> Option<u32> {
    let wanted = options.thinking_tokens?;
    let room = request.max_output_tokens / 2;
    let in_calls = matches!(request.messages.last(), Some(Message::Results(_)));
    (!in_calls && room >= THINKING_TOKENS_MIN).then(|| wanted.clamp(THINKING_TOKENS_MIN, room))
}

fn tool(tool: &ToolSpec) -> Value {
    json!({ "name": tool.name, "description": tool.description, "input_schema": tool.schema })
}

/// What stands up to a mark is kept by the provider. Three are used of the four that it takes: tools, system and
/// the newest message, so that the next request finds all before its own newest message.
fn mark(blocks: &mut [Value], options: AnthropicOptions) {
    if let Some(last) = blocks.last_mut().filter(|_| options.cache) {
        last["cache_control"] = json!({ "type": "ephemeral" });
    }
}

/// Roles must take turns, so what one side says in several messages becomes one.
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
                    // The API takes no pictures of what failed.
                    if result.is_error && result.parts.iter().all(|part| matches!(part, Part::Text(_))) {
                        block["is_error"] = json!(true);
                    }
                    block
                });
                ("user", results.collect())
            }
        };
        match turns.last_mut() {
            Some((last, said)) if *last == role => said.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => turns.push((role, blocks)),
        }
    }
    if let Some((_, blocks)) = turns.last_mut() {
        mark(blocks, options);
    }
    turns.into_iter().map(|(role, content)| json!({ "role": role, "content": content })).collect()
}

/// The API refuses texts of white space only.
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

/// An id that another provider gave may hold what this one refuses.
fn plain_id(id: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let id: String = id.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect();
    if id.is_empty() { "_".into() } else { id }
}
