//! Prints prompts: the request with all that it would do, page by page, and next to the question the consequence, the risk
//! and what happens without an answer. `run`, `chat` and `approve` show approvals with it.
//!
//! Look at [`Prompt`]. It decides whether enough was shown to approve; what is answered, and by whom, is not decided here.

use std::collections::VecDeque;

use recount_client::aap::OpenCall;
use recount_client::reply::Approval;
use recount_client::request::AllowanceScope;
use recount_command_line::output::Screen;
use serde_json::Value;

use super::super::sentence::Data;
use super::super::{clean, count, flow, utc_time};
use crate::limits;

/// Columns before what a call would do.
const INDENT: &str = "        ";

/// An open prompt of a run.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// The request, and all that it would do.
    content: Vec<String>,
    /// What of it is still to be shown.
    unshown: VecDeque<String>,
    /// Whether all of it was shown.
    is_shown: bool,
    /// What is printed after the last page, next to the question.
    facts: Vec<String>,
    /// What is shown when the person asks for details.
    details: Vec<String>,
    preview: PreviewPart,
    /// The digest that the server gave out for what is shown; sent with the answer.
    pub(crate) shown_digest: Option<String>,
}

/// The part of an approval's content that its event may have only the beginning of.
#[derive(Debug, Clone, Default)]
struct PreviewPart {
    name: &'static str,
    /// Lines of the content before it.
    after: usize,
    missing: Option<MissingPart>,
}

/// What is not in the event.
#[derive(Debug, Clone)]
pub(crate) struct MissingPart {
    bytes: u64,
    /// All of the preview.
    pub(crate) size_bytes: u64,
    pub(crate) artifact_id: Option<String>,
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

    fn new(id: String, kind: Kind, content: Vec<String>, facts: Vec<String>, details: Vec<String>) -> Prompt {
        let unshown = content.iter().cloned().collect();
        let preview = PreviewPart::default();
        Prompt { id, kind, content, unshown, is_shown: false, facts, details, preview, shown_digest: None }
    }

    /// The approval of a server's reply.
    pub(crate) fn of_approval(request: &Approval, is_in_session: bool) -> Option<Prompt> {
        let mut fields = serde_json::to_value(request).unwrap_or_default();
        if let Some(fields) = fields.as_object_mut() {
            fields.insert("approval_id".to_owned(), request.id.clone().into());
        }
        let mut prompt = approval(&Data::read(&fields.to_string()), is_in_session)?;
        if let Kind::Approval { always: always @ None } = &mut prompt.kind
            && request.can_be_remembered
        {
            *always = Some(usual_scope(is_in_session));
        }
        prompt.shown_digest = request.shown_digest.clone();
        Some(prompt)
    }

    /// A call of a server that shows only its name and input. `about` is the server's description of the tool.
    pub(crate) fn of_call(call: &OpenCall, about: &str) -> Prompt {
        let mut content = titled("Permission requested", &format!("use {}", call.name));
        let input = serde_json::to_string_pretty(&call.input).unwrap_or_default();
        content.extend(preview_lines("complete input", &input));
        let facts = if about.is_empty() { Vec::new() } else { vec![fact("tool", about).0] };
        let details = named("call id", &call.tool_call_id);
        Prompt::new(call.tool_call_id.clone(), Kind::Approval { always: None }, content, facts, details)
    }

    /// Takes the digest of the approval as the server has it, if that shows the same as this prompt.
    pub(crate) fn bind(&mut self, request: &Approval) {
        let Some(mut held) = Prompt::of_approval(request, false) else { return };
        if held.content == self.content && held.facts == self.facts {
            self.shown_digest = held.shown_digest;
        } else {
            // The prompt of the server is what is answered, so that is what is shown.
            std::mem::swap(&mut held.kind, &mut self.kind);
            *self = held;
        }
    }

    /// What is missing of the content, and has to be fetched before it is shown.
    pub(crate) fn missing(&self) -> Option<&MissingPart> {
        self.preview.missing.as_ref()
    }

    /// The whole preview, of which the event had only the beginning.
    pub(crate) fn complete(&mut self, preview: &str) {
        self.content.truncate(self.preview.after);
        self.content.extend(preview_lines(self.preview.name, preview));
        self.preview.missing = None;
        self.begin();
    }

    /// From here on it counts as not shown.
    pub(crate) fn begin(&mut self) {
        self.is_shown = false;
        self.unshown = self.content.iter().cloned().collect();
    }

