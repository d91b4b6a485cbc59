//! The texts in attributes of spans: messages and calls in the forms of the GenAI conventions, of OpenInference and of
//! OpenLLMetry. Start with [`request`] and [`answer`].

use serde_json::{Map, Value};

type Attributes = Map<String, Value>;

/// Prefixes of attributes that have messages, one by one.
const FLAT: [(&str, &str); 2] =
    [("llm.input_messages.", "llm.output_messages."), ("gen_ai.prompt.", "gen_ai.completion.")];

const WHOLE: [&str; 9] = [
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "input.value",
    "output.value",
    "input.mime_type",
    "output.mime_type",
    "tool.parameters",
];

/// Whether an attribute has messages or a part of one.
pub(super) fn is_message(name: &str) -> bool {
    WHOLE.contains(&name)
        || FLAT.iter().any(|(input, output)| name.starts_with(input) || name.starts_with(output))
}

/// The last message of a user.
pub(super) fn request(attributes: &Attributes) -> Option<String> {
    let messages = attributes.get("gen_ai.input.messages").map(parsed);
    let of_user = |messages: &Value| {
        let mut users = messages.as_array()?.iter().rev().filter(|message| message["role"] == "user");
        users.find_map(text_of)
    };
    messages
        .and_then(|messages| of_user(&messages))
        .or_else(|| FLAT.iter().find_map(|(prefix, _)| flat(attributes, prefix, true)))
        .or_else(|| plain(attributes, "input.value"))
}

/// The text that the model returned.
pub(super) fn answer(attributes: &Attributes) -> Option<String> {
    let messages = attributes.get("gen_ai.output.messages").map(parsed);
    let texts = |messages: &Value| {
        let texts: Vec<String> = messages.as_array()?.iter().filter_map(text_of).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    };
    let is_model = |attributes: &Attributes| {
        attributes.contains_key("llm.model_name")
            || attributes.keys().any(|name| name.starts_with("llm.output"))
    };
    messages
        .and_then(|messages| texts(&messages))
        .or_else(|| FLAT.iter().find_map(|(_, prefix)| flat(attributes, prefix, false)))
        .or_else(|| plain(attributes, "output.value").filter(|_| !is_model(attributes)))
}

/// The arguments of a call.
pub(super) fn arguments(attributes: &Attributes) -> Option<String> {
    ["gen_ai.tool.call.arguments", "tool.parameters", "input.value", "traceloop.entity.input"]
        .iter()
        .find_map(|name| plain(attributes, name))
}

/// The result of a call.
pub(super) fn result(attributes: &Attributes) -> Option<String> {
    ["gen_ai.tool.call.result", "output.value", "traceloop.entity.output"]
        .iter()
        .find_map(|name| plain(attributes, name))
}

/// A text that may be JSON.
pub(super) fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn parsed(value: &Value) -> Value {
    value.as_str().map_or_else(|| value.clone(), json_or_text)
}

fn plain(attributes: &Attributes, name: &str) -> Option<String> {
    match attributes.get(name)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        value => Some(value.to_string()),
    }
}

/// The text parts of a message.
fn text_of(message: &Value) -> Option<String> {
    let parts = message.get("parts").or_else(|| message.get("content"))?;
    if let Some(text) = parts.as_str() {
        return (!text.is_empty()).then(|| text.to_owned());
    }
    let is_text = |part: &&Value| part["type"] == "text";
    let of_part =
        |part: &Value| part.get("content").or_else(|| part.get("text"))?.as_str().map(str::to_owned);
    let texts: Vec<String> = parts.as_array()?.iter().filter(is_text).filter_map(of_part).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// The last message under a prefix, `PREFIX0.message.content` or `PREFIX0.content`; of a user, or of anyone.
fn flat(attributes: &Attributes, prefix: &str, of_user: bool) -> Option<String> {
    let contents = attributes.iter().filter_map(|(name, value)| {
        let (number, field) = name.strip_prefix(prefix)?.split_once('.')?;
        let is_content = field == "content" || field == "message.content";
        let text = value.as_str().filter(|text| is_content && !text.is_empty())?;
        let role =
            name.strip_suffix("content").and_then(|start| attributes.get(&format!("{start}role"))?.as_str());
        (!of_user || role == Some("user")).then_some((number.parse::<u32>().ok()?, text))
    });
    contents.max_by_key(|(number, _)| *number).map(|(_, text)| text.to_owned())
}
