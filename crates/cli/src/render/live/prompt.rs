//! What people are asked while a run is followed, in words: what, why, what follows, and what happens when nobody
//! answers.
//!
//! Look at [`Prompt`]. What is answered, and by whom, is not decided here.

use serde_json::Value;

use super::super::clean;
use super::super::sentence::Data;
use super::Paint;

/// Something that a run asks and that nobody has answered.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// What is always told, as lines.
    lines: Vec<String>,
    /// What is told when somebody wants to know more.
    details: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Approval,
    /// With what may be chosen, each as JSON.
    Question {
        choices: Vec<Value>,
    },
    Handoff,
}

impl Prompt {
    /// What an event asks, if it asks anything.
    pub(super) fn of(type_name: &str, data: &Data) -> Option<Prompt> {
        match type_name {
            "approval.requested" => approval(data),
            "clarification.requested" => question(data),
            "handoff.requested" => handoff(data),
            _ => None,
        }
    }

    /// The prompt an event settles.
    pub(super) fn settled_by(type_name: &str, data: &Data) -> Option<String> {
        let field = match type_name {
            "approval.resolved" | "approval.timed_out" => "approval_id",
            "clarification.answered" | "clarification.timed_out" => "clarification_id",
            "handoff.acknowledged" | "handoff.rejected" | "handoff.timed_out" => "handoff_id",
            _ => return None,
        };
        data.text(field).map(str::to_owned)
    }

    pub(super) fn told(&self, paint: Paint) -> Vec<String> {
        let mut lines = self.lines.clone();
        if let Some(first) = lines.first_mut() {
            *first = paint.notable(first);
        }
        lines
    }

    /// How it is answered here, in a line.
    pub(crate) fn how(&self) -> &'static str {
        match &self.kind {
            Kind::Approval => {
                "Type y to allow it, n to refuse it (words behind n are told the agent), d for details:"
            }
            Kind::Question { choices } if choices.is_empty() => "Type the answer (d for details):",
            Kind::Question { .. } => "Type the number of a choice, or an answer (d for details):",
            Kind::Handoff => "Type take to take over, or decline with a reason (d for details):",
        }
    }

    /// How it is answered from elsewhere.
    pub(crate) fn elsewhere(&self, address: &str) -> String {
        let (id, address) = (clean::line(&self.id), clean::line(address));
        match self.kind {
            Kind::Approval => {
                format!("To answer: recount approve {id}{address}, or recount deny {id}{address}")
            }
            Kind::Question { .. } => format!("To answer: recount answer {id}{address} WORDS"),
            Kind::Handoff => {
                format!(
                    "To answer: recount handoff ack {id}{address}, or recount handoff reject {id}{address}"
                )
            }
        }
    }

    pub(crate) fn details(&self) -> &[String] {
        &self.details
    }
}

fn approval(data: &Data) -> Option<Prompt> {
    let id = data.text("approval_id")?.to_owned();
    let mut lines = vec![format!("Permission is asked for ({}):", clean::line(&id))];
    lines.extend(indented(data.text("action").or_else(|| data.text("summary"))?));
    if let Some(summary) = data.text("summary").filter(|_| data.text("action").is_some()) {
        lines.extend(named("call", summary));
    }
    lines.extend(data.text("consequence").into_iter().flat_map(|text| named("what follows", text)));
    let risk = data.text("risk_level").unwrap_or("unknown");
    let undone = match (data.is_true("irreversible"), data.text("reversibility")) {
        (true, _) | (_, Some("irreversible")) => ", cannot be undone",
        (_, Some("partially_reversible")) => ", cannot be undone in every part",
        (_, Some("reversible")) => ", can be undone",
        _ => "",
    };
    lines.extend(named("risk", &format!("{risk}{undone}")));
    let default = match data.text("default_decision") {
        Some("approve") => "it is allowed",
        _ => "it is refused",
    };
    lines.extend(named("without an answer", &unanswered(data, default)));
    let mut details = Vec::new();
    for (name, field) in [
        ("tool", "kind"),
        ("why it is asked", "policy_reason"),
        ("call id", "tool_call_id"),
        ("until", "expires_at"),
        ("digest of the call", "call_digest"),
    ] {
        details.extend(data.text(field).into_iter().flat_map(|text| named(name, text)));
    }
    Some(Prompt { id, kind: Kind::Approval, lines, details })
}

