//! Everything that is committed as an event fits the committed schemas.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use recount_event::{registry, schema};
use serde_json::Value;

use crate::{blessed, fixtures};

fn compiled(name: &str, text: &str) -> Validator {
    let schema: Value = serde_json::from_str(text).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap_or_else(|why| panic!("{name}: {why}"));
    jsonschema::draft202012::new(&schema).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// By file name without `.schema.json`.
static VALIDATORS: LazyLock<BTreeMap<String, Validator>> = LazyLock::new(|| {
    let ready = |file: schema::SchemaFile| {
        let name = file.name.trim_end_matches(".schema.json").to_owned();
        let validator = compiled(&name, &file.text);
        (name, validator)
    };
    schema::files().into_iter().map(ready).collect()
});

pub(crate) fn of(name: &str) -> &'static Validator {
    VALIDATORS.get(name).unwrap_or_else(|| panic!("there is no schema of {name}"))
}

#[track_caller]
pub(crate) fn assert_data(from: &str, type_name: &str, data: &Value) {
    if registry::row(type_name).is_none() {
        return;
    }
    let wrong: Vec<String> = of(type_name)
        .iter_errors(data)
        .map(|one| format!("{} at {:?}", one, one.instance_path().to_string()))
        .collect();
    assert!(wrong.is_empty(), "{from}: {}", wrong.join("; "));
}

#[track_caller]
pub(crate) fn assert_event(from: &str, text: &str) {
    let event: Value = serde_json::from_str(text).unwrap_or_else(|why| panic!("{from}: {why}"));
    let wrong: Vec<String> = of("envelope").iter_errors(&event).map(|one| one.to_string()).collect();
    assert!(wrong.is_empty(), "{from}: {}", wrong.join("; "));
    assert_data(from, event["type"].as_str().unwrap(), &event["data"]);
}

#[test]
fn every_fixture_fits() {
    for (name, stored) in fixtures::all() {
        assert_event(&name, &stored);
    }
}

#[test]
fn every_event_of_every_story_fits() {
    for file in blessed::files("testdata/runs", ".jsonl") {
        for (index, line) in blessed::read(&format!("testdata/runs/{file}")).lines().enumerate() {
            assert_event(&format!("{file}:{}", index + 1), line);
        }
    }
}

#[test]
fn the_envelope_schema_refuses_what_the_decoder_refuses() {
    let good = fixtures::all().into_iter().find(|(name, _)| name == "tool.invoked").unwrap().1;
    let both = |text: &str| {
        let event: Value = serde_json::from_str(text).unwrap();
        let decoded = recount_event::codec::decode(text.as_bytes());
        assert_eq!(of("envelope").is_valid(&event), decoded.is_ok(), "{text}: {decoded:?}");
        decoded.is_ok()
    };
    assert!(both(&good));
    let run_id = good.split("\"run_id\":\"").nth(1).unwrap().split('"').next().unwrap();
    for (from, to) in [
        ("\"schema_version\":\"1\"", "\"schema_version\":\"2\""),
        ("\"schema_version\":\"1\"", "\"schema_version\":1"),
        ("\"schema_version\":\"1\",", ""),
        ("\"evt_", "\"run_"),
        (run_id, "run_1"),
        (run_id, &run_id.to_lowercase()),
        (run_id, "run_8ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
        ("\"sequence\":", "\"sequence\":-"),
        ("\"sequence\":", "\"sequence\":0."),
        ("\"sequence\":", "\"place\":"),
        ("\"task_id\":\"task_", "\"task_id\":\"chat_"),
        ("\"occurred_at\":\"2026-", "\"occurred_at\":\"26-"),
        (".822Z", ".50Z"),
        (".822Z", ".822000Z"),
        (".822Z", "Z"),
        (".822Z", ".822+00:00"),
        ("\"type\":\"tool.invoked\"", "\"type\":\"Tool.Invoked\""),
        ("\"type\":\"tool.invoked\"", "\"type\":\"tool\""),
        ("\"type\":\"tool.invoked\"", "\"type\":\"tool..invoked\""),
        ("\"type\":\"tool.invoked\"", "\"type\":null"),
        ("\"data\":{", "\"dada\":{"),
    ] {
        let edited = good.replacen(from, to, 1);
        assert_ne!(edited, good, "{from} is there");
        assert!(!both(&edited), "{from} to {to}");
    }
    for (from, to) in [
        ("\"type\":\"tool.invoked\"", "\"type\":\"tool.invoked_again\""),
        ("\"data\":{", "\"later\":[1],\"data\":{"),
    ] {
        assert!(both(&good.replacen(from, to, 1)), "{from} to {to}");
    }
}
