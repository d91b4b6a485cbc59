//! Formats a question of the agent as text, with its choices. Pure.
//!
//! Must not depend on how the question is answered. Start with [`text`].

use recount_event::Json;
use recount_event::family::clarification::Requested;
use serde_json::Value;

pub(crate) fn choices(request: &Requested) -> Vec<String> {
    let label = |choice: &Json| match serde_json::from_str::<Value>(choice.text()) {
        Ok(Value::String(text)) => text,
        Ok(Value::Object(fields)) => {
            let named = ["label", "title", "name", "id"].iter().find_map(|key| fields.get(*key)?.as_str());
            named.unwrap_or(choice.text()).to_owned()
        }
        _ => choice.text().to_owned(),
    };
    request.choices.iter().flatten().map(label).collect()
}

pub(crate) fn words(request: &Requested) -> String {
    match &request.context {
        Some(context) => format!("{}\n\n{context}", request.question),
        None => request.question.clone(),
    }
}

/// The question as a text of the agent, for editors without forms. The next prompt is the answer.
pub(crate) fn text(request: &Requested) -> String {
    let choices: String = choices(request).iter().map(|choice| format!("\n- {choice}")).collect();
    format!("\n\n{}{}\n\n(Your next message is the answer.)", words(request), choices)
}
