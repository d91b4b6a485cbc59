//! Prints prompts while a run is followed: the request, the reason, the consequence, and what happens without an
//! answer.
//!
//! Look at [`Prompt`]. What is answered, and by whom, is not decided here.

use recount_client::reply::Approval;
use recount_client::request::AllowanceScope;
use serde_json::Value;

use super::super::sentence::Data;
use super::super::{clean, count, utc_time};
use super::Paint;
use crate::limits;

/// An open prompt of a run.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// The lines that are always printed.
    lines: Vec<String>,
    /// All of what a call would do.
    preview: Vec<String>,
    /// How many lines of it were shown.
    shown: usize,
    /// What is shown when the person asks for details.
    details: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// With the default scope of an always-allow; `None` where the call needs approval every time.
    Approval {
        always: Option<AllowanceScope>,
    },
    /// With what may be chosen, each as JSON.
    Question {
        choices: Vec<Value>,
    },
    Handoff,
}

impl Prompt {
    /// What an event asks, if it asks anything.
    pub(super) fn of(type_name: &str, data: &Data, is_in_session: bool) -> Option<Prompt> {
        match type_name {
            "approval.requested" => approval(data, is_in_session),
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

    /// The lines that are always printed, and the first page of the preview.
    pub(super) fn opening_lines(&self, paint: Paint) -> Vec<String> {
        let mut lines = self.lines.clone();
        let mut first = self.clone();
        first.shown = 0;
        lines.extend(first.page());
        if let Some(first) = lines.first_mut() {
            *first = paint.notable(first);
        }
        lines
    }

    /// The next page of the preview, and how much is left. After the last one it begins again.
    pub(crate) fn page(&mut self) -> Vec<String> {
        if self.shown >= self.preview.len() {
            self.shown = 0;
        }
        let end = self.preview.len().min(self.shown + limits::PREVIEW_PAGE_LINES);
        let mut lines = self.preview[self.shown..end].to_vec();
        self.shown = end;
        let left = self.preview.len() - end;
        if left > 0 {
            lines.push(format!("    ({}: type m)", count(left as u64, "more line")));
        }
        lines
    }

    /// How it is answered here, in a line.
    pub(crate) fn how(&self) -> &'static str {
        match &self.kind {
            Kind::Approval { always: None } => {
                "Type y to allow, n to deny (text after n is sent to the agent), d for details:"
            }
            Kind::Approval { always: Some(AllowanceScope::Session) } => {
                "Type y to allow, a to always allow in this session (a run or a workspace for another scope), n to deny (text after n is sent to the agent), d for details:"
            }
            Kind::Approval { always: Some(_) } => {
                "Type y to allow, a to always allow in this run (a workspace for all runs in this folder), n to deny (text after n is sent to the agent), d for details:"
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
            Kind::Approval { .. } => {
                format!("To answer: recount approve {id}{address}, or recount deny {id}{address}")
            }
            Kind::Question { .. } => format!("To answer: recount answer {id}{address} TEXT"),
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

/// A permission request with its whole preview, for a person who decides without following the run.
pub(crate) fn approval_lines(request: &Approval) -> Vec<String> {
    let mut fields = serde_json::to_value(request).unwrap_or_default();
    if let Some(fields) = fields.as_object_mut() {
        fields.insert("approval_id".to_owned(), request.id.clone().into());
    }
    let prompt = approval(&Data::read(&fields.to_string()), false);
    prompt.map_or_else(Vec::new, |prompt| [prompt.lines, prompt.preview].concat())
}

fn approval(data: &Data, is_in_session: bool) -> Option<Prompt> {
    let id = data.text("approval_id")?.to_owned();
    let effect = data.text("action").or_else(|| data.text("summary"))?;
    let mut lines = titled("Permission requested", effect);
    let consequence = data.text("consequence").unwrap_or_default();
    lines.extend(indented(consequence));
    if !consequence.contains("be undone") {
        lines.extend(indented(reversibility(data)));
    }
    lines.extend(named("risk", data.text("risk_level").unwrap_or("unknown")));
    if let Some(summary) = data.text("summary").filter(|summary| *summary != effect) {
        lines.extend(named("call", summary));
    }
    let default = match data.text("default_decision") {
        Some("approve") => "the call is allowed",
        _ => "the call is denied",
    };
    lines.extend(named("without an answer", &unanswered(data, default)));
    lines.extend(named("approval", &id));
    let preview = preview(data);
    let shown = preview.len().min(limits::PREVIEW_PAGE_LINES);
    let mut details = Vec::new();
    for (name, field) in [("tool", "kind"), ("call id", "tool_call_id")] {
        details.extend(data.text(field).into_iter().flat_map(|text| named(name, text)));
    }
    details.extend(deadline(data));
    for (name, field) in [("call digest", "call_digest"), ("policy reason", "policy_reason")] {
        details.extend(data.text(field).into_iter().flat_map(|text| named(name, text)));
    }
    let always = if is_in_session { AllowanceScope::Session } else { AllowanceScope::Run };
    let always = data.text("allowance_digest").map(|_| always);
    Some(Prompt { id, kind: Kind::Approval { always }, lines, preview, shown, details })
}

/// Whether what a call does can be undone, as a sentence.
fn reversibility(data: &Data) -> &'static str {
    match (data.is_true("irreversible"), data.text("reversibility")) {
        (true, _) | (_, Some("irreversible")) => "This cannot be undone.",
        (_, Some("partially_reversible")) => "This can be undone only in part.",
        (_, Some("reversible")) => "This can be undone.",
        _ => "It is unknown whether this can be undone.",
    }
}

fn deadline(data: &Data) -> Vec<String> {
    data.text("expires_at").map_or_else(Vec::new, |at| named("deadline", &utc_time(at)))
}

/// All of what a call would do; where the event has only the beginning, how much is missing and where it is.
fn preview(data: &Data) -> Vec<String> {
    let Some(text) = data.text("preview") else { return Vec::new() };
    let name = match data.text("preview_kind") {
        Some("command") => "complete command",
        Some("diff") => "changes",
        _ => "complete input",
    };
    let mut lines = vec![format!("    {name}:")];
    lines.extend(clean::lines(text).map(|line| format!("        {line}").trim_end().to_owned()));
    if let Some(size) = data.number("preview_size_bytes") {
        let missing = size.saturating_sub(text.len() as u64);
        let place = match data.text("preview_artifact_id") {
            Some(id) => format!("to show all: recount artifact get {}", clean::line(id)),
            None => "they are not stored; deny the call unless you know its content".to_owned(),
        };
        lines.push(format!("    ({} not shown; {place})", count(missing, "byte")));
    }
    lines
}

fn question(data: &Data) -> Option<Prompt> {
    let id = data.text("clarification_id")?.to_owned();
    let mut lines = titled("Question", data.text("question")?);
    lines.extend(data.text("context").into_iter().flat_map(indented));
    let choices = data.value("choices").and_then(Value::as_array).cloned().unwrap_or_default();
    for (place, choice) in choices.iter().enumerate() {
        lines.push(format!("    {}: {}", place + 1, clean::line(&label(choice))));
    }
    let default = match data.value("default_response") {
        Some(response) => format!("the answer is {}", label(response)),
        None => "the agent receives no answer".to_owned(),
    };
    lines.extend(named("without an answer", &unanswered(data, &default)));
    lines.extend(named("question id", &id));
    let call = data.text("tool_call_id").into_iter().flat_map(|text| named("call id", text));
    let details = call.chain(deadline(data)).collect();
    Some(Prompt { id, kind: Kind::Question { choices }, lines, preview: Vec::new(), shown: 0, details })
}

fn handoff(data: &Data) -> Option<Prompt> {
    let id = data.text("handoff_id")?.to_owned();
    let mut lines = titled("Handoff requested", data.text("reason")?);
    let summary = data.text("summary_normal").or_else(|| data.text("summary_terse"));
    lines.extend(summary.into_iter().flat_map(|text| named("summary", text)));
    lines.extend(data.text("urgency_for_handoff").into_iter().flat_map(|text| named("urgency", text)));
    lines.extend(named("without an answer", &unanswered(data, "the run fails")));
    lines.extend(named("handoff", &id));
    let mut details = Vec::new();
    for (name, field) in [("for", "target_kind"), ("URI", "target_uri"), ("details", "summary_detailed")] {
        details.extend(data.text(field).into_iter().flat_map(|text| named(name, text)));
    }
    details.extend(data.readable("packaged_context").iter().flat_map(|text| named("context", text)));
    Some(Prompt { id, kind: Kind::Handoff, lines, preview: Vec::new(), shown: 0, details })
}

/// `after 5 minutes, the call is denied`, or that the run waits.
fn unanswered(data: &Data, default: &str) -> String {
    match (data.number("timeout_seconds"), data.text("expires_at")) {
        (Some(seconds), _) => format!("after {}, {default}", span(seconds)),
        (None, Some(until)) => format!("at {}, {default}", utc_time(until)),
        (None, None) => "the run waits".to_owned(),
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => count(seconds, "second"),
        120..=7_199 => count(seconds / 60, "minute"),
        _ => count(seconds / 3_600, "hour"),
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

/// The first lines of a prompt: what it is before the text, further lines of the text below it.
fn titled(name: &str, text: &str) -> Vec<String> {
    let mut lines = clean::lines(text);
    let first = format!("{name}: {}", lines.next().unwrap_or_default());
    std::iter::once(first).chain(lines.map(|line| format!("    {line}").trim_end().to_owned())).collect()
}

/// A fact: its name before the first line, the others below it.
fn named(name: &str, text: &str) -> Vec<String> {
    let mut lines = clean::lines(text);
    let first = format!("    {name}: {}", lines.next().unwrap_or_default());
    std::iter::once(first).chain(lines.map(|line| format!("        {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::live::Live;

    fn prompt_of(preview: &str, more: &str) -> Prompt {
        let preview = Value::from(preview);
        let event = format!(
            r#"{{"run_id":"run_1","type":"approval.requested","data":{{"approval_id":"a","summary":"s","preview":{preview},"preview_kind":"command"{more}}}}}"#
        );
        Live::new(Paint(false)).event(&event).prompt.expect("something is asked")
    }

    /// Every line comes, page by page, and none is left out in silence.
    #[test]
    fn all_of_what_a_call_would_do_is_shown() {
        let lines: Vec<String> = (0..250).map(|line| format!("echo {line}")).collect();
        let mut prompt = prompt_of(&lines.join("\n"), "");
        let first = prompt.opening_lines(Paint(false)).join("\n");
        assert!(first.contains("echo 0\n") && !first.contains("echo 200"), "{first}");
        assert!(first.ends_with("(151 more lines: type m)"), "{first}");
        let (second, third) = (prompt.page().join("\n"), prompt.page().join("\n"));
        assert!(second.contains("echo 150") && second.ends_with("(51 more lines: type m)"), "{second}");
        let all = [first, second, third.clone()].join("\n");
        assert!(lines.iter().all(|line| all.lines().any(|shown| shown.trim() == line)), "{all}");
        assert!(third.ends_with("echo 249"), "{third}");
        assert!(prompt.page().join("\n").contains("echo 0"), "it begins again");
    }

    /// If a call can be allowed always, the text names the scope; otherwise it does not offer it.
    #[test]
    fn always_is_offered_where_it_can_be_remembered() {
        assert!(!prompt_of("ls", "").how().contains("always"));
        let digest = r#","allowance_digest":"blake3:1""#;
        assert!(prompt_of("ls", digest).how().contains("a to always allow in this run"));
        let event = r#"{"run_id":"run_1","session_id":"chat_1","type":"approval.requested","data":{"approval_id":"a","summary":"s","allowance_digest":"blake3:1"}}"#;
        let prompt = Live::new(Paint(false)).event(event).prompt.expect("something is asked");
        assert!(prompt.how().contains("a to always allow in this session"), "{}", prompt.how());
    }

    #[test]
    fn who_approves_from_elsewhere_sees_all_of_it() {
        let preview: Vec<String> = (0..250).map(|line| format!("echo {line}")).collect();
        let approval = serde_json::json!({
            "id": "appr_1", "run_id": "run_1", "tool_call_id": "call_1", "kind": "shell_exec", "summary": "echo",
            "status": "pending", "requested_at": "", "expires_at": "2026-05-03T10:23:53.206Z",
            "default_decision": "reject", "preview": preview.join("\n"), "preview_kind": "command",
        });
        let text = approval_lines(&serde_json::from_value(approval).unwrap()).join("\n");
        assert!(text.starts_with("Permission requested: echo\n"), "{text}");
        assert!(text.contains("\n    approval: appr_1\n"), "{text}");
        let default = "without an answer: at 2026-05-03 10:23:53 UTC, the call is denied";
        assert!(text.contains(default), "{text}");
        assert!(preview.iter().all(|line| text.lines().any(|shown| shown.trim() == line)), "{text}");
    }

    #[test]
    fn a_preview_cut_from_the_event_is_reported() {
        let with = prompt_of("abc", r#","preview_size_bytes":10,"preview_artifact_id":"art_1""#);
        let text = with.opening_lines(Paint(false)).join("\n");
        assert!(text.ends_with("(7 bytes not shown; to show all: recount artifact get art_1)"), "{text}");
        let without = prompt_of("abc", r#","preview_size_bytes":10"#).opening_lines(Paint(false)).join("\n");
        assert!(without.contains("(7 bytes not shown; they are not stored"), "{without}");
        // What a terminal would obey is shown as what it is.
        let text = prompt_of("ls \u{1b}[2K\r; rm x", "").opening_lines(Paint(false)).join("\n");
        assert!(!text.contains(['\u{1b}', '\r']) && text.contains("rm x"), "{text}");
    }
}
