//! Applies faults to correct output: events as JSON after the builder, which builds only correct ones, and responses
//! to handshakes. Called only with a fault.

use recount_aaep::wire::{Boundary, Capabilities, EventId};
use serde_json::{Map, Value, json};

use super::Fault;
use crate::limits;

type Object = Map<String, Value>;

/// State of one session on one subscription.
#[derive(Default)]
pub(super) struct TamperState {
    /// Events so far.
    count: u64,
    /// Pieces of output so far, and their bytes.
    pieces: u64,
    bytes: u64,
    last_id: Option<Value>,
    /// Events that are sent later than they should be.
    kept: Vec<Object>,
}

/// The events to send: altered, multiplied, or none.
pub(super) fn event(
    fault: Fault,
    mut event: Object,
    tamper_state: &mut TamperState,
    fresh: &mut dyn FnMut() -> EventId,
) -> Vec<Object> {
    tamper_state.count += 1;
    let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
    let name = name.strip_prefix("aaep:agent.").unwrap_or_default().to_owned();
    if name == "output.streaming" {
        tamper_state.pieces += 1;
    }
    let again = |event: &Object, fresh: &mut dyn FnMut() -> EventId| {
        let mut twin = event.clone();
        twin.insert("event_id".into(), fresh().as_str().into());
        twin
    };
    match (fault, name.as_str()) {
        (Fault::StartMissing, "session.started")
        | (Fault::EndMissing, "session.completed" | "session.errored")
        | (Fault::StatesMissing, "state.changed")
        | (Fault::ToolUncompleted, "tool.completed")
        | (Fault::HandoffMissing, "handoff.requested") => return Vec::new(),
        (Fault::ToolTimeoutUnreported, "tool.completed")
            if event.get("status") == Some(&json!("timeout")) =>
        {
            return Vec::new();
        }
        (Fault::StartTwice, "session.started")
        | (Fault::EndTwice, "session.completed" | "session.errored") => {
            let twin = again(&event, fresh);
            return vec![event, twin];
        }
        (Fault::EventAfterEnd, "session.completed" | "session.errored") => {
            let mut after_end = again(&event, fresh);
            after_end.retain(|name, _| ENVELOPE.contains(&name.as_str()));
            after_end.insert("urgency".into(), "background".into());
            after_end.insert("type".into(), "aaep:agent.progress.updated".into());
            after_end.insert("progress".into(), json!({"percent": 100}));
            after_end.insert("summary_normal".into(), "Everything is tidied up.".into());
            return vec![event, after_end];
        }
        (Fault::PromptBeforeState | Fault::PromptOvertakesState, "state.changed")
            if event.get("to_state") == Some(&json!("awaiting_input")) =>
        {
            tamper_state.kept.push(event);
            return Vec::new();
        }
        (
            Fault::PromptBeforeState | Fault::PromptOvertakesState,
            "awaiting.confirmation" | "awaiting.clarification",
        )
        | (Fault::ToolCompletedFirst, "tool.completed") => {
            return std::iter::once(event).chain(tamper_state.kept.drain(..)).collect();
        }
        (Fault::ToolCompletedFirst, "tool.invoked") => {
            tamper_state.kept.push(event);
            return Vec::new();
        }
        (Fault::ToolCompletedLate, "tool.completed") => {
            tamper_state.kept.push(event);
            return Vec::new();
        }
        (Fault::ToolCompletedLate, "state.changed" | "session.completed") => {
            // The first is the state after the tool; without it, the event would be lost at the end.
            let state = name == "state.changed";
            let mut both = std::mem::take(&mut tamper_state.kept);
            both.insert(if state { 0 } else { both.len() }, event);
            return both;
        }
        (Fault::CompleteTwice | Fault::PieceBehindComplete, "output.streaming")
            if event.get("complete") == Some(&Value::Bool(true)) =>
        {
            let mut after_end = again(&event, fresh);
            let length = text_of(&event, "chunk").chars().count() as u64;
            let position = event.get("position").and_then(Value::as_u64).unwrap_or(0) + length;
            after_end.insert("position".into(), position.into());
            after_end.insert("chunk".into(), "".into());
            if fault == Fault::PieceBehindComplete {
                after_end.insert("chunk".into(), " And so on.".into());
                after_end.insert("complete".into(), false.into());
                after_end.insert("coalesce_hint".into(), "none".into());
            }
            return vec![event, after_end];
        }
        _ => alter(fault, &name, &mut event, tamper_state),
    }
    vec![event]
}