    /// The next page of the content, and how much remains, or after the last page the facts to decide on. After the last
    /// page it begins again.
    pub(crate) fn next_page(&mut self, screen: Option<Screen>) -> Vec<String> {
        if self.unshown.is_empty() {
            self.unshown = self.content.iter().cloned().collect();
        }
        let columns = screen.map(|screen| screen.columns);
        let rows = |line: &str| -> usize {
            flow::broken(line, columns).lines().map(|row| flow::rows(row, columns)).sum::<usize>().max(1)
        };
        let beside = self.facts.iter().map(|fact| rows(fact)).sum::<usize>() + rows(self.question()) + 1;
        let room = match (&self.kind, screen) {
            (Kind::Approval { .. }, Some(screen)) => {
                screen.rows.saturating_sub(beside).max(limits::PAGE_ROWS_MIN)
            }
            (Kind::Approval { .. }, None) => limits::PREVIEW_PAGE_LINES,
            _ => usize::MAX,
        };
        let (mut lines, mut used) = (Vec::new(), 0);
        while let Some(line) = self.unshown.pop_front() {
            used += rows(&line);
            if used > room {
                if lines.is_empty() {
                    // A line that is longer than a page.
                    let most = columns.unwrap_or(limits::COLUMNS_DEFAULT).saturating_sub(1) * room;
                    let (shown, rest) = line.split_at(flow::beginning(&line, most).len());
                    lines.push(shown.to_owned());
                    self.unshown.push_front(format!("{INDENT}{rest}"));
                } else {
                    self.unshown.push_front(line);
                }
                break;
            }
            lines.push(line);
        }
        match self.unshown.len() {
            0 => {
                self.is_shown = true;
                lines.extend(self.facts.iter().cloned());
            }
            more => lines.push(format!("    ({}: type m)", count(more as u64, "more line"))),
        }
        lines
    }

    /// The whole prompt, for commands that do not ask.
    pub(crate) fn all_lines(&self) -> Vec<String> {
        [self.content.as_slice(), &self.facts].concat()
    }

    /// Whether there is a next page.
    pub(crate) fn has_more(&self) -> bool {
        !self.unshown.is_empty()
    }

    /// Why it cannot be approved yet: nothing is approved that was not shown.
    pub(crate) fn not_approvable(&self) -> Option<&'static str> {
        match (&self.preview.missing, self.is_shown) {
            (Some(_), _) => Some(
                "Not all of the call can be shown, so it cannot be approved here; nothing was \
                 decided.",
            ),
            (None, false) => {
                Some("Not all of the call was shown. Type m for the next page; nothing was decided.")
            }
            (None, true) => None,
        }
    }

    /// How it is answered here, in a line.
    pub(crate) fn how(&self) -> &'static str {
        match (&self.kind, &self.preview.missing, self.is_shown) {
            (Kind::Approval { .. }, _, _) if self.has_more() => {
                "Type m for the next page, n to deny (text after n is sent to the agent), d for details:"
            }
            (Kind::Approval { .. }, Some(_), _) => {
                "Not all of the call can be shown, so it cannot be approved here. Type n to deny (text after n is sent to the agent), d for details:"
            }
            _ => self.question(),
        }
    }

    /// The same after all of it was shown.
    fn question(&self) -> &'static str {
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

fn usual_scope(is_in_session: bool) -> AllowanceScope {
    if is_in_session { AllowanceScope::Session } else { AllowanceScope::Run }
}

fn approval(data: &Data, is_in_session: bool) -> Option<Prompt> {
    let id = data.text("approval_id")?.to_owned();
    let effect = data.text("action").or_else(|| data.text("summary"))?;
    let preview = data.text("preview");
    // What follows in full is repeated in one line at most.
    let mut content = match preview {
        Some(_) => titled("Permission requested", &shortened(effect)),
        None => titled("Permission requested", effect),
    };
    let is_command = preview.is_some() && data.text("preview_kind") == Some("command");
    let is_repeated = |summary: &&str| *summary == effect || is_command;
    if let Some(summary) = data.text("summary").filter(|summary| !is_repeated(summary)) {
        content.extend(named("call", summary));
    }
    let mut details = Vec::new();
    let mut facts = Vec::new();
    let mut fact = |name: &str, text: &str| {
        let (line, cut) = fact(name, text);
        facts.push(line);
        details.extend(cut);
    };
    let consequence = data.text("consequence").unwrap_or_default();
    if !consequence.is_empty() {
        fact("", consequence);
    }
    if !consequence.contains("be undone") {
        fact("", reversibility(data));
    }
    fact("risk", data.text("risk_level").unwrap_or("unknown"));
    let default = match data.text("default_decision") {
        _ if data.is_true("withdrawn_at_deadline") => "the agent's own dialog decides",
        Some("approve") => "the call is allowed",
        _ => "the call is denied",
    };
    fact("without an answer", &unanswered(data, default));
    fact("approval", &id);
    for (name, field) in [("tool", "kind"), ("call id", "tool_call_id")] {
        details.extend(data.text(field).into_iter().flat_map(|text| named(name, text)));
    }
    details.extend(deadline(data));
    for (name, field) in [("call digest", "call_digest"), ("policy reason", "policy_reason")] {
        details.extend(data.text(field).into_iter().flat_map(|text| named(name, text)));
    }
    let after = content.len();
    let name = match data.text("preview_kind") {
        Some("command") => "complete command",
        Some("diff") => "changes",
        _ => "complete input",
    };
    let missing = missing(data);
    content.extend(preview.into_iter().flat_map(|text| preview_lines(name, text)));
    content.extend(missing.iter().map(MissingPart::line));
    let always = data.text("allowance_digest").map(|_| usual_scope(is_in_session));
    let mut prompt = Prompt::new(id, Kind::Approval { always }, content, facts, details);
    prompt.preview = PreviewPart { name, after, missing };
    Some(prompt)
}

