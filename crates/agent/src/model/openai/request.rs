//! Encodes a request for chat completions.
//!
//! It must not know the connection. Start with [`body`].

use serde_json::{Map, Value, json};

use super::OpenAiOptions;
use crate::model::wire::{in_base64, object, plain_name};
use crate::model::{Call, CallResult, Message, Part, Request, ToolSpec};

pub(super) fn body(request: &Request, options: OpenAiOptions) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    let limit = if options.uses_max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
    body.insert(limit.into(), json!(request.max_output_tokens));
    body.insert("stream".into(), json!(true));
    if options.ask_usage {
        body.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
    }
    let mut messages = Vec::new();
    if let Some(system) = request.system.as_deref().filter(|system| !system.is_empty()) {
        messages.push(json!({ "role": "system", "content": system }));
    }
    for message in &request.messages {
        match message {
            Message::User(parts) => messages.push(json!({ "role": "user", "content": contents(parts) })),
            Message::Assistant { text, calls } => messages.push(assistant(text.as_deref(), calls)),
            Message::Results(results) => push_results(results, &mut messages),
        }
    }
    body.insert("messages".into(), Value::Array(messages));
    Value::Object(body).to_string().into_bytes()
}

fn tool(tool: &ToolSpec) -> Value {
    let function = json!({ "name": tool.name, "description": tool.description, "parameters": tool.schema });
    json!({ "type": "function", "function": function })
}

fn assistant(text: Option<&str>, calls: &[Call]) -> Value {
    let mut message = json!({ "role": "assistant", "content": text });
    if calls.is_empty() {
        // A missing content is rejected.
        message["content"] = json!(text.unwrap_or_default());
        return message;
    }
    let call = |call: &Call| {
        let (name, input) = (plain_name(&call.name), object(&call.input).to_string());
        let function = json!({ "name": name, "arguments": input });
        json!({ "id": call.id, "type": "function", "function": function })
    };
    message["tool_calls"] = calls.iter().map(call).collect();
    message
}

/// Adds results, which can only have text. Images follow in a user message after all results, which must be
/// consecutive.
fn push_results(results: &[CallResult], messages: &mut Vec<Value>) {
    let mut images = Vec::new();
    for result in results {
        let content = text_of(&result.parts);
        messages.push(json!({ "role": "tool", "tool_call_id": result.call_id, "content": content }));
        let image_parts = result.parts.iter().filter(|part| !matches!(part, Part::Text(_)));
        let image_parts: Vec<Value> = image_parts.map(content_part).collect();
        if !image_parts.is_empty() {
            let text = format!("Image returned by the call {}:", result.call_id);
            images.push(json!({ "type": "text", "text": text }));
            images.extend(image_parts);
        }
    }
    if !images.is_empty() {
        messages.push(json!({ "role": "user", "content": images }));
    }
}

/// A plain text if there are no images, because some servers do not accept lists.
fn contents(parts: &[Part]) -> Value {
    if parts.iter().all(|part| matches!(part, Part::Text(_))) {
        return json!(text_of(parts));
    }
    parts.iter().map(content_part).collect()
}

fn content_part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image { mime, bytes } => {
            let url = format!("data:{mime};base64,{}", in_base64(bytes));
            json!({ "type": "image_url", "image_url": { "url": url } })
        }
        Part::ImageUrl(url) => json!({ "type": "image_url", "image_url": { "url": url } }),
    }
}

fn text_of(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Text(text) => Some(text.clone()),
        Part::Image { .. } | Part::ImageUrl(_) => None,
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}