/// The fields that every event has.
const ENVELOPE: &[&str] = &[
    "@context",
    "aaep_version",
    "type",
    "event_id",
    "session_id",
    "timestamp",
    "producer",
    "verbosity",
    "urgency",
    "localization_hints",
];

/// Alters fields of single event types.
fn alter(fault: Fault, name: &str, event: &mut Object, tamper_state: &mut TamperState) {
    let goes_on = event.get("complete") == Some(&Value::Bool(false));
    let mut set = |field: &str, value: Value| {
        event.insert(field.to_owned(), value);
    };
    match (fault, name) {
        (Fault::ContextForeign, _) => set("@context", json!("https://example.org/context/v1")),
        (Fault::TypeUndefined, "progress.updated") => set("type", json!("aaep:agent.progress.advanced")),
        (Fault::UrgencyInflated, "state.changed") => set("urgency", json!("critical")),
        (Fault::VersionUnpublished, _) => set("aaep_version", json!("99.0.0")),
        (Fault::FieldOfItsOwn, _) => set("mood", json!("cheerful")),
        (Fault::LanguageForm, _) => set("localization_hints", json!({"primary_language": "en_US"})),
        (Fault::ErrorNotCritical, "session.errored")
        | (Fault::PromptNotCritical, "awaiting.confirmation")
        | (Fault::QuestionNotCritical, "awaiting.clarification")
        | (Fault::HandoffNotCritical, "handoff.requested") => set("urgency", json!("normal")),
        (Fault::ErrorCategoryUnknown, "session.errored") => set("error_category", json!("network")),
        (Fault::StateFirst, "state.changed") if tamper_state.last_id.is_none() => {
            set("from_state", json!("thinking"));
            tamper_state.last_id = Some(Value::Null);
        }
        (Fault::StateChainBroken, "state.changed") => {
            if tamper_state.last_id.replace(Value::Null).is_some() {
                set("from_state", json!("pondering"));
            }
        }
        (Fault::ToolIdsDiffer, "tool.completed") => set("tool_call_id", json!("call_another")),
        (Fault::ToolRenamed, "tool.completed") => set("tool", json!("another_tool")),
        (Fault::PositionInBytes, "output.streaming") => {
            set("position", tamper_state.bytes.into());
            tamper_state.bytes += text_of(event, "chunk").len() as u64;
        }
        (Fault::PositionFalls, "output.streaming") if tamper_state.pieces.is_multiple_of(3) => {
            set("position", json!(0))
        }
        (Fault::OutputLeftOpen, "output.streaming") => set("complete", json!(false)),
        (Fault::BoundariesIgnored, "output.streaming") if goes_on => set("coalesce_hint", json!("sentence")),
        (Fault::DefaultAccepts, "awaiting.confirmation") => set("default_decision", json!("accept")),
        (Fault::TokenForm, "awaiting.confirmation" | "awaiting.clarification") => {
            let token = text_of(event, "reply_token").replace("rpl_", "rpl_a-");
            event.insert("reply_token".into(), token.into());
        }
        (Fault::KindsUntrue, "awaiting.clarification") => {
            set("accepted_response_kinds", json!(["multiple_choice", "freetext"]));
        }
        (Fault::TextLost | Fault::TextDoubled, "output.streaming") => {
            let text = text_of(event, "chunk").to_owned();
            if let Some((most, last)) = text.trim_end().rsplit_once(' ') {
                let wrong =
                    if fault == Fault::TextLost { format!("{most} ") } else { format!("{text}{last} ") };
                event.insert("chunk".into(), wrong.into());
            }
        }
        _ => alter_any(fault, name, event, tamper_state),
    }
}

/// Alters fields that many events share.
fn alter_any(fault: Fault, name: &str, event: &mut Object, tamper_state: &mut TamperState) {
    let left_out = match fault {
        Fault::ContextMissing => "@context",
        Fault::LanguageMissing => "localization_hints",
        Fault::SummaryMissing if name == "state.changed" => "summary_normal",
        Fault::HintMissing => "coalesce_hint",
        _ => "",
    };
    event.remove(left_out);
    match fault {
        Fault::AgentMissing => {
            if let Some(Value::Object(producer)) = event.get_mut("producer") {
                producer.remove("agent_id");
            }
        }
        Fault::EventIdForm => {
            let id = text_of(event, "event_id").replace("evt_", "evt_a-");
            event.insert("event_id".into(), id.into());
        }
        Fault::EventIdRepeated => match tamper_state.last_id.take() {
            Some(id) => {
                event.insert("event_id".into(), id);
            }
            None => tamper_state.last_id = event.get("event_id").cloned(),
        },
        Fault::TimestampForm => {
            let moment = text_of(event, "timestamp").trim_end_matches('Z').to_owned();
            event.insert("timestamp".into(), moment.into());
        }
        Fault::TimestampFalls if tamper_state.count.is_multiple_of(3) => {
            let moment = recount_aaep::wire::Timestamp::new(text_of(event, "timestamp"));
            let earlier = moment.map(|moment| moment.millis() - limits::SCRIPTED_BACK_MS);
            if let Ok(earlier) = earlier {
                let earlier = recount_aaep::wire::Timestamp::of_millis(earlier);
                event.insert("timestamp".into(), earlier.as_str().into());
            }
        }
        _ => {}
    }
}

