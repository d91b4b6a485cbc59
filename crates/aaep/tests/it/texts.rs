//! Tests of advice on texts for people, with the lines of `tests/it/texts/`: secrets, personal data, markup and similar
//! harmless texts, and inaudible characters. Each is checked in every spoken field.

use std::path::Path;

use proptest::prelude::*;
use recount_aaep::rule::{Profile, check_text};
use serde_json::{Value, json};

fn lines(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/texts").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<String> =
        text.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    assert!(lines.len() > 15, "{name}");
    lines
}

fn event(kind: &str, fields: &Value) -> Value {
    let mut event = json!({
        "@context": "https://aaep-protocol.org/context/v1",
        "type": format!("aaep:agent.{kind}"),
        "event_id": "evt_1",
        "session_id": "sess_1",
        "timestamp": "2026-05-24T14:22:13.108Z",
        "producer": {"agent_id": "planner"},
        "localization_hints": {"primary_language": "en", "text_direction": "auto"},
        "summary_normal": "One sentence.",
    });
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    event
}

/// The findings about texts: rule, path and message.
fn found(event: &Value, profile: Profile) -> Vec<(&'static str, String, String)> {
    check_text(&event.to_string(), profile)
        .into_iter()
        .filter(|finding| finding.rule.id.starts_with("text."))
        .map(|finding| (finding.rule.id, finding.path, finding.message))
        .collect()
}

fn of_text(text: &str) -> Vec<&'static str> {
    let event = event("tool.invoked", &json!({"tool": "fetch", "args_summary": text}));
    found(&event, Profile::Strict).into_iter().map(|(rule, ..)| rule).collect()
}

