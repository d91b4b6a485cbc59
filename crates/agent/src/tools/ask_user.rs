//! The `ask_user` tool: asks a person a question; the response is the output of the call.
//!
//! Start at [`AskUser`]. The call opens a prompt and is never run.

use futures_util::future::BoxFuture;
use recount_event::family::clarification::Requested;
use recount_event::{ForeignId, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits::APPROVAL_TIMEOUT_SECONDS_MAX;
use crate::tool::{Assessment, Job, Outcome, Tool, ToolPrompt};
use crate::tools::ending::CallFailure;
use crate::tools::input;
use crate::tools::limits;

pub(crate) struct AskUser;

#[derive(Deserialize)]
struct AskUserInput {
    question: String,
    choices: Option<Vec<String>>,
    default: Option<String>,
    timeout_seconds: Option<u64>,
}

impl Tool for AskUser {
    fn name(&self) -> &'static str {
        "ask_user"
    }

    fn kind(&self) -> &'static str {
        "ask"
    }

    fn description(&self) -> &'static str {
        "Asks the user a question and waits for the reply. Use it only for information that you cannot find \
         yourself and that changes what you do next. Offer choices where possible, and a default for when no \
         reply comes in time."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "question": {
                    "type": "string", "minLength": 1, "maxLength": limits::QUESTION_CHARS_MAX,
                    "description": "The complete question."
                },
                "choices": {
                    "type": "array", "minItems": 1, "maxItems": limits::CHOICES_MAX,
                    "items": { "type": "string", "minLength": 1, "maxLength": limits::CHOICE_CHARS_MAX },
                    "description": "Suggested replies. The user may also reply in other words."
                },
                "default": {
                    "type": "string", "minLength": 1, "maxLength": limits::CHOICE_CHARS_MAX,
                    "description": "The reply to use when the user does not reply in time."
                },
                "timeout_seconds": {
                    "type": "integer", "minimum": 1, "maximum": APPROVAL_TIMEOUT_SECONDS_MAX,
                    "description": "How long to wait for a reply, in seconds."
                }
            },
            "required": ["question"],
            "additionalProperties": false
        })
    }

    fn assess(&self, input: &Value) -> Assessment {
        input::harmless(input::text(input, "question"), "Ask a person a question.", Vec::new())
    }

    fn prompt(&self, call: &ForeignId, input: &Value) -> Option<ToolPrompt> {
        let input: AskUserInput = input::read(input).ok()?;
        let mut request = Requested::new(call.clone(), input.question);
        request.tool_call_id = Some(call.clone());
        let kinds = if input.choices.is_some() { &["choice", "text"][..] } else { &["text"] };
        request.accepted_response_kinds = Some(kinds.iter().map(|&kind| kind.to_owned()).collect());
        request.choices = input.choices.map(|choices| choices.iter().map(|choice| json(choice)).collect());
        request.default_response = input.default.map(|default| json(&default));
        request.timeout_seconds = input.timeout_seconds;
        Some(ToolPrompt::Clarification(Box::new(request)))
    }

    fn run<'a>(&'a self, _job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async { CallFailure::failed("not_asked", "the input of the question is invalid").into() })
    }
}

fn json(text: &str) -> Json {
    Json::of(&text).expect("a string is valid JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::scene::{Scene, refused};

    fn request(input: &Value) -> Value {
        let call = ForeignId::parse("call_1").unwrap();
        match AskUser.prompt(&call, input) {
            Some(ToolPrompt::Clarification(request)) => serde_json::to_value(request).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_question_opens_a_prompt_and_is_not_run() {
        assert_eq!(
            request(
                &json!({ "question": "Which?", "choices": ["a", "b"], "default": "a", "timeout_seconds": 60 })
            ),
            json!({
                "clarification_id": "call_1", "question": "Which?", "tool_call_id": "call_1",
                "accepted_response_kinds": ["choice", "text"], "choices": ["a", "b"], "default_response": "a",
                "timeout_seconds": 60
            })
        );
        assert_eq!(
            request(&json!({ "question": "Why?" })),
            json!({
                "clarification_id": "call_1", "question": "Why?", "tool_call_id": "call_1",
                "accepted_response_kinds": ["text"]
            })
        );
        assert_eq!(AskUser.prompt(&ForeignId::parse("call_1").unwrap(), &json!({})), None);
        refused(&Scene::new().run("ask_user", json!({ "question": "Why?" })).await, "not_asked");
    }
}