/// The beginning of a text, in one line.
fn shortened(text: &str) -> String {
    let line = clean::approvable(text).join(" ");
    let shown = flow::beginning(&line, limits::PROMPT_TITLE_COLUMNS_MAX);
    if shown.len() < line.len() { format!("{shown}…") } else { line }
}

/// A fact in one line, and all of it where the line is cut.
fn fact(name: &str, text: &str) -> (String, Vec<String>) {
    let lines = if name.is_empty() { indented(text) } else { named(name, text) };
    let fact = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let shown = flow::beginning(&fact, limits::FACT_COLUMNS_MAX);
    if shown.len() == fact.len() {
        return (format!("    {fact}"), Vec::new());
    }
    (format!("    {shown} (truncated; d shows all)"), lines)
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

/// All of what a call would do.
fn preview_lines(name: &str, text: &str) -> Vec<String> {
    let lines =
        clean::approvable(text).into_iter().map(|line| format!("{INDENT}{line}").trim_end().to_owned());
    std::iter::once(format!("    {name}:")).chain(lines).collect()
}

/// What the event does not have of it.
fn missing(data: &Data) -> Option<MissingPart> {
    let size_bytes = data.number("preview_size_bytes")?;
    let here = data.text("preview").unwrap_or_default().len() as u64;
    let artifact_id = data.text("preview_artifact_id").map(str::to_owned);
    Some(MissingPart { bytes: size_bytes.saturating_sub(here), size_bytes, artifact_id })
}

impl MissingPart {
    /// How much is missing, and where it is.
    fn line(&self) -> String {
        let place = match &self.artifact_id {
            Some(id) => format!("to show all: recount artifact get {}", clean::line(id)),
            None => "they are not stored".to_owned(),
        };
        format!("    ({} not shown; {place})", count(self.bytes, "byte"))
    }
}

fn question(data: &Data) -> Option<Prompt> {
    let id = data.text("clarification_id")?.to_owned();
    let mut content = titled("Question", data.text("question")?);
    content.extend(data.text("context").into_iter().flat_map(indented));
    let choices = data.value("choices").and_then(Value::as_array).cloned().unwrap_or_default();
    for (place, choice) in choices.iter().enumerate() {
        content.push(format!("    {}: {}", place + 1, clean::line(&label(choice))));
    }
    let default = match data.value("default_response") {
        Some(response) => format!("the answer is {}", label(response)),
        None => "the agent receives no answer".to_owned(),
    };
    let facts = [named("without an answer", &unanswered(data, &default)), named("question id", &id)].concat();
    let call = data.text("tool_call_id").into_iter().flat_map(|text| named("call id", text));
    let details = call.chain(deadline(data)).collect();
    Some(Prompt::new(id, Kind::Question { choices }, content, facts, details))
}

fn handoff(data: &Data) -> Option<Prompt> {
    let id = data.text("handoff_id")?.to_owned();
    let mut content = titled("Handoff requested", data.text("reason")?);
    let summary = data.text("summary_normal").or_else(|| data.text("summary_terse"));
    content.extend(summary.into_iter().flat_map(|text| named("summary", text)));
    content.extend(data.text("urgency_for_handoff").into_iter().flat_map(|text| named("urgency", text)));
    let unanswered = named("without an answer", &unanswered(data, "the run fails"));
    let facts = [unanswered, named("handoff", &id)].concat();
    let mut details = Vec::new();
    for (name, field) in [("for", "target_kind"), ("URI", "target_uri"), ("details", "summary_detailed")] {
        details.extend(data.text(field).into_iter().flat_map(|text| named(name, text)));
    }
    details.extend(data.readable("packaged_context").iter().flat_map(|text| named("context", text)));
    Some(Prompt::new(id, Kind::Handoff, content, facts, details))
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
    clean::approvable(text).iter().map(|line| format!("    {line}").trim_end().to_owned()).collect()
}

/// The first lines of a prompt: what it is before the text, further lines of the text below it.
fn titled(name: &str, text: &str) -> Vec<String> {
    labelled(&format!("{name}: "), "    ", text)
}

/// A fact: its name before the first line, the others below it.
fn named(name: &str, text: &str) -> Vec<String> {
    labelled(&format!("    {name}: "), INDENT, text)
}

fn labelled(first: &str, further: &str, text: &str) -> Vec<String> {
    let lines = clean::approvable(text);
    let lines = if lines.is_empty() { vec![String::new()] } else { lines };
    let before = |at| if at == 0 { first } else { further };
    lines.iter().enumerate().map(|(at, line)| format!("{}{line}", before(at)).trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::live::{Live, Paint};

    fn prompt_of(preview: &str, more: &str) -> Prompt {
        let preview = Value::from(preview);
        let event = format!(
            r#"{{"run_id":"run_1","type":"approval.requested","data":{{"approval_id":"a","summary":"s","preview":{preview},"preview_kind":"command"{more}}}}}"#
        );
        Live::new(Paint(false)).event(&event).prompt.expect("something is asked")
    }

    /// Every page until all was shown, as a terminal shows them, with the question that follows each.
    #[track_caller]
    fn pages(prompt: &mut Prompt, screen: Option<Screen>) -> Vec<String> {
        let mut pages = Vec::new();
        prompt.begin();
        while !prompt.is_shown {
            assert!(prompt.not_approvable().is_some() && pages.len() < 1_000, "{pages:?}");
            let lines = prompt.next_page(screen);
            let question = std::iter::once(prompt.how());
            let lines: Vec<String> = lines
                .iter()
                .map(String::as_str)
                .chain(question)
                .map(|line| flow::broken(line, screen.map(|screen| screen.columns)))
                .collect();
            let rows: usize = lines
                .iter()
                .flat_map(|line| line.split('\n'))
                .map(|row| flow::rows(row, screen.map(|screen| screen.columns)))
                .sum();
            assert!(screen.is_none_or(|screen| rows <= screen.rows), "{rows} rows: {lines:?}");
            pages.push(lines.join("\n"));
        }
        pages
    }

    /// Every line comes, page by page, and none is left out in silence.
    #[test]
    fn all_of_what_a_call_would_do_is_shown() {
        let lines: Vec<String> = (0..250).map(|line| format!("echo {line}")).collect();
        let mut prompt = prompt_of(&lines.join("\n"), "");
        let all = pages(&mut prompt, None);
        assert!(all[0].contains("echo 0\n") && !all[0].contains("echo 200"), "{all:?}");
        assert!(all[0].contains("(152 more lines: type m)\nType m for the next page, n to deny"), "{all:?}");
        assert!(all[1].contains("(52 more lines: type m)") && all.len() == 3, "{all:?}");
        let text = all.join("\n");
        assert!(lines.iter().all(|line| text.lines().any(|shown| shown.trim() == line)), "{text}");
        assert!(all[2].contains("echo 249\n") && all[2].contains("Type y to allow"), "{all:?}");
        assert!(prompt.next_page(None).join("\n").contains("echo 0"), "it begins again");
        assert_eq!(prompt.not_approvable(), None);
    }

    /// Nothing in a call pushes another part of it off the screen, whatever its size.
    #[test]
    fn nothing_is_approved_that_the_screen_did_not_show() {
        let risk = r#","risk_level":"high","consequence":"Deletes everything.","irreversible":true"#;
        for (columns, rows) in [(80, 24), (80, 40), (40, 24), (120, 50), (200, 60)] {
            let screen = Some(Screen { columns, rows });
            for command in [
                format!("ls{}rm -rf ~", "\n".repeat(90)),
                format!("ls{};rm -rf ~", " ".repeat(6_000)),
                format!("ls {};rm -rf ~", "x".repeat(9_000)),
                format!("ls {};rm -rf ~", "x \u{65e5}".repeat(3_000)),
                format!("ls\n{}rm -rf ~", "x\n \t\n\n".repeat(100)),
                format!("ls; {}rm -rf ~", "\u{200b}\u{2800}\u{3164}".repeat(500)),
            ] {
                let mut prompt = prompt_of(&command, risk);
                let all = pages(&mut prompt, screen);
                let last = all.last().unwrap();
                assert!(all.iter().any(|page| page.contains("rm -rf ~")), "{columns}: {all:?}");
                for words in
                    ["Deletes everything.", "This cannot be undone.", "risk: high", "Type y to allow"]
                {
                    assert!(last.contains(words), "{last}");
                }
            }
        }
        let far = pages(&mut prompt_of(&format!("ls{};rm -rf ~", " ".repeat(6_000)), risk), None);
        assert!(far.len() == 1 && far[0].contains("ls[6000 blanks];rm -rf ~"), "{far:?}");
        let deep = pages(&mut prompt_of(&format!("ls{}rm -rf ~", "\n".repeat(90)), risk), None);
        assert!(deep[0].contains("ls\n        [89 empty lines]\n        rm -rf ~\n"), "{deep:?}");
    }

    #[test]
    fn a_long_fact_does_not_push_the_call_away() {
        let consequence = "x\\n".repeat(5_000);
        let mut prompt = prompt_of("ls", &format!(r#","consequence":"{consequence}""#));
        let all = pages(&mut prompt, Some(Screen { columns: 80, rows: 30 }));
        assert!(all.last().unwrap().contains("(truncated; d shows all)"), "{all:?}");
        assert!(prompt.details().len() >= 5_000);
    }

    /// If a call can be allowed always, the text names the scope; otherwise it does not offer it.
    #[test]
    fn always_is_offered_where_it_can_be_remembered() {
        let how = |mut prompt: Prompt| {
            prompt.next_page(None);
            prompt.how()
        };
        assert!(!how(prompt_of("ls", "")).contains("always"));
        let digest = r#","allowance_digest":"blake3:1""#;
        assert!(how(prompt_of("ls", digest)).contains("a to always allow in this run"));
        let event = r#"{"run_id":"run_1","session_id":"chat_1","type":"approval.requested","data":{"approval_id":"a","summary":"s","allowance_digest":"blake3:1"}}"#;
        let prompt = Live::new(Paint(false)).event(event).prompt.expect("something is asked");
        assert!(how(prompt).contains("a to always allow in this session"));
    }

    #[test]
    fn who_approves_from_elsewhere_sees_all_of_it() {
        let preview: Vec<String> = (0..250).map(|line| format!("echo {line}")).collect();
        let approval = serde_json::json!({
            "id": "appr_1", "run_id": "run_1", "tool_call_id": "call_1", "kind": "shell_exec", "summary": "echo",
            "status": "pending", "requested_at": "", "expires_at": "2026-05-03T10:23:53.206Z",
            "default_decision": "reject", "preview": preview.join("\n"), "preview_kind": "command",
        });
        let prompt = Prompt::of_approval(&serde_json::from_value(approval).unwrap(), false).unwrap();
        let text = prompt.all_lines().join("\n");
        assert!(text.starts_with("Permission requested: echo\n"), "{text}");
        assert!(text.ends_with("\n    approval: appr_1"), "{text}");
        let default = "without an answer: at 2026-05-03 10:23:53 UTC, the call is denied";
        assert!(text.contains(default), "{text}");
        assert!(preview.iter().all(|line| text.lines().any(|shown| shown.trim() == line)), "{text}");
    }

    #[test]
    fn a_preview_cut_from_the_event_is_reported() {
        let with = prompt_of("abc", r#","preview_size_bytes":10,"preview_artifact_id":"art_1""#);
        let mut with = with;
        let text = pages(&mut with, None).join("\n");
        assert!(text.contains("(7 bytes not shown; to show all: recount artifact get art_1)\n"), "{text}");
        assert!(with.not_approvable().is_some() && with.how().contains("cannot be approved here"));
        with.complete("abcdefghij");
        let text = pages(&mut with, None).join("\n");
        assert!(text.contains("        abcdefghij\n") && !text.contains("not shown"), "{text}");
        assert_eq!((with.not_approvable(), with.missing().is_some()), (None, false));
        let mut without = prompt_of("abc", r#","preview_size_bytes":10"#);
        let text = pages(&mut without, None).join("\n");
        assert!(text.contains("(7 bytes not shown; they are not stored"), "{text}");
        // What a terminal would obey is shown as what it is.
        let text = pages(&mut prompt_of("ls \u{1b}[2K\r; rm x", ""), None).join("\n");
        assert!(!text.contains(['\u{1b}', '\r']) && text.contains("rm x"), "{text}");
    }
}
