//! Tests of event rules with the corpus in `testdata/aaep/`: the examples of chapter 4, valid events, and invalid ones
//! that differ from a valid one in one detail. `events.json` has the expected findings.

use std::collections::BTreeSet;
use std::path::Path;

use recount_aaep::rule::{self, Profile, Severity, check_event, check_text};
use recount_aaep::{Event, Message};
use serde_json::Value;

use crate::corpus::{ids, manifest, read, testdata};

#[test]
fn every_event_of_the_corpus_gets_its_verdict() {
    let mut wrong = Vec::new();
    for entry in manifest("events.json") {
        let text = read(&format!("events/{}", entry.file));
        let strict = check_text(&text, Profile::Strict);
        let found = ids(&strict, Severity::Warning);
        if found != entry.strict {
            wrong.push(format!("{}: strict found {found:?}, not {:?}", entry.file, entry.strict));
        }
        let compat = check_text(&text, Profile::Compat);
        let errors = ids(&compat, Severity::Error);
        if errors.is_empty() != (entry.compat == "pass") {
            wrong.push(format!("{}: compat found {errors:?}, not {}", entry.file, entry.compat));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_invalid_event_of_the_corpus_differs_little_from_a_valid_one() {
    let entries = manifest("events.json");
    assert!(entries.len() >= 150);
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.file.as_str()).collect();
    for entry in &entries {
        assert!(rule_ids_exist(&entry.strict), "{}", entry.file);
        if !entry.strict.is_empty() {
            let like = entry.like.as_deref().unwrap();
            assert!(names.contains(like), "{} is like {like}, which is missing", entry.file);
            let (bad, good) = (read(&format!("events/{}", entry.file)), read(&format!("events/{like}")));
            assert!(check_text(&good, Profile::Strict).is_empty(), "{like} is good");
            if let (Ok(bad), Ok(good)) =
                (serde_json::from_str::<Value>(&bad), serde_json::from_str::<Value>(&good))
            {
                let differ = differences(&bad, &good);
                assert!((1..=5).contains(&differ), "{}: {differ} fields differ", entry.file);
            }
        }
    }
    for entry in std::fs::read_dir(testdata("events")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(name.as_str()), "{name} is not in events.json");
    }
}

fn rule_ids_exist(ids: &[String]) -> bool {
    ids.iter().all(|id| rule::Rule::named(id).is_some())
}

/// Top-level fields that differ.
fn differences(one: &Value, two: &Value) -> usize {
    let (Some(one), Some(two)) = (one.as_object(), two.as_object()) else { return 1 };
    let keys: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
    // The context and the time may change together with the intended detail.
    keys.into_iter().filter(|key| one.get(*key) != two.get(*key)).count().max(1)
}

#[test]
fn the_examples_of_chapter_4_pass_compat_unchanged_and_strict_with_hints() {
    let mut count = 0;
    for entry in std::fs::read_dir(testdata("chapter4")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let errors = |text: &str, profile| ids(&check_text(text, profile), Severity::Error);
        assert_eq!(errors(&text, Profile::Compat), Vec::<&str>::new(), "{}", path.display());
        assert_eq!(errors(&text, Profile::Strict), ["localization.missing"], "{}", path.display());
        let mut event: Value = serde_json::from_str(&text).unwrap();
        event["localization_hints"] = serde_json::json!({"primary_language": "en-US"});
        assert_eq!(
            ids(&check_text(&event.to_string(), Profile::Strict), Severity::Warning),
            Vec::<&str>::new()
        );
        count += 1;
    }
    assert_eq!(count, 13);
}

#[test]
fn valid_events_round_trip() {
    for entry in manifest("events.json").into_iter().filter(|entry| entry.strict.is_empty()) {
        let text = read(&format!("events/{}", entry.file));
        let event = Event::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", entry.file));
        let written = event.to_json();
        let (before, after): (Value, Value) =
            (serde_json::from_str(&text).unwrap(), serde_json::from_str(&written).unwrap());
        let mut before = before;
        if event.kind().is_some() {
            before["type"] = event.type_name().into();
        }
        if before["duration_ms"].is_f64() {
            before["duration_ms"] = 27_579.into();
        }
        assert_eq!(before, after, "{}", entry.file);
        assert_eq!(Event::parse(&written).unwrap(), event);
        assert!(matches!(Message::parse(&text).unwrap(), Message::Event(_)));
        assert_eq!(check_event(&event, Profile::Strict).len(), check_text(&text, Profile::Strict).len());
    }
}

#[test]
fn a_text_that_is_no_event_is_refused_with_its_position() {
    let text = read("events/good.progress.updated.full.json");
    let wrong = text.replace("60.5", "\"sixty\"");
    let error = Event::parse(&wrong).unwrap_err();
    assert_eq!(error.path, "progress.percent", "{error}");
    assert_eq!(error.place.line, 1);
    let wrong = text.replace("evt_", "ev_");
    assert_eq!(Event::parse(&wrong).unwrap_err().path, "event_id");
    let error = Event::parse("[]").unwrap_err();
    assert_eq!(error.reason, "an array where an event is expected");
}

#[test]
fn findings_are_sorted_by_step_and_point_at_the_value() {
    let text = read("events/good.state.changed.full.json")
        .replace("\"from_state\":\"idle\",", "")
        .replace("sess_", "session_")
        .replace("\"urgency\"", "\n \"urgently\"");
    let findings = check_text(&text, Profile::Strict);
    let ids: Vec<&str> = findings.iter().map(|finding| finding.rule.id).collect();
    assert_eq!(ids, ["payload.required", "envelope.session_id", "envelope.field_unknown"]);
    assert_eq!(
        (findings[2].place.line, findings[2].place.column, findings[2].path.as_str()),
        (2, 3, "urgently")
    );
    assert_eq!(findings[0].event_id.as_deref(), Some("evt_00000000000000000000000000abc001"));
    assert!(findings[0].to_string().starts_with("error payload.required: `from_state` is missing"));
}

#[test]
fn every_rule_has_texts_and_a_unique_id() {
    let ids: BTreeSet<&str> = rule::ALL.iter().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), rule::ALL.len());
    for rule in rule::ALL {
        assert!(rule.statement.ends_with('.') && rule.remedy.ends_with('.'), "{}", rule.id);
        assert!(rule.strict >= rule.compat, "{}: compat is never graver than strict", rule.id);
        assert!(rule.strict.is_some() && rule.id.contains('.') && !rule.cites.is_empty(), "{}", rule.id);
    }
}

/// `RECOUNT_BLESS=1` writes the page. `RULES.md` is a link to `docs/aaep/rules.md`, and a file in
/// the package.
#[test]
fn the_page_of_rules_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("RULES.md");
    let page = rule::page();
    if std::env::var_os("RECOUNT_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), page, "bless docs/aaep/rules.md");
}
