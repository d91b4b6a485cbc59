//! The pages of decision links: plain HTML without scripts. Pure. Everything that is decided on is shown, with invisible
//! characters escaped, as the command line shows it.
//!
//! Start at [`approval`], [`clarification`] and [`closed`]. It must not know tokens.

use std::fmt::Write as _;

use recount_command_line::clean;
use recount_engine::{ApprovalRow, ClarificationRow, RunRow};
use serde_json::Value;

use crate::limits::DECISION_TEXT_CHARS_MAX;
use crate::plain_page::{escaped, shown, whole_page};

/// What the page shows beside the prompt.
pub(super) struct PageContext<'a> {
    pub(super) approver: &'a str,
    pub(super) run: Option<&'a RunRow>,
    pub(super) run_id: &'a str,
}

/// The page of an approval. `preview` is all of it, or `is_whole` is false.
pub(super) fn approval(
    row: &ApprovalRow,
    preview: Option<&str>,
    is_whole: bool,
    context: &PageContext<'_>,
) -> String {
    let mut page = String::new();
    let effect = row.action.as_deref().unwrap_or(&row.summary);
    lines(&mut page, effect);
    let repeats_it = preview.is_some() && row.preview_kind.as_deref() == Some("command");
    if row.summary != effect && !repeats_it {
        section(&mut page, "Call", &row.summary);
    }
    if let Some(preview) = preview {
        let name = match row.preview_kind.as_deref() {
            Some("command") => "Complete command",
            Some("diff") => "Changes",
            _ => "Complete input",
        };
        section(&mut page, name, preview);
    }
    page.push_str("<dl>\n");
    fact(&mut page, "Where", &place(context));
    let consequence = row.consequence.as_deref().filter(|text| !text.is_empty()).unwrap_or("Not known.");
    let reversal = match row.irreversible {
        Some(true) => " This cannot be undone.",
        None => " It is not known whether this can be undone.",
        Some(false) if consequence.contains("be undone") => "",
        Some(false) => " It may be possible to undo this, at least in part.",
    };
    fact(&mut page, "Consequence", &format!("{consequence}{reversal}"));
    fact(&mut page, "Risk", row.risk_level.as_deref().unwrap_or("unknown"));
    let otherwise = match (row.withdrawn_at_deadline, row.default_decision.as_str()) {
        (true, _) => "the agent's own dialog decides",
        (false, "approve") => "approve",
        (false, _) => "reject",
    };
    deadline(&mut page, row.expires_at.as_deref(), otherwise);
    if let Some(reason) = &row.policy_reason {
        fact(&mut page, "Policy reason", reason);
    }
    fact(&mut page, "Tool", &row.kind);
    fact(&mut page, "Approval", row.id.as_str());
    fact(&mut page, "Run", context.run_id);
    page.push_str("</dl>\n");
    form(&mut page, context.approver);
    if !is_whole {
        page.push_str(
            "<p><strong>Not all of the call can be shown here, so it cannot be approved here.</strong> Use the console or \
             recount approve.</p>\n",
        );
    }
    field(&mut page, "comment", "Comment (optional)");
    if is_whole {
        page.push_str("<button type=\"submit\" name=\"decision\" value=\"approve\">Approve</button>\n");
    }
    page.push_str("<button type=\"submit\" name=\"decision\" value=\"reject\">Reject</button>\n</form>\n");
    whole_page("Approval requested", &page)
}

/// The page of a question, with the choices as [`choices`] has them.
pub(super) fn clarification(row: &ClarificationRow, context: &PageContext<'_>) -> String {
    let mut page = String::new();
    lines(&mut page, &row.question);
    page.push_str("<dl>\n");
    if let Some(text) = &row.context {
        fact(&mut page, "Context", text);
    }
    fact(&mut page, "Where", &place(context));
    let otherwise = row.default_response.as_ref().map(|value| format!("answer {}", value.text()));
    deadline(&mut page, row.expires_at.as_deref(), otherwise.as_deref().unwrap_or("no answer"));
    fact(&mut page, "Question", row.id.as_str());
    fact(&mut page, "Run", context.run_id);
    page.push_str("</dl>\n");
    form(&mut page, context.approver);
    let choices = choices(row);
    if !choices.is_empty() {
        page.push_str("<fieldset><legend>Choose an answer</legend>\n");
        for (place, (label, _)) in choices.iter().enumerate() {
            let shown = clean::approvable(label).join(" ");
            writeln!(
                page,
                "<label><input type=\"radio\" name=\"choice\" value=\"{place}\"> <bdi>{}</bdi></label>",
                escaped(&shown)
            )
            .expect(STRING);
        }
        page.push_str("</fieldset>\n");
    }
    if takes_text(row) {
        let name = if is_numeric(row) { "Your answer (a number)" } else { "Your answer" };
        field(&mut page, "answer", name);
    }
    page.push_str(
        "<button type=\"submit\" name=\"decision\" value=\"answer\">Send answer</button>\n</form>\n",
    );
    whole_page("Question", &page)
}

