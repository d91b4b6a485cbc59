//! Tests that every single-field corruption is found: in an event of each type with all fields, each value is replaced
//! by one of another kind, each required field is removed, each name is misspelt.

use recount_aaep::Kind;
use recount_aaep::rule::{Profile, Severity, check_text};
use serde_json::{Value, json};

use crate::corpus::read;

fn fullest(kind: Kind) -> Value {
    let name = kind.name().trim_start_matches("agent.");
    let path = format!("events/good.{name}.full.json");
    serde_json::from_str(&read(&path)).unwrap()
}

fn is_error(event: &Value) -> bool {
    check_text(&event.to_string(), Profile::Strict).iter().any(|finding| finding.severity == Severity::Error)
}

/// Pointers to all values in an event, except inside free-form objects.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    if !at.is_empty() {
        found.push(at.to_owned());
    }
    if at == "/extra_context" || at == "/packaged_context" {
        return;
    }
    match value {
        Value::Object(map) => map.iter().for_each(|(key, inner)| {
            pointers(inner, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(key, inner)| pointers(inner, &format!("{at}/{key}"), found));
        }
        _ => {}
    }
}

#[test]
fn a_value_of_the_wrong_kind_is_found_in_any_field() {
    let mut tried = 0;
    for kind in Kind::ALL {
        let event = fullest(kind);
        assert!(!is_error(&event));
        let mut all = Vec::new();
        pointers(&event, "", &mut all);
        for pointer in all {
            let good = event.pointer(&pointer).unwrap().clone();
            let others =
                [json!(null), json!([[]]), json!({"": [0]}), json!(-0.5), json!("\u{0}\n"), json!(true)];
            for other in others {
                // Another value of the same kind may be valid too.
                let same = std::mem::discriminant(&good) == std::mem::discriminant(&other);
                let free_text = other.is_string() && good.is_string();
                if (same && !free_text) || (free_text && is_free_text(&pointer)) {
                    continue;
                }
                let mut bad = event.clone();
                *bad.pointer_mut(&pointer).unwrap() = other.clone();
                tried += 1;
                assert!(is_error(&bad), "{} {pointer} = {other}", kind.name());
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
}

/// Whether a string has no format.
fn is_free_text(pointer: &str) -> bool {
    let last = pointer.rsplit('/').next().unwrap();
    let texts = [
        "agent_id",
        "agent_version",
        "agent_name",
        "model",
        "calendar",
        "correlation_id",
        "summary_terse",
        "summary_normal",
        "summary_detailed",
        "requested_by",
        "request_text",
        "output_summary",
        "remediation_hint",
        "partial_result",
        "from_state",
        "to_state",
        "description",
        "args_summary",
        "error_message",
        "chunk",
        "action",
        "consequence",
        "question",
        "context",
        "default_response",
        "label",
        "value",
        "reason",
    ];
    texts.contains(&last) || pointer.starts_with("/tools_available/")
}

#[test]
fn a_required_field_that_is_missing_is_named() {
    for kind in Kind::ALL {
        let event = fullest(kind);
        let required: Vec<String> = {
            let schema =
                recount_aaep::schema::resolve(&format!("urn:recount:aaep:v1:{}", kind.name())).unwrap();
            schema["required"]
                .as_array()
                .unwrap()
                .iter()
                .map(|name| name.as_str().unwrap().to_owned())
                .collect()
        };
        for name in event.as_object().unwrap().keys() {
            let mut bad = event.clone();
            bad.as_object_mut().unwrap().remove(name);
            let findings = check_text(&bad.to_string(), Profile::Strict);
            let named = findings
                .iter()
                .any(|f| f.severity == Severity::Error && (f.message.contains(name) || f.path == *name));
            let hints = name == "localization_hints" && is_error(&bad);
            // Without its language or risk, an event is judged by the worst case.
            let graver = matches!(name.as_str(), "risk_level" | "irreversible");
            // The accepted kinds of the question require them.
            let choices = name == "choices";
            assert!(
                named == required.contains(name) || hints || graver || choices,
                "{} without {name}: {findings:?}",
                kind.name()
            );
        }
    }
}

#[test]
fn a_misspelt_name_is_found() {
    for kind in Kind::ALL {
        let event = fullest(kind);
        for name in event.as_object().unwrap().keys() {
            for wrong in [format!("{name}s"), name.to_uppercase(), format!("x_{name}")] {
                let mut bad = event.clone();
                let value = bad.as_object_mut().unwrap().remove(name).unwrap();
                bad[&wrong] = value;
                assert!(is_error(&bad), "{}: {wrong}", kind.name());
            }
        }
    }
}