#[test]
fn secrets_personal_data_and_markup_are_found_without_false_positives() {
    let mut wrong = Vec::new();
    for (name, rule) in [
        ("secrets.txt", Some("text.secret")),
        ("personal.txt", Some("text.personal")),
        ("markup.txt", Some("text.markup")),
        ("innocent.txt", None),
    ] {
        for line in lines(name) {
            let rules = of_text(&line);
            if rules != Vec::from_iter(rule) {
                wrong.push(format!("{name}: `{line}` gave {rules:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn prompt_with(extra_context: Value) -> Value {
    json!({
        "action": "pay", "consequence": "It is paid.", "reply_token": "rpl_1", "timeout_seconds": 60,
        "default_decision": "reject", "urgency": "critical", "extra_context": extra_context,
    })
}

fn handed(packaged_context: Value) -> Value {
    json!({
        "handoff_id": "h1", "reason": "It is too hard.", "target_kind": "human", "target_uri": "queue:x",
        "urgency": "critical", "urgency_for_handoff": "high", "packaged_context": packaged_context,
    })
}

/// A context object is not text for people and may contain many numbers and names.
#[test]
fn a_context_without_a_secret_has_no_finding() {
    for context in [
        json!({"order": 4_111_111_111_111_111_u64, "card": "4111111111111111", "token": null}),
        json!({"tool": "reset_password", "tool_call_id": "call_9f8e7d6c5b4a", "reply_token": "rpl_9f8e7d6c5b4a"}),
        json!({"args_summary": "mail the password reset link", "password_changed": true}),
        json!({"authorization": "approved", "access": {"token": null, "password": ""}, "steps": ["token", 3]}),
    ] {
        let event = event("awaiting.confirmation", &prompt_with(context));
        assert_eq!(found(&event, Profile::Strict), [], "{event}");
    }
}

#[test]
fn every_spoken_text_is_checked() {
    let prompt = json!({
        "question": "Which?", "reply_token": "rpl_1", "timeout_seconds": 60, "urgency": "critical",
        "accepted_response_kinds": ["multiple_choice"],
        "choices": [{"value": "a", "label": "A"}, {"value": "b", "label": "password=hunter2"}],
    });
    let text = "password=hunter2";
    for (kind, fields, path) in [
        ("progress.updated", json!({"progress": {"description": text}}), "progress.description"),
        ("awaiting.clarification", prompt, "choices[1].label"),
        ("tool.invoked", json!({"tool": "fetch", "args_summary": text}), "args_summary"),
        ("tool.invoked", json!({"tool": "fetch", "description": text}), "description"),
        ("awaiting.confirmation", prompt_with(json!({"args_summary": text})), "extra_context.args_summary"),
        ("awaiting.confirmation", prompt_with(json!({"call": {"password": "hunter2"}})), "extra_context"),
        (
            "awaiting.confirmation",
            prompt_with(json!({"args_summary": {"password": "hunter2"}})),
            "extra_context",
        ),
        (
            "awaiting.confirmation",
            prompt_with(json!({"password": "hunter2", "args_summary": "hunter2 words"})),
            "extra_context",
        ),
        ("handoff.requested", handed(json!({"notes": ["try", text]})), "packaged_context"),
        ("handoff.requested", handed(json!({"args_summary": text})), "packaged_context"),
        ("handoff.requested", handed(json!({"notes": "use:\nsk-live-0123456789"})), "packaged_context"),
        (
            "tool.completed",
            json!({"tool": "fetch", "status": "error", "error_message": text}),
            "error_message",
        ),
        ("session.started", json!({"request_text": text}), "request_text"),
        ("session.completed", json!({"summary_normal_yo": text}), "summary_normal_yo"),
        ("output.streaming", json!({"chunk": text, "position": 0, "complete": true}), "chunk"),
    ] {
        for profile in [Profile::Strict, Profile::Compat] {
            let found = found(&event(kind, &fields), profile);
            let seen: Vec<_> = found.iter().map(|(rule, path, _)| (*rule, path.as_str())).collect();
            assert_eq!(seen, [("text.secret", path)], "{kind}");
            assert!(!found[0].2.contains("hunter2"), "the secret is not repeated: {}", found[0].2);
        }
    }
}

#[test]
fn escapes_hide_nothing() {
    let text = event("tool.invoked", &json!({"tool": "fetch", "args_summary": "PLACE"})).to_string();
    for (written, rule) in [
        (r"p\u0061ssword=hunter2", "text.secret"),
        (r"4111\u0020111111111111", ""),
        (r"4111\u00201111\u00201111\u00201111", "text.personal"),
        (r"\u003cb>so\u003c/b>", "text.markup"),
        (r"\u001b[31mred", "text.control"),
    ] {
        let findings = check_text(&text.replace("PLACE", written), Profile::Strict);
        let ids: Vec<_> = findings.iter().map(|finding| finding.rule.id).collect();
        assert_eq!(ids, Vec::from_iter(Some(rule).filter(|rule| !rule.is_empty())), "{written}");
    }
}

#[test]
fn inaudible_characters_are_found() {
    for (text, rule) in [
        ("bell \u{7}", "text.control"),
        ("null \u{0}", "text.control"),
        ("\u{1b}[31mred\u{1b}[0m", "text.control"),
        ("delete \u{7f}", "text.control"),
        ("next line \u{85}", "text.control"),
        ("mark \u{feff} inside", "text.control"),
        ("hidden \u{e0041}\u{e0042}", "text.control"),
        ("annotation \u{fff9}", "text.control"),
        ("pay \u{202e}nna\u{202c}", "text.bidirectional"),
        ("pay \u{202d}ann\u{202c}", "text.bidirectional"),
        ("open \u{2066}abc", "text.bidirectional"),
        ("open \u{202b}abc", "text.bidirectional"),
        ("closed \u{2069} only", "text.bidirectional"),
        ("crossed \u{2066}a\u{202c}", "text.bidirectional"),
        ("isolated \u{2068}abc\u{2069}", ""),
        ("nested \u{2067}a \u{2066}b\u{2069} c\u{2069}", ""),
        ("embedded \u{202a}abc\u{202c}", ""),
        ("mark \u{200f} alone", ""),
        ("joined \u{200d} and \u{200b}", ""),
        ("tab\tand\r\nlines", ""),
    ] {
        assert_eq!(of_text(text), Vec::from_iter(Some(rule).filter(|rule| !rule.is_empty())), "{text:?}");
    }
}

#[test]
fn output_is_checked_by_its_content_type() {
    let rules = |chunk: &str, content_type: Option<&str>| {
        let mut fields = json!({"chunk": chunk, "position": 0, "complete": true});
        if let Some(content_type) = content_type {
            fields["content_type"] = content_type.into();
        }
        let found = found(&event("output.streaming", &fields), Profile::Strict);
        found.into_iter().map(|(rule, ..)| rule).collect::<Vec<_>>()
    };
    assert_eq!(rules("This is **bold**.", None), ["text.markup"]);
    assert_eq!(rules("This is **bold**.", Some("text/plain")), ["text.markup"]);
    assert_eq!(rules("This is **bold**.", Some("text/markdown")), [""; 0]);
    // A later chunk closes it.
    assert_eq!(rules("a \u{2067}b", None), [""; 0]);
    assert_eq!(rules("b\u{2069} c", None), [""; 0]);
    assert_eq!(rules("a \u{202e}b", None), ["text.bidirectional"]);
    // The user's request is quoted verbatim.
    let request = event("session.started", &json!({"request_text": "Make it <b>bold</b>."}));
    assert_eq!(found(&request, Profile::Strict), []);
}

/// Strings at which detectors start or end.
const PARTS: &[&str] = &[
    "password",
    "=",
    ":",
    " ",
    "\"",
    "bearer ",
    "-----BEGIN ",
    "PRIVATE KEY",
    "sk-",
    "://",
    "@",
    "4111",
    "123-45-6789",
    "-",
    "ssn",
    "<",
    "b",
    ">",
    "**",
    "[",
    "](",
    ")",
    "&",
    ";",
    "#",
    "\n",
    "|",
    "`",
    "é",
    "🏴",
    "\u{E0067}",
    "\u{2066}",
    "\u{2069}",
];

/// 64 KiB of repeated starts: a detector that searched for each end again would take minutes.
#[test]
fn checking_a_text_takes_linear_time() {
    for part in PARTS {
        let long = part.repeat((1 << 16) / part.len());
        let spaced = format!("{part} {}", " ".repeat(512)).repeat(128);
        for text in [format!("{long} end"), spaced] {
            let event = event("output.streaming", &json!({"chunk": text, "position": 0, "complete": true}));
            assert!(!check_text(&event.to_string(), Profile::Strict).is_empty(), "it is too long a string");
        }
    }
}

proptest! {
    /// Detectors slice texts at bytes: never inside a character or beyond the end, and matches do not depend on the
    /// surrounding text.
    #[test]
    fn any_text_is_checked_and_a_card_in_it_is_found(
        parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..24),
    ) {
        let text = parts.concat();
        of_text(&text);
        let paid = format!("{text} \n paid with 4111111111111111 \n {text}");
        prop_assert!(of_text(&paid).contains(&"text.personal"), "{}", paid);
    }
}