/// What may be chosen: a label, and the answer as JSON.
pub(super) fn choices(row: &ClarificationRow) -> Vec<(String, Value)> {
    let of_row = row.choices.iter().flatten().map(|choice| {
        let value: Value = serde_json::from_str(choice.text()).unwrap_or_default();
        let label = value.get("label").and_then(Value::as_str).or(value.as_str());
        let label = label.map_or_else(|| value.to_string(), str::to_owned);
        (label, value.get("value").cloned().unwrap_or(value))
    });
    let mut found: Vec<_> = of_row.collect();
    if kinds(row).iter().any(|kind| kind == "yes_no") {
        found.extend([("Yes".to_owned(), true.into()), ("No".to_owned(), false.into())]);
    }
    found
}

fn kinds(row: &ClarificationRow) -> &[String] {
    row.accepted_response_kinds.as_deref().unwrap_or_default()
}

/// Whether an answer in words is accepted.
pub(super) fn takes_text(row: &ClarificationRow) -> bool {
    let is_choice = |kind: &String| matches!(kind.as_str(), "yes_no" | "multiple_choice" | "choice");
    choices(row).is_empty() || kinds(row).is_empty() || !kinds(row).iter().all(is_choice)
}

/// Whether only a number is accepted.
pub(super) fn is_numeric(row: &ClarificationRow) -> bool {
    !kinds(row).is_empty() && kinds(row).iter().all(|kind| kind == "numeric")
}

/// A page on which nothing can be decided.
pub(super) fn closed(heading: &str, texts: &[String]) -> String {
    let mut page = String::new();
    for text in texts {
        writeln!(page, "<p class=\"lines\"><bdi>{}</bdi></p>", shown(text)).expect(STRING);
    }
    whole_page(heading, &page)
}

const STRING: &str = "a string takes everything";

/// `2026-05-03 10:23:45 UTC`
pub(crate) fn utc_time(at: &str) -> String {
    at.get(..19).map_or_else(|| at.to_owned(), |seconds| format!("{} UTC", seconds.replacen('T', " ", 1)))
}

fn place(context: &PageContext<'_>) -> String {
    let Some(run) = context.run else { return "unknown".to_owned() };
    let title = run.title.iter().map(|title| format!("{title}: "));
    let folder = match (&run.workspace_path, &run.workspace_mode) {
        (Some(path), Some(mode)) => format!("{path} ({mode})"),
        (Some(path), None) => path.clone(),
        (None, _) if run.driver == "external" => {
            let source =
                run.source.as_ref().map_or(String::new(), |source| format!(", recorded from {source}"));
            format!("{}{source}", run.agent_name.as_deref().unwrap_or("another program"))
        }
        (None, _) => "no folder".to_owned(),
    };
    title.collect::<String>() + &folder
}

fn deadline(page: &mut String, at: Option<&str>, otherwise: &str) {
    match at {
        Some(at) => fact(page, "Without an answer", &format!("{otherwise}, at {}", utc_time(at))),
        None => fact(page, "Deadline", "None: it waits until someone answers."),
    }
}

fn form(page: &mut String, approver: &str) {
    let approver = shown(approver);
    writeln!(
        page,
        "<form method=\"post\" autocomplete=\"off\">\n<p>You answer as <strong><bdi>{approver}</bdi></strong>. The answer is \
         final.</p>"
    )
    .expect(STRING);
}

fn field(page: &mut String, name: &str, label: &str) {
    writeln!(
        page,
        "<label for=\"{name}\">{label}</label>\n<textarea id=\"{name}\" name=\"{name}\" rows=\"2\" dir=\"auto\" \
         maxlength=\"{DECISION_TEXT_CHARS_MAX}\"></textarea>"
    )
    .expect(STRING);
}

fn lines(page: &mut String, text: &str) {
    writeln!(page, "<p class=\"lines\"><strong><bdi>{}</bdi></strong></p>", shown(text)).expect(STRING);
}

fn section(page: &mut String, name: &str, text: &str) {
    writeln!(page, "<h2>{name}</h2>\n<pre dir=\"ltr\">{}</pre>", shown(text)).expect(STRING);
}

fn fact(page: &mut String, name: &str, text: &str) {
    writeln!(page, "<dt>{name}</dt><dd class=\"lines\"><bdi>{}</bdi></dd>", shown(text)).expect(STRING);
}
