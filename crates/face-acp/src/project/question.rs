//! A question of the agent in words, with its choices.
//!
//! Pure. It must not know how the question is answered. Look at [`text`].

use recount_event::Json;
use recount_event::family::clarification::Requested;
use serde_json::Value;

pub(crate) fn choices(asked: &Requested) -> Vec<String> {
    let label = |choice: &Json| match serde_json::from_str::<Value>(choice.text()) {
        Ok(Value::String(text)) => text,
        Ok(Value::Object(fields)) => {
            let named = ["label", "title", "name", "id"].iter().find_map(|key| fields.get(*key)?.as_str());
            named.unwrap_or(choice.text()).to_owned()
        }
        _ => choice.text().to_owned(),
    };
    asked.choices.iter().flatten().map(label).collect()
}

pub(crate) fn words(asked: &Requested) -> String {
    match &asked.context {
        Some(context) => format!("{}\n\n{context}", asked.question),
        None => asked.question.clone(),
    }
}

/// The question as a text of the agent, for editors without forms. The next prompt is the answer.
pub(crate) fn text(asked: &Requested) -> String {
    let choices: String = choices(asked).iter().map(|choice| format!("\n- {choice}")).collect();
    format!("\n\n{}{}\n\n(Your next message is the answer.)", words(asked), choices)
}
