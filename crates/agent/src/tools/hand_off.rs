//! `hand_off`: the work goes to a person or another agent, with what they need to know.
//!
//! Look at [`HandOff`]. It is asked and not run; whether anybody takes over is the output of the call.

use futures_util::future::BoxFuture;
use recount_event::family::handoff::{REASON_CHARS_MAX, Requested, TargetKind};
use recount_event::{ForeignId, Json};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::limits::APPROVAL_TIMEOUT_SECONDS_MAX;
use crate::tool::{Ask, Assessment, Job, Outcome, Tool};
use crate::tools::ending::Stop;
use crate::tools::input;
use crate::tools::limits;

pub(crate) struct HandOff;

#[derive(Deserialize)]
struct HandOffInput {
    reason: String,
    target_kind: Option<TargetKind>,
    summary: Option<String>,
    context: Option<String>,
    timeout_seconds: Option<u64>,
}

impl Tool for HandOff {
    fn name(&self) -> &'static str {
        "hand_off"
    }

    fn kind(&self) -> &'static str {
        "ask"
    }

    fn description(&self) -> &'static str {
        "Gives the work to a person, a specialist agent or an escalation queue, when you cannot finish it. Say why, \
         what was done so far, and what the one who takes over needs to know."
    }

    fn schema(&self) -> Value {
        let kinds: Vec<_> = TargetKind::ALL.iter().map(|kind| kind.as_str()).collect();
        json!({
            "type": "object",
            "properties": {
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": REASON_CHARS_MAX,
                    "description": "Why you cannot go on."
                },
                "target_kind": {
                    "type": "string", "enum": kinds,
                    "description": "Who should take over. Default human."
                },
                "summary": {
                    "type": "string", "minLength": 1, "maxLength": REASON_CHARS_MAX,
                    "description": "What was done and what is left, in a sentence or two."
                },
                "context": {
                    "type": "string", "minLength": 1, "maxLength": limits::HANDOFF_CONTEXT_CHARS_MAX,
                    "description": "All else that the one who takes over needs to know."
                },
                "timeout_seconds": {
                    "type": "integer", "minimum": 1, "maximum": APPROVAL_TIMEOUT_SECONDS_MAX,
                    "description": "How long to wait. When nobody takes over in that time, the work ends there."
                }
            },
            "required": ["reason"],
            "additionalProperties": false
        })
    }

    fn assess(&self, input: &Value) -> Assessment {
        input::harmless(
            input::text(input, "reason"),
            "Give the work to a person or another agent.",
            Vec::new(),
        )
    }

    fn asks(&self, call: &ForeignId, input: &Value) -> Option<Ask> {
        let input: HandOffInput = input::read(input).ok()?;
        let kind = input.target_kind.unwrap_or(TargetKind::Human);
        let mut asked = Requested::new(call.clone(), input.reason, kind);
        asked.tool_call_id = Some(call.clone());
        asked.summary_normal = input.summary;
        asked.timeout_seconds = input.timeout_seconds;
        asked.packaged_context = input.context.map(|context| {
            let object = Map::from_iter([("notes".to_owned(), Value::String(context))]);
            Json::of(&object).expect("a string can be said in JSON")
        });
        // The log's own bounds are those of the schema; what does not keep them was never held against it.
        asked.breach().is_none().then(|| Ask::Handoff(Box::new(asked)))
    }

    fn run<'a>(&'a self, _job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            Stop::failed("not_asked", "a handoff is asked and not run; its input does not fit").into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(input: &Value) -> Option<Value> {
        match HandOff.asks(&ForeignId::parse("call_1").unwrap(), input)? {
            Ask::Handoff(asked) => Some(serde_json::to_value(asked).unwrap()),
            Ask::Clarification(_) => None,
        }
    }

    #[test]
    fn a_handoff_is_asked_within_the_logs_bounds() {
        assert_eq!(
            asked(&json!({
                "reason": "no rights", "target_kind": "escalation_queue", "summary": "half done", "context": "see a",
                "timeout_seconds": 60
            })),
            Some(json!({
                "handoff_id": "call_1", "reason": "no rights", "target_kind": "escalation_queue",
                "tool_call_id": "call_1", "packaged_context": { "notes": "see a" }, "summary_normal": "half done",
                "timeout_seconds": 60
            }))
        );
        assert_eq!(
            asked(&json!({ "reason": "no rights" })),
            Some(json!({
                "handoff_id": "call_1", "reason": "no rights", "target_kind": "human", "tool_call_id": "call_1"
            }))
        );
        for reason in [String::new(), "x".repeat(REASON_CHARS_MAX + 1)] {
            let input = json!({ "reason": reason });
            assert_eq!(asked(&input), None);
            assert!(crate::schema::check(&HandOff.schema(), &input).is_err());
        }
    }
}
