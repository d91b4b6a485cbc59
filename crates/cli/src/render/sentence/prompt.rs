//! Sentences for prompts and their outcomes, policy verdicts, and errors outside a call.
//!
//! Identifiers of prompts are printed in full: `recount approve` needs them.

use serde_json::Value;

use super::{Data, Sentence, facts};
use crate::render::{count, utc_time};

/// What happens to an approval without an answer.
fn at_deadline(data: &Data) -> Option<String> {
    if data.is_true("withdrawn_at_deadline") {
        return Some("then the agent's own dialog decides".to_owned());
    }
    data.text("default_decision").map(|default| format!("default {default}"))
}

pub(super) fn of(type_name: &str, data: &Data) -> Option<Sentence> {
    Some(match type_name {
        "approval.requested" => {
            let facts = facts([
                data.text("risk_level").map(|risk| format!("{risk} risk")),
                data.is_true("irreversible").then(|| "cannot be undone".to_owned()),
                data.text("expires_at").map(|at| format!("deadline {}", utc_time(at))),
                at_deadline(data),
            ]);
            let line = format!("permission request {}{facts}", data.text("approval_id")?);
            let size = data.number("preview_size_bytes");
            let shown = match (data.text("preview"), size) {
                (Some(preview), Some(size)) => {
                    let missing = size.saturating_sub(preview.len() as u64);
                    let place = match data.text("preview_artifact_id") {
                        Some(id) => format!("the complete call is in {id}"),
                        None => "they are not stored".to_owned(),
                    };
                    format!("{preview}\n({} not shown; {place})", count(missing, "byte"))
                }
                (Some(preview), None) => preview.to_owned(),
                (None, _) => data.text("summary")?.to_owned(),
            };
            Sentence::text(line, shown)
        }
        "approval.resolved" => {
            let (approval, by) = (data.text("approval_id")?, data.text("by")?);
            let always = match (data.text("scope"), data.text("allowance_id")) {
                (Some(scope), Some(id)) => format!(", always in this {scope} ({id})"),
                _ => String::new(),
            };
            let elsewhere =
                data.text("decided_elsewhere").map_or(String::new(), |word| format!(", {word} elsewhere"));
            Sentence::with(
                format!("{approval} {} by {by}{elsewhere}{always}", data.text("decision")?),
                data.text("comment"),
            )
        }
        "approval.extended" | "clarification.extended" | "handoff.extended" => {
            let ids = ["approval_id", "clarification_id", "handoff_id"];
            let id = ids.into_iter().find_map(|name| data.text(name))?;
            let (until, by) = (data.text("expires_at")?, data.text("by")?);
            Sentence::line(format!("{id} extended to {} by {by}", utc_time(until)))
        }
        "approval.timed_out" => {
            let decision = data.text("decision").map_or(String::new(), |word| format!("; default: {word}"));
            let (approval, after) = (data.text("approval_id")?, data.number("after_seconds")?);
            Sentence::line(format!("{approval}: no answer within {}{decision}", count(after, "second")))
        }
        "clarification.requested" => {
            Sentence::text(format!("question {}", data.text("clarification_id")?), data.text("question")?)
        }
        "clarification.answered" => {
            let (question, by) = (data.text("clarification_id")?, data.text("by")?);
            Sentence::with(format!("{question} answered by {by}"), data.readable("response"))
        }
        "clarification.timed_out" => {
            let applied = match data.text("applied")? {
                "default" => "the default is used",
                "unavailable" => "there is no default",
                other => other,
            };
            let line = format!("{}: no answer; {applied}", data.text("clarification_id")?);
            Sentence::with(line, data.readable("response"))
        }
        "handoff.requested" => {
            let target = match data.text("target_kind")? {
                "human" => "a person",
                "specialist_agent" => "a specialist agent",
                "escalation_queue" => "the escalation queue",
                other => other,
            };
            let line = format!("handoff {} to {target}", data.text("handoff_id")?);
            Sentence::with(line, data.text("reason"))
        }
        "handoff.acknowledged" => {
            let (handoff, by) = (data.text("handoff_id")?, data.text("by")?);
            Sentence::with(format!("{handoff} accepted by {by}"), data.text("comment"))
        }
        "handoff.rejected" => {
            let (handoff, by) = (data.text("handoff_id")?, data.text("by")?);
            Sentence::with(format!("{handoff} declined by {by}"), data.text("reason"))
        }
        "handoff.timed_out" => {
            let (handoff, after) = (data.text("handoff_id")?, data.number("after_seconds")?);
            Sentence::line(format!("{handoff}: not accepted within {}", count(after, "second")))
        }
        "policy.tool_blocked" => {
            let policy = data.text("policy_id").map_or(String::new(), |policy| format!(" by rule {policy}"));
            Sentence::with(format!("{} blocked{policy}", data.text("tool_name")?), data.text("reason"))
        }
        "policy.model_rewrote" => {
            let (from, to) = (data.text("from_model")?, data.text("to_model")?);
            Sentence::with(format!("model {to} is used instead of {from}"), data.text("reason"))
        }
        "error.tool_unavailable" => {
            Sentence::with(format!("{} is unavailable", data.text("tool_name")?), data.text("reason"))
        }
        "error.model_capability_missing" => {
            let (model, what) = (data.text("model")?, data.text("missing_capability")?);
            Sentence::with(format!("{model} lacks {what}"), data.text("fallback_strategy"))
        }
        "error.upstream" => {
            let again = data.0.get("retriable").and_then(Value::as_bool)?;
            let attempt = match (data.number("attempt"), data.number("max_attempts")) {
                (Some(attempt), Some(most)) => Some(format!("attempt {attempt} of {most}")),
                (Some(attempt), None) => Some(format!("attempt {attempt}")),
                _ => None,
            };
            let facts = facts([
                data.number("status").map(|status| format!("status {status}")),
                attempt,
                again.then(|| "retry may succeed".to_owned()),
            ]);
            Sentence::with(format!("{} failed{facts}", data.text("provider")?), data.text("message"))
        }
        _ => return None,
    })
}
