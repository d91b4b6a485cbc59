//! Calls, results, permissions and endings in words.

use recount_client::aap::wire::{Block, Content};
use recount_client::aap::{Stop, StopReason};
use serde_json::Value;

use crate::render::clean;
use crate::render::flow::beginning;
use crate::render::sentence::dollars;

/// Characters of a call's input that are printed in its line; a cut is marked.
const INPUT_CHARS_MAX: usize = 160;

/// Lines of a result that are printed; the number of omitted ones is printed.
const RESULT_LINES_MAX: usize = 5;

/// Characters of a line of a result that are printed.
const RESULT_LINE_CHARS_MAX: usize = 240;

/// Characters of an address of a picture that are printed.
const URL_CHARS_MAX: usize = 120;

/// A call's input, shortened, after its name.
pub(super) fn call(input: &Value) -> String {
    match input {
        Value::Null => String::new(),
        Value::Object(fields) if fields.is_empty() => String::new(),
        input => format!("  {}", clean::line(&short(&input.to_string(), INPUT_CHARS_MAX))),
    }
}

/// A result, short.
pub(super) fn result(name: &str, content: &Content) -> Vec<String> {
    let text = plain(content);
    let mut lines = text.lines().map(|line| clean::line(&short(line, RESULT_LINE_CHARS_MAX)));
    let mut shown = vec![format!("◂ result of {}: {}", clean::line(name), lines.next().unwrap_or_default())];
    shown.extend(lines.by_ref().take(RESULT_LINES_MAX - 1).map(|line| format!("    {line}")));
    let left = lines.count();
    if left > 0 {
        shown.push(format!("    ({left} more {})", if left == 1 { "line" } else { "lines" }));
    }
    shown
}

/// The usage of a turn, as far as the server reports it.
pub(crate) fn usage(usage: &Value) -> Option<String> {
    let mut facts = Vec::new();
    let mut costs = Vec::new();
    for (key, value) in usage.as_object()? {
        match (key.strip_suffix("MicrosUsd"), value.as_u64()) {
            // What took nothing is not worth a word.
            (_, Some(0)) => {}
            (Some(what), Some(micros)) => costs.push(format!("{} {}", spaced(what), dollars(micros))),
            _ if value.is_number() => facts.push(format!("{} {value}", spaced(key))),
            _ => {}
        }
    }
    facts.append(&mut costs);
    (!facts.is_empty()).then(|| clean::line(&format!("usage: {}", facts.join(", "))))
}

/// How a turn ended, where that is worth a line.
pub(crate) fn stopped(stop: &Stop) -> Option<String> {
    let words = match &stop.reason {
        StopReason::EndTurn if stop.awaiting.is_some() => waits(stop.awaiting.as_ref()),
        StopReason::EndTurn | StopReason::ToolUse => return None,
        StopReason::MaxTokens => "stopped: the response reached its maximum length (max_tokens)".to_owned(),
        StopReason::Refusal => "stopped: the model refused to continue (refusal)".to_owned(),
        StopReason::Error => match &stop.error {
            Some(error) => {
                let code = Some(error.code.as_str()).filter(|code| !code.is_empty());
                let code = code.map_or(String::new(), |code| format!("{code}: "));
                let again = if error.retryable { "; retry may succeed" } else { "" };
                format!("✗ the turn failed: {code}{}{again}", error.message)
            }
            None => "✗ the turn failed; the server returned no reason".to_owned(),
        },
        StopReason::Other(reason) => format!("stopped: {reason}"),
    };
    Some(clean::line(&words))
}

/// The action for a person, if the server names one. The question itself was printed as text.
fn waits(awaiting: Option<&Value>) -> String {
    let field = |name: &str| awaiting.and_then(|awaiting| awaiting.get(name));
    if field("kind").and_then(Value::as_str) == Some("handoff") {
        return "handoff: a person must take over".to_owned();
    }
    let choices = field("choices").and_then(Value::as_array).into_iter().flatten();
    let choices: Vec<String> = choices
        .map(|choice| choice.get("label").unwrap_or(choice))
        .map(|choice| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned))
        .collect();
    match choices[..] {
        [] => "the agent waits for an answer".to_owned(),
        _ => format!("the agent waits for an answer, such as {}", choices.join(", ")),
    }
}

/// The text of a content, with what is no text named.
pub(super) fn plain(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) => {
            let parts: Vec<String> = blocks
                .iter()
                .filter_map(|block| match block {
                    Block::Text { text, .. } => Some(text.clone()),
                    Block::Image { url } => Some(image(url)),
                    _ => None,
                })
                .collect();
            parts.join("\n")
        }
        Content::Other(value) => value.to_string(),
    }
}

/// A picture, by what is known of it.
fn image(url: &str) -> String {
    match url.strip_prefix("data:").and_then(|data| data.split_once(';')) {
        Some((mime, data)) => {
            format!("[image, {}, {} bytes encoded]", short(mime, URL_CHARS_MAX), data.len())
        }
        None => format!("[image at {}]", short(url, URL_CHARS_MAX)),
    }
}

/// The beginning of a text, and a sign that it goes on.
pub(super) fn short(text: &str, columns_max: usize) -> String {
    let shown = beginning(text, columns_max);
    if shown.len() < text.len() { format!("{shown}…") } else { text.to_owned() }
}

/// `inputTokens` as `input tokens`.
fn spaced(key: &str) -> String {
    let mut words = String::with_capacity(key.len() + 2);
    for c in key.chars() {
        match c {
            '_' => words.push(' '),
            c if c.is_ascii_uppercase() => {
                words.push(' ');
                words.push(c.to_ascii_lowercase());
            }
            c => words.push(c),
        }
    }
    words
}
