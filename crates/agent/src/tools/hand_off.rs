//! The `hand_off` tool: hands the work to a person or another agent, with the information they need.
//!
//! Start at [`HandOff`]. The call opens a prompt and is never run; its output is whether the handoff was accepted.

use futures_util::future::BoxFuture;
use recount_event::family::handoff::{HandoffUrgency, REASON_CHARS_MAX, Requested, TargetKind};
use recount_event::{ForeignId, Json};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::limits::APPROVAL_TIMEOUT_SECONDS_MAX;
use crate::tool::{Assessment, Job, Outcome, Tool, ToolPrompt};
use crate::tools::ending::CallFailure;
use crate::tools::input;
use crate::tools::limits;

pub(crate) struct HandOff;

#[derive(Deserialize)]
struct HandOffInput {
    reason: String,
    target_kind: Option<TargetKind>,
    target_uri: Option<String>,
    urgency: Option<HandoffUrgency>,
    summary: Option<String>,
    context: Option<String>,
    data: Option<Map<String, Value>>,
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
        "Hands the task over to a person, a specialist agent or an escalation queue when you cannot finish \
         it, and waits until it is accepted. Give the reason, what is done so far, and everything the \
         recipient needs to continue."
    }

    fn schema(&self) -> Value {
        let kinds: Vec<_> = TargetKind::ALL.iter().map(|kind| kind.as_str()).collect();
        json!({
            "type": "object",
            "properties": {
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": REASON_CHARS_MAX,
                    "description": "Why you cannot finish the task."
                },
                "target_kind": {
                    "type": "string", "enum": kinds,
                    "description": "Who should take over. Default: human."
                },
                "target_uri": {
                    "type": "string", "minLength": 1, "maxLength": limits::HANDOFF_URI_CHARS_MAX,
                    "description": "URI of the recipient, such as mailto:ops@example.com. Omit if unknown."
                },
                "urgency": {
                    "type": "string", "enum": ["low", "medium", "high"],
                    "description": "How soon someone should take over."
                },
                "summary": {
                    "type": "string", "minLength": 1, "maxLength": REASON_CHARS_MAX,
                    "description": "What is done and what remains, in one or two sentences."
                },
                "context": {
                    "type": "string", "minLength": 1, "maxLength": limits::HANDOFF_CONTEXT_CHARS_MAX,
                    "description": "Further information that the recipient needs, as text."
                },
                "data": {
                    "type": "object", "properties": {}, "additionalProperties": true,
                    "description": "Structured information for the recipient, such as {\"branch\": \"fix-7\"}. \
                                    Passed on unchanged."
                },
                "timeout_seconds": {
                    "type": "integer", "minimum": 1, "maximum": APPROVAL_TIMEOUT_SECONDS_MAX,
                    "description": "How long to wait, in seconds. If the handoff is not accepted in time, \
                                    the run ends."
                }
            },
            "required": ["reason"],
            "additionalProperties": false
        })
    }

    fn assess(&self, input: &Value) -> Assessment {
        input::harmless(
            input::text(input, "reason"),
            "Hand the task over to a person or another agent.",
            Vec::new(),
        )
    }

    fn prompt(&self, call: &ForeignId, input: &Value) -> Option<ToolPrompt> {
        let input: HandOffInput = input::read(input).ok()?;
        let kind = input.target_kind.unwrap_or(TargetKind::Human);
        let mut request = Requested::new(call.clone(), input.reason, kind);
        request.tool_call_id = Some(call.clone());
        request.summary_normal = input.summary;
        request.timeout_seconds = input.timeout_seconds;
        request.target_uri = input.target_uri;
        request.urgency_for_handoff = input.urgency;
        let mut packaged = input.data.unwrap_or_default();
        packaged.extend(input.context.map(|context| ("notes".to_owned(), Value::String(context))));
        if !packaged.is_empty() {
            let packaged = Json::of(&packaged).ok()?;
            if packaged.text().len() > limits::HANDOFF_PACKAGE_BYTES_MAX {
                return None;
            }
            request.packaged_context = Some(packaged);
        }
        // The schema has the same limits as the log. An input that exceeds them was not checked.
        request.breach().is_none().then(|| ToolPrompt::Handoff(Box::new(request)))
    }

    fn run<'a>(&'a self, _job: Job<'a>) -> BoxFuture<'a, Outcome> {
        let message = format!(
            "the input of the handoff is invalid, or its `context` and `data` have more than {} bytes",
            limits::HANDOFF_PACKAGE_BYTES_MAX
        );
        Box::pin(async { CallFailure::failed("not_asked", message).into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(input: &Value) -> Option<Value> {
        match HandOff.prompt(&ForeignId::parse("call_1").unwrap(), input)? {
            ToolPrompt::Handoff(request) => Some(serde_json::to_value(request).unwrap()),
            ToolPrompt::Clarification(_) => None,
        }
    }

    #[test]
    fn a_handoff_prompt_keeps_the_limits_of_the_log() {
        assert_eq!(
            request(&json!({
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
            request(&json!({ "reason": "no rights" })),
            Some(json!({
                "handoff_id": "call_1", "reason": "no rights", "target_kind": "human", "tool_call_id": "call_1"
            }))
        );
        let input = json!({
            "reason": "no rights", "target_uri": "mailto:ops@example.com", "urgency": "high", "context": "see a",
            "data": { "branch": "fix-7", "tries": [1, 2] }
        });
        assert_eq!(crate::schema::check(&HandOff.schema(), &input).ok(), Some(()));
        assert_eq!(
            request(&input),
            Some(json!({
                "handoff_id": "call_1", "reason": "no rights", "target_kind": "human", "tool_call_id": "call_1",
                "target_uri": "mailto:ops@example.com", "urgency_for_handoff": "high",
                "packaged_context": { "branch": "fix-7", "notes": "see a", "tries": [1, 2] }
            }))
        );
        let large =
            json!({ "reason": "x", "data": { "all": "x".repeat(limits::HANDOFF_PACKAGE_BYTES_MAX) } });
        assert_eq!(request(&large), None);
        assert!(
            crate::schema::check(&HandOff.schema(), &json!({ "reason": "x", "urgency": "now" })).is_err()
        );
        for reason in [String::new(), "x".repeat(REASON_CHARS_MAX + 1)] {
            let input = json!({ "reason": reason });
            assert_eq!(request(&input), None);
            assert!(crate::schema::check(&HandOff.schema(), &input).is_err());
        }
    }
}