fn text_of<'o>(object: &'o Object, field: &str) -> &'o str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The sequence number of the event at this position.
pub(super) fn number(fault: Fault, position: u64) -> u64 {
    if fault == Fault::SequenceFromOne { position + 1 } else { position }
}

/// The text to send.
pub(super) fn text(fault: Fault, mut text: String) -> String {
    if fault == Fault::LargeEventsCut && text.len() > limits::SCRIPTED_CUT_ABOVE_BYTES {
        text.truncate(text.floor_char_boundary(limits::SCRIPTED_CUT_BYTES));
    }
    text
}

/// A request as it is evaluated: altered if the fault needs another response.
pub(super) fn request(fault: Fault, text: &str) -> Option<String> {
    let mut request: Value = serde_json::from_str(text).ok()?;
    match fault {
        Fault::UnknownVersionAccepted => request["aaep_version"] = recount_aaep::VERSION.into(),
        Fault::SignedOnlyAccepted => {
            request.get_mut("capabilities")?.as_object_mut()?.remove("accept_signed_manifests_only")?;
        }
        _ => return None,
    }
    Some(request.to_string())
}

/// The `subscription.accepted` to send for a request.
pub(super) fn accepted(fault: Fault, requested: &Capabilities, text: String) -> String {
    let Ok(mut answer) = serde_json::from_str::<Value>(&text) else { return text };
    let Some(honoured) = answer.get_mut("honored_capabilities").and_then(Value::as_object_mut) else {
        return text;
    };
    let with = |known: Option<&Value>, further: &str| {
        let mut all = known.and_then(Value::as_array).cloned().unwrap_or_default();
        all.push(further.into());
        Value::from(all)
    };
    match fault {
        Fault::RateRaised if requested.max_events_per_second.is_some() => {
            honoured.insert(
                "max_events_per_second".into(),
                requested.max_events_per_second.map(|rate| rate * 2).into(),
            );
        }
        Fault::LanguagesWidened => {
            honoured.insert("languages".into(), with(honoured.get("languages"), "fr"));
        }
        Fault::BoundariesWidened => {
            let is_honoured = |word: &str| match &requested.coalesce_boundaries {
                Some(requested) => requested.iter().any(|boundary| boundary.as_str() == word),
                None => matches!(word, "sentence" | "completion"),
            };
            if let Some(further) =
                ["word", "paragraph", "none", "sentence", "completion"].into_iter().find(|w| !is_honoured(w))
            {
                honoured
                    .insert("coalesce_boundaries".into(), with(honoured.get("coalesce_boundaries"), further));
            }
        }
        Fault::LevelsWidened => {
            honoured.insert("supported_conformance_levels".into(), json!([1, 2, 3]));
        }
        Fault::ExtensionsWidened => {
            honoured.insert("supported_extensions".into(), json!(["urn:example:extension"]));
        }
        Fault::RepliesRaised => {
            honoured.insert("supports_confirmation_reply".into(), true.into());
            honoured.insert("supports_clarification_reply".into(), true.into());
        }
        Fault::FiltersWidened => {
            honoured.remove("event_filters");
        }
        _ => return text,
    }
    answer.to_string()
}

/// The terms that are actually applied, if they differ from the requested ones.
pub(super) fn applied_terms(fault: Fault, requested: &Capabilities) -> Option<Capabilities> {
    let mut held = requested.clone();
    match fault {
        Fault::RateIgnored | Fault::RateInWindows => held.max_events_per_second = None,
        Fault::BoundariesIgnored => held.coalesce_boundaries = Some(vec![Boundary::Word]),
        Fault::ExcludeIgnored => held.event_filters.as_mut()?.exclude = None,
        _ => return None,
    }
    Some(held)
}
