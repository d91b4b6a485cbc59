//! What a person sees of a permission request before the decision, and the changes that calls show. Look at [`summary`],
//! [`preview`] and [`changed`].
//!
//! A request may name only the id of its call; then the call's own messages have the content.

use serde_json::Value;

use super::tool_call::ToolCall;
use crate::claude_transcripts::within;
use crate::patch::Patch;

/// One line. `call` has the fields of the request and those of earlier messages.
pub(super) fn summary(params: &Value, about: &Value, call: Option<&ToolCall>) -> String {
    let given = [&params["title"], &about["title"]].into_iter().filter_map(Value::as_str);
    let title =
        given.chain(call.and_then(|call| call.title.as_deref())).find(|title| !title.trim().is_empty());
    if let Some(title) = title {
        return title.to_owned();
    }
    let input = input(about, call);
    let command = params["subject"]["command"].as_str().or(input["command"].as_str());
    match command {
        Some(command) => command.to_owned(),
        None if input.is_null() => "the agent requests a permission".to_owned(),
        None => input.to_string(),
    }
}

/// The text that a person reads before deciding.
pub(super) fn preview(
    params: &Value,
    about: &Value,
    call: Option<&ToolCall>,
) -> Option<(&'static str, String)> {
    let input = input(about, call);
    let command = params["subject"]["command"].as_str().or(input["command"].as_str());
    if let Some(command) = command {
        return Some(("command", command.to_owned()));
    }
    let shown = about["content"].as_array().into_iter().flatten().filter(|part| part["type"] == "diff");
    let earlier = call.into_iter().flat_map(|call| &call.shown_changes);
    let diffs: String = match shown.clone().next() {
        Some(_) => shown.filter_map(|change| diff(change, &input)).collect(),
        None => earlier.filter_map(|change| diff(change, &input)).collect(),
    };
    if !diffs.is_empty() {
        return Some(("diff", diffs));
    }
    (!input.is_null()).then(|| ("input", input.to_string()))
}

fn diff(change: &Value, input: &Value) -> Option<String> {
    Some(changed("", change, "", input)?.text)
}

/// A change that a call with this input shows. By the protocol its texts are those of the whole file; a model that writes
/// the old text itself edits a part of it.
pub(super) fn changed(call: &str, change: &Value, folder: &str, input: &Value) -> Option<Patch> {
    let (path, new) = (change["path"].as_str()?, change["newText"].as_str()?);
    let path = within(path, Some(folder));
    let first_line =
        [&change["startLine"], &change["_meta"]["startLine"]].into_iter().find_map(Value::as_u64);
    let first_line = first_line.and_then(|line| usize::try_from(line).ok()).filter(|line| *line > 0);
    Some(match (change["oldText"].as_str(), first_line) {
        (Some(old), Some(line)) => Patch::of_part(call, path, old, new, Some(line)),
        (Some(old), None) if !old.is_empty() && (change["isPart"] == true || contains(input, old)) => {
            Patch::of_part(call, path, old, new, None)
        }
        (old, _) => Patch::of(call, path, old, new),
    })
}

/// Whether a text is in one of the texts of a value, which may be JSON in a text.
fn contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(json) if json.starts_with('{') => {
            serde_json::from_str::<Value>(json).is_ok_and(|value| value.is_object() && contains(&value, text))
        }
        Value::String(whole) => whole.contains(text),
        Value::Array(items) => items.iter().any(|item| contains(item, text)),
        Value::Object(fields) => fields.values().any(|field| contains(field, text)),
        _ => false,
    }
}

/// The input, also of an agent that sends it as JSON in a text.
fn input(about: &Value, call: Option<&ToolCall>) -> Value {
    let sent = match (&about["rawInput"], call) {
        (Value::Null, Some(call)) => &call.input,
        (sent, _) => sent,
    };
    let text = sent.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    text.filter(Value::is_object).unwrap_or_else(|| sent.clone())
}