fn question(data: &Data) -> Option<Prompt> {
    let id = data.text("clarification_id")?.to_owned();
    let mut lines = vec![format!("A question ({}):", clean::line(&id))];
    lines.extend(indented(data.text("question")?));
    lines.extend(data.text("context").into_iter().flat_map(indented));
    let choices = data.value("choices").and_then(Value::as_array).cloned().unwrap_or_default();
    for (place, choice) in choices.iter().enumerate() {
        lines.push(format!("    {}: {}", place + 1, clean::line(&label(choice))));
    }
    let default = match data.value("default_response") {
        Some(response) => format!("the answer is {}", label(response)),
        None => "the agent is told that there is none".to_owned(),
    };
    lines.extend(named("without an answer", &unanswered(data, &default)));
    let mut details = Vec::new();
    for (name, field) in [("call id", "tool_call_id"), ("until", "expires_at")] {
        details.extend(data.text(field).into_iter().flat_map(|text| named(name, text)));
    }
    Some(Prompt { id, kind: Kind::Question { choices }, lines, details })
}

fn handoff(data: &Data) -> Option<Prompt> {
    let id = data.text("handoff_id")?.to_owned();
    let mut lines = vec![format!("Somebody is asked to take over ({}):", clean::line(&id))];
    lines.extend(indented(data.text("reason")?));
    let summary = data.text("summary_normal").or_else(|| data.text("summary_terse"));
    lines.extend(summary.into_iter().flat_map(|text| named("summary", text)));
    lines.extend(data.text("urgency_for_handoff").into_iter().flat_map(|text| named("urgency", text)));
    lines.extend(named("without an answer", &unanswered(data, "the run fails")));
    let mut details = Vec::new();
    for (name, field) in [("for", "target_kind"), ("at", "target_uri"), ("in full", "summary_detailed")] {
        details.extend(data.text(field).into_iter().flat_map(|text| named(name, text)));
    }
    details.extend(data.readable("packaged_context").iter().flat_map(|text| named("packed", text)));
    Some(Prompt { id, kind: Kind::Handoff, lines, details })
}

/// `within 5 minutes it is refused`, or that it waits.
fn unanswered(data: &Data, default: &str) -> String {
    match data.number("timeout_seconds") {
        Some(seconds) => format!("after {}, {default}", span(seconds)),
        None => "the run waits".to_owned(),
    }
}

fn span(seconds: u64) -> String {
    let counted = |count: u64, unit: &str| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
    match seconds {
        0..=119 => counted(seconds, "second"),
        120..=7_199 => counted(seconds / 60, "minute"),
        _ => counted(seconds / 3_600, "hour"),
    }
}

/// A choice as people read it: its label, its text, or the JSON.
fn label(choice: &Value) -> String {
    let labelled = |name: &str| choice.get(name).and_then(Value::as_str);
    let text = choice.as_str().or_else(|| labelled("label")).or_else(|| labelled("name"));
    text.map_or_else(|| choice.to_string(), str::to_owned)
}

fn indented(text: &str) -> Vec<String> {
    clean::lines(text).map(|line| format!("    {line}").trim_end().to_owned()).collect()
}

/// A fact: its name before the first line, the others below it.
fn named(name: &str, text: &str) -> Vec<String> {
    let mut lines = clean::lines(text);
    let first = format!("    {name}: {}", lines.next().unwrap_or_default());
    std::iter::once(first).chain(lines.map(|line| format!("        {line}"))).collect()
}
