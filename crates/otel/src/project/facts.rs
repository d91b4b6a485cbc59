//! What single events have as attributes, the same in spans and log records.
//!
//! Pure. It must not know spans or records. Start with the functions `add_…`.

use recount_event::family::approval::{DecidedElsewhere, Decision};
use recount_event::family::tool::{Ended, Invoked, RefusalCode, Refused};
use recount_event::family::turn::{Completed, StopReason};
use recount_event::{ForeignId, Payload};

use super::attributes as name;
use super::contents::write_text;
use crate::limits;
use crate::proto::KeyValue;

/// The event in which a recorder names its source.
pub(super) const SOURCE_EVENT: &str = "ext.recount.source";

/// Numbers the attempts of turns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Attempts {
    /// The newest turn, and how often it was started.
    newest: Option<(u64, u64)>,
}

impl Attempts {
    /// The number of this attempt of a turn, from 0.
    pub(super) fn start(&mut self, index: u64) -> u64 {
        let attempt = self.newest.filter(|(newest, _)| *newest == index).map_or(0, |(_, attempts)| attempts);
        self.newest = Some((index, attempt + 1));
        attempt
    }
}

/// The source of an external run, as its recorder names it.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Source {
    source: String,
    #[serde(default)]
    version: Option<String>,
}

impl Source {
    /// `None` if it is too long.
    pub(super) fn parse(data: &str) -> Option<Source> {
        let source: Source = serde_json::from_str(data).ok()?;
        let version = source.version.as_deref().unwrap_or_default();
        (source.source.len() + version.len() <= limits::SOURCE_BYTES_MAX).then_some(source)
    }

    pub(super) fn add(&self, attributes: &mut Vec<KeyValue>) {
        attributes.push(KeyValue::new(name::SOURCE, self.source.as_str()));
        add(attributes, name::SOURCE_VERSION, self.version.as_deref());
    }
}

/// What a model used in a turn, and why it stopped.
pub(super) fn add_completed(attributes: &mut Vec<KeyValue>, completed: &Completed) {
    attributes.push(KeyValue::new(name::FINISH_REASONS, [finish_reason(completed.stop_reason)]));
    add(attributes, name::INPUT_TOKENS, completed.input_tokens);
    add(attributes, name::CACHED_TOKENS, completed.cached_input_tokens.filter(|tokens| *tokens > 0));
    add(attributes, name::OUTPUT_TOKENS, completed.output_tokens);
    add(attributes, name::COST, completed.cost_micros_usd.map(dollars));
}

pub(super) fn add_invoked(attributes: &mut Vec<KeyValue>, invoked: &Invoked) {
    add(attributes, name::TOOL_KIND, invoked.kind.as_deref());
    add(attributes, name::TOOL_EXECUTOR, invoked.executor.map(|executor| executor.as_str()));
    add(attributes, name::MCP_SERVER, invoked.mcp_server.as_deref());
}

/// The code of a call that ended with an error.
pub(super) fn call_error<'e>(ended: &'e Ended, outcome: &'e str) -> Option<&'e str> {
    match outcome {
        "failed" | "timed_out" => Some(ended.code.as_deref().unwrap_or(outcome)),
        _ => ended.result.as_deref().filter(|result| *result == "tool_error"),
    }
}

/// The outcome of a refused call, and its code if it counts as an error. What a person decided does not.
pub(super) fn refusal(refused: &Refused) -> (&'static str, Option<&'static str>) {
    let code = refused.code.as_str();
    match refused.code {
        RefusalCode::Denied | RefusalCode::TimedOut | RefusalCode::Cancelled => (code, None),
        _ => ("refused", Some(code)),
    }
}

/// The request of a prompt.
pub(super) fn add_request(attributes: &mut Vec<KeyValue>, payload: &Payload, with_contents: bool) {
    let (call, question) = match payload {
        Payload::ApprovalRequested(request) => {
            add(attributes, name::APPROVAL_TOOL, Some(request.kind.as_str()));
            add(attributes, name::APPROVAL_RISK, request.risk_level.map(|risk| risk.as_str()));
            (Some(&request.tool_call_id), &request.summary)
        }
        Payload::ClarificationRequested(request) => (request.tool_call_id.as_ref(), &request.question),
        Payload::HandoffRequested(request) => (request.tool_call_id.as_ref(), &request.reason),
        _ => return,
    };
    add(attributes, name::APPROVAL_CALL, call.map(ForeignId::as_str));
    if with_contents {
        write_text(name::APPROVAL_QUESTION, question, attributes);
    }
}

/// The beginning of a message of an error.
pub(super) fn status_message(text: &str) -> String {
    text.chars().take(limits::STATUS_CHARS_MAX).collect()
}

/// The outcome of a prompt.
pub(super) struct Settled<'e> {
    pub(super) outcome: &'static str,
    pub(super) by: Option<&'e str>,
    pub(super) answer: Option<String>,
}

impl<'e> Settled<'e> {
    pub(super) fn of(payload: &'e Payload) -> Option<Self> {
        let (outcome, by, answer) = match payload {
            Payload::ApprovalResolved(event) => {
                let outcome = match (event.decision, event.decided_elsewhere) {
                    (Decision::Cancelled, Some(DecidedElsewhere::Approved)) => "approved_elsewhere",
                    (Decision::Cancelled, Some(DecidedElsewhere::Rejected)) => "rejected_elsewhere",
                    (Decision::Cancelled, Some(DecidedElsewhere::Undecided)) => "undecided",
                    (decision, _) => decision.as_str(),
                };
                (outcome, Some(event.by.as_str()), event.comment.clone())
            }
            Payload::ApprovalTimedOut(event) => ("timed_out", event.by.as_deref(), None),
            Payload::ClarificationAnswered(event) => {
                ("answered", Some(event.by.as_str()), Some(event.response.texts()))
            }
            Payload::ClarificationTimedOut(event) => ("timed_out", event.by.as_deref(), None),
            Payload::HandoffAcknowledged(event) => {
                ("acknowledged", Some(event.by.as_str()), event.comment.clone())
            }
            Payload::HandoffRejected(event) => ("rejected", Some(event.by.as_str()), event.reason.clone()),
            Payload::HandoffTimedOut(_) => ("timed_out", None, None),
            _ => return None,
        };
        Some(Settled { outcome, by, answer })
    }
}

/// The words of the GenAI conventions.
pub(super) fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
        StopReason::Error => "error",
    }
}

pub(super) fn add<V: Into<crate::proto::Value>>(attributes: &mut Vec<KeyValue>, key: &str, value: Option<V>) {
    attributes.extend(value.map(|value| KeyValue::new(key, value)));
}

pub(super) fn dollars(micros: u64) -> f64 {
    micros as f64 / 1e6
}

pub(super) fn nanos(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}
