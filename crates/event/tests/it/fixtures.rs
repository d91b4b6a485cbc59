//! One stored event a type, never edited: what was written once must be read for ever. What came to a type later
//! has a further fixture, `<type>+<what came>.json`.

use std::collections::{BTreeMap, BTreeSet};

use recount_event::codec::{decode, encode};
use recount_event::{Payload, registry};

use crate::blessed;

const FOLDER: &str = "testdata/events";
const HASHES: &str = "testdata/events/.hashes";

/// Fixtures of no registered type: an extension, a type of a later release, and an envelope
/// with fields of a later release.
const OTHERS: [&str; 3] = ["ext.acme.deploy_started", "unknown-envelope-field", "unknown-type"];

/// The type that a fixture is an example of.
fn type_of(name: &str) -> &str {
    name.split_once('+').map_or(name, |(type_name, _)| type_name)
}

/// Name without ending, and the stored bytes without the newline.
pub(crate) fn all() -> Vec<(String, String)> {
    let read = |file: String| {
        let text = blessed::read(&format!("{FOLDER}/{file}"));
        let bytes = text.strip_suffix('\n').filter(|line| !line.contains('\n'));
        let bytes = bytes.unwrap_or_else(|| panic!("{file} is one line with a newline")).to_owned();
        (file.trim_end_matches(".json").to_owned(), bytes)
    };
    blessed::files(FOLDER, ".json").into_iter().map(read).collect()
}

#[test]
fn every_type_has_a_fixture_and_no_fixture_is_dead() {
    let names: Vec<String> = all().into_iter().map(|(name, _)| name).collect();
    for row in registry::TABLE {
        assert!(names.iter().any(|name| name == row.type_name), "{FOLDER}/{}.json is missing", row.type_name);
    }
    for name in &names {
        let known = registry::row(type_of(name)).is_some() || OTHERS.contains(&name.as_str());
        assert!(known, "{FOLDER}/{name}.json stands for no type");
    }
    for name in OTHERS {
        assert!(names.iter().any(|there| there == name), "{FOLDER}/{name}.json is missing");
    }
}

#[test]
fn read_and_written_again_they_are_the_same_bytes() {
    for (name, stored) in all() {
        let event = decode(stored.as_bytes()).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(String::from_utf8(encode(&event)).unwrap(), stored, "{name}");
        if registry::row(type_of(&name)).is_some() {
            assert_eq!(event.type_name(), type_of(&name));
        } else {
            let opaque = matches!(event.payload(), Payload::Opaque(_));
            assert_eq!(opaque, name != "unknown-envelope-field", "{name}");
        }
    }
}

#[test]
fn what_is_written_from_the_payload_reads_as_the_same_payload() {
    for (name, stored) in all() {
        let event = decode(stored.as_bytes()).unwrap();
        let payload = event.payload();
        let again = Payload::read(payload.type_name(), &payload.write());
        assert_eq!(again.as_ref(), Ok(payload), "{name}");
    }
}

/// Whether a field may be missing from the fixture: it belongs to another use of the same struct.
fn belongs_elsewhere(type_name: &str, path: &str) -> bool {
    match type_name {
        // Fixtures are not edited: `traceparent` came after this one, and has a test of the native face.
        "run.queued" => ["action", "traceparent"].contains(&path),
        // Likewise; they are in the story `testdata/runs/artifacts.jsonl`.
        "artifact.created" => [
            "name",
            "truncated",
            "masked",
            "original_size_bytes",
            "path",
            "base_revision",
            "additions",
            "deletions",
            "hunks",
        ]
        .contains(&path),
        "tool.http.requested" | "tool.web_fetch.requested" => path == "query",
        "tool.web_search.requested" => ["method", "url", "header_keys"].contains(&path),
        "tool.http.response" => ["extracted_text_artifact_id", "hits", "error"].contains(&path),
        "tool.web_fetch.response" => ["hits", "error"].contains(&path),
        "tool.web_search.response" => {
            ["status", "body_artifact_id", "body_truncated", "extracted_text_artifact_id"].contains(&path)
        }
        "tool.completed" => {
            ["error", "code", "mcp_server", "mcp_tool", "result", "output_incomplete"].contains(&path)
        }
        "tool.failed" => path == "result_artifact_id",
        "tool.timed_out" if path == "output_incomplete" => true,
        "tool.cancelled" | "tool.timed_out" => {
            ["error", "result_artifact_id", "mcp_server", "mcp_tool", "result"].contains(&path)
        }
        "tool.invoked" => path.starts_with("mcp_"),
        _ => false,
    }
}

#[test]
fn a_fixture_uses_every_field_of_its_type_and_no_other() {
    let mut all_used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, stored) in all() {
        let event: serde_json::Value = serde_json::from_str(&stored).unwrap();
        let used = event["data"].as_object().unwrap().keys().cloned();
        all_used.entry(type_of(&name).to_owned()).or_default().extend(used);
    }
    for (name, used) in all_used {
        let Some(row) = registry::row(&name) else { continue };
        let fields: Vec<String> = registry::form::fields(row).into_iter().map(|field| field.path).collect();
        for path in fields.iter().filter(|path| !path.contains(['.', '['])) {
            assert!(used.contains(path) || belongs_elsewhere(&name, path), "{name}: {path} is in no fixture");
        }
        for used in used {
            assert!(fields.contains(&used), "{name}: {used} is no field");
        }
    }
}

/// A fixture may be added; none may be edited or taken away, not even when blessing.
#[test]
fn no_fixture_was_ever_edited() {
    let hash = |bytes: &str| blake3::hash(format!("{bytes}\n").as_bytes()).to_hex().to_string();
    let there: BTreeMap<String, String> =
        all().into_iter().map(|(name, bytes)| (format!("{name}.json"), hash(&bytes))).collect();
    let text = std::fs::read_to_string(blessed::root().join(HASHES)).unwrap_or_default();
    for line in text.lines() {
        let (hash, file) = line.split_once("  ").unwrap_or_else(|| panic!("{HASHES}: {line}"));
        let now = there.get(file).unwrap_or_else(|| panic!("{file} was taken away: put it back"));
        assert_eq!(now, hash, "{file} was edited: put it back, and add another for what is new");
    }
    let frozen: String = there.iter().map(|(file, hash)| format!("{hash}  {file}\n")).collect();
    blessed::check(HASHES, &frozen);
}
