//! `ask_user`: a question to a person, whose answer is the output of the call.
//!
//! Look at [`AskUser`]. It is asked and not run.

use futures_util::future::BoxFuture;
use recount_event::family::clarification::Requested;
use recount_event::{ForeignId, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits::APPROVAL_TIMEOUT_SECONDS_MAX;
use crate::tool::{Ask, Assessment, Job, Outcome, Tool};
use crate::tools::ending::Stop;
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
        "Asks a person and waits for the answer. Ask only what you cannot find out and what changes what you do. \
         Offer choices where you can, and a default to go on with when nobody answers in time."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "question": {
                    "type": "string", "minLength": 1, "maxLength": limits::QUESTION_CHARS_MAX,
                    "description": "The question, in full."
                },
                "choices": {
                    "type": "array", "minItems": 1, "maxItems": limits::CHOICES_MAX,
                    "items": { "type": "string", "minLength": 1, "maxLength": limits::CHOICE_CHARS_MAX },
                    "description": "Answers to choose from; the person may answer otherwise."
                },
                "default": {
                    "type": "string", "minLength": 1, "maxLength": limits::CHOICE_CHARS_MAX,
                    "description": "The answer to go on with when nobody answers in time."
                },
                "timeout_seconds": {
                    "type": "integer", "minimum": 1, "maximum": APPROVAL_TIMEOUT_SECONDS_MAX,
                    "description": "How long to wait for an answer."
                }
            },
            "required": ["question"],
            "additionalProperties": false
        })
    }

    fn assess(&self, input: &Value) -> Assessment {
        input::harmless(input::text(input, "question"), "Ask a person a question.", Vec::new())
    }

    fn asks(&self, call: &ForeignId, input: &Value) -> Option<Ask> {
        let input: AskUserInput = input::read(input).ok()?;
        let mut asked = Requested::new(call.clone(), input.question);
        asked.tool_call_id = Some(call.clone());
        let kinds = if input.choices.is_some() { &["choice", "text"][..] } else { &["text"] };
        asked.accepted_response_kinds = Some(kinds.iter().map(|&kind| kind.to_owned()).collect());
        asked.choices = input.choices.map(|choices| choices.iter().map(|choice| json(choice)).collect());
        asked.default_response = input.default.map(|default| json(&default));
        asked.timeout_seconds = input.timeout_seconds;
        Some(Ask::Clarification(Box::new(asked)))
    }

    fn run<'a>(&'a self, _job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            Stop::failed("not_asked", "a question is asked and not run; its input does not fit").into()
        })
    }
}

fn json(text: &str) -> Json {
    Json::of(&text).expect("a string can be said in JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::scene::{Scene, refused};

    fn asked(input: &Value) -> Value {
        let call = ForeignId::parse("call_1").unwrap();
        match AskUser.asks(&call, input) {
            Some(Ask::Clarification(asked)) => serde_json::to_value(asked).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_question_is_asked_and_not_run() {
        assert_eq!(
            asked(
                &json!({ "question": "Which?", "choices": ["a", "b"], "default": "a", "timeout_seconds": 60 })
            ),
            json!({
                "clarification_id": "call_1", "question": "Which?", "tool_call_id": "call_1",
                "accepted_response_kinds": ["choice", "text"], "choices": ["a", "b"], "default_response": "a",
                "timeout_seconds": 60
            })
        );
        assert_eq!(
            asked(&json!({ "question": "Why?" })),
            json!({
                "clarification_id": "call_1", "question": "Why?", "tool_call_id": "call_1",
                "accepted_response_kinds": ["text"]
            })
        );
        assert_eq!(AskUser.asks(&ForeignId::parse("call_1").unwrap(), &json!({})), None);
        refused(&Scene::new().run("ask_user", json!({ "question": "Why?" })).await, "not_asked");
    }
}
