//! The JSON examples of the protocol's first draft: each is used unchanged.

use recount_event::codec::{decode, encode};
use recount_event::{Payload, door, registry};
use serde_json::Value;

use crate::blessed;
use crate::schemas;

const FOLDER: &str = "testdata/rfc";

/// The example of a kept thing, which is no event.
const RESOURCE: &str = "resource-artifact.json";

/// The example of a whole envelope, its shortened ids written out.
const ENVELOPE: &str = "envelope.json";

/// File name, type and the text of `data`.
pub(crate) fn payloads() -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for file in blessed::files(FOLDER, ".json") {
        if [RESOURCE, ENVELOPE].contains(&file.as_str()) {
            continue;
        }
        let text = door::compact(&blessed::read(&format!("{FOLDER}/{file}"))).unwrap();
        let data = text.split_once(",\"data\":").expect("type, then data").1;
        let data = data.strip_suffix('}').expect("data stands last").to_owned();
        let type_name = serde_json::from_str::<Value>(&text).unwrap()["type"].as_str().unwrap().to_owned();
        found.push((file, type_name, data));
    }
    found
}

#[test]
fn all_examples_are_here() {
    assert_eq!(payloads().len(), 49);
    door::compact(&blessed::read(&format!("{FOLDER}/{RESOURCE}"))).unwrap();
}

#[test]
fn each_is_read_as_its_type_and_keeps_every_field_and_value() {
    for (file, type_name, data) in payloads() {
        assert!(registry::row(&type_name).is_some(), "{file}: {type_name} is not registered");
        let draft = door::draft(&type_name, &data).unwrap_or_else(|why| panic!("{file}: {why}"));
        assert!(!matches!(draft.payload, Payload::Opaque(_)), "{file}");
        let given: Value = serde_json::from_str(&data).unwrap();
        let kept: Value = serde_json::from_str(&draft.payload.write()).unwrap();
        assert_eq!(kept, given, "{file}");
    }
}

#[test]
fn each_fits_its_schema() {
    for (file, type_name, data) in payloads() {
        schemas::assert_data(&file, &type_name, &serde_json::from_str(&data).unwrap());
    }
}

#[test]
fn the_envelope_is_taken_and_given_back() {
    let text = door::compact(&blessed::read(&format!("{FOLDER}/{ENVELOPE}"))).unwrap();
    let event = decode(text.as_bytes()).unwrap();
    assert_eq!(event.sequence, 42);
    assert_eq!(String::from_utf8(encode(&event)).unwrap(), text);
    schemas::assert_event(ENVELOPE, &text);
}
