//! Tests of the messages for models, and agreement with a complete JSON Schema validator.

use super::*;
use crate::tools::Tools;
use proptest::prelude::*;
use serde_json::json;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1, "maxLength": 5 },
            "limit": { "type": "integer", "minimum": 1, "maximum": 10 },
            "all": { "type": "boolean" },
            "mode": { "type": "string", "enum": ["fast", "slow"] },
            "edits": {
                "type": "array", "minItems": 1, "maxItems": 2,
                "items": {
                    "type": "object",
                    "properties": { "old_text": { "type": "string" } },
                    "required": ["old_text"],
                    "additionalProperties": false
                }
            }
        },
        "required": ["path"],
        "additionalProperties": false
    })
}

#[test]
fn a_violation_is_reported_with_the_expected_value() {
    for (input, message) in [
        (json!(null), "the input is null; it must be an object"),
        (json!({}), "the property `path` (a string) is missing"),
        (json!({ "path": 7 }), "`path` is the number 7; it must be a string"),
        (json!({ "path": "" }), "`path` has 0 characters; it must have at least 1"),
        (json!({ "path": "äöüßéé" }), "`path` has 6 characters; it must have at most 5"),
        (json!({ "path": "a", "limit": 0 }), "`limit` is 0; it must be at least 1"),
        (json!({ "path": "a", "limit": 11 }), "`limit` is 11; it must be at most 10"),
        (json!({ "path": "a", "limit": 1.5 }), "`limit` is the number 1.5; it must be an integer"),
        (json!({ "path": "a", "limit": "1" }), "`limit` is a string; it must be an integer"),
        (
            json!({ "path": "a", "Limits": 1 }),
            "the input has the unknown property `Limits`; did you mean `limit`? (known: `all`, `edits`, `limit`, `mode`, `path`)",
        ),
        (
            json!({ "path": "a", "mode": "fats" }),
            "`mode` is \"fats\"; it must be one of \"fast\", \"slow\"; did you mean \"fast\"?",
        ),
        (json!({ "path": "a", "edits": [] }), "`edits` has 0 items; it must have at least 1"),
        (
            json!({ "path": "a", "edits": [{}] }),
            "the property `old_text` (a string) is missing in `edits[0]`",
        ),
        (
            json!({ "path": "a", "edits": [{ "old_text": "" }, { "old_text": [] }] }),
            "`edits[1].old_text` is an array; it must be a string",
        ),
    ] {
        assert_eq!(check(&schema(), &input).unwrap_err().to_string(), message);
    }
    for input in [json!({ "path": "a" }), json!({ "path": "a", "limit": 10.0, "all": false, "mode": "slow" })]
    {
        assert_eq!(check(&schema(), &input), Ok(()));
    }
}

#[test]
fn the_nearest_name_is_similar() {
    let names = ["read_file", "write_file", "grep"];
    for (given, near) in [
        ("readfile", Some("read_file")),
        ("Write-File", Some("write_file")),
        ("grap", Some("grep")),
        ("ls", None),
        ("", None),
    ] {
        assert_eq!(nearest(given, names.into_iter()), near, "{given}");
    }
}

/// Every tool schema uses only supported keywords and is closed, except for the package of a handoff.
#[test]
fn tool_schemas_use_only_supported_keywords() {
    fn look(name: &str, schema: &Value) {
        let words = schema.as_object().unwrap();
        for word in words.keys() {
            assert!(KEYWORDS.contains(&word.as_str()), "{name}: {word}");
        }
        assert!(schema["type"].is_string(), "{name}");
        if schema["type"] == "object" {
            // The package of a handoff has what the recipient needs.
            assert_eq!(schema["additionalProperties"], name == "hand_off.data", "{name}");
            for (property, schema) in schema["properties"].as_object().unwrap() {
                look(&format!("{name}.{property}"), schema);
            }
        }
        if let Some(items) = schema.get("items") {
            look(name, items);
        }
    }
    let mut tools = Tools::standard();
    crate::web::Web::default().add_to(&mut tools);
    for name in tools.names() {
        let schema = tools.get(name).unwrap().schema();
        jsonschema::meta::validate(&schema).unwrap();
        look(name, &schema);
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..15).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-4.0_f64..14.0).prop_map(Value::from),
        Just(json!(3.0)),
        "[aä]{0,7}".prop_map(Value::from),
        prop_oneof!["fast", "slow"].prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let names = prop_oneof![
            3 => prop_oneof!["path", "limit", "all", "mode", "edits", "old_text"],
            1 => "[a-z]{1,3}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn results_agree_with_a_complete_validator(input in json_value(), path in "[aä]{0,7}", near in any::<bool>()) {
        let mut input = input;
        // Half of them are almost valid.
        if near {
            if !input.is_object() {
                input = json!({ "limit": input });
            }
            input["path"] = json!(path);
        }
        let schema = schema();
        let expected = jsonschema::validator_for(&schema).unwrap().is_valid(&input);
        prop_assert_eq!(check(&schema, &input).is_ok(), expected, "{}", input);
    }
}
