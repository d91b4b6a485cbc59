//! What the door lets through, and that it changes nothing but white space.

use proptest::prelude::*;
use recount_event::door::compact;
use recount_event::{Json, Payload, limits};
use serde_json::Value;

use crate::json_text;

#[track_caller]
fn refused(text: &str, reason: &str) {
    match compact(text) {
        Ok(out) => panic!("{text:?} became {out:?}"),
        Err(why) => assert!(why.reason.contains(reason), "{text:?}: {why}"),
    }
}

#[test]
fn what_is_refused() {
    let twice = "duplicate key";
    refused(r#"{"a":1,"a":2}"#, twice);
    refused(r#"{"a":1,"\u0061":2}"#, twice);
    refused(r#"{"\u00e9":1,"\u00E9":2}"#, twice);
    refused("{\"é\":1,\"\\u00e9\":2}", twice);
    refused("{\"😀\":1,\"\\uD83D\\uDE00\":2}", twice);
    refused(r#"{"/":1,"\/":2}"#, twice);
    refused(r#"{"":1,"":2}"#, twice);
    refused(r#"[{"b":{"a":1,"c":2,"a":1}}]"#, twice);
    let many: String = (0..40).map(|number| format!("\"{number}\":0,")).collect();
    for number in [0, 15, 16, 17, 39] {
        refused(&format!("{{{many}\"{number}\":0}}"), twice);
    }

    let alone = "unpaired surrogate";
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        r#""\ud800x""#,
        r#""\ud800\n""#,
        r#"{"\uDBFF":1}"#,
    ] {
        refused(text, alone);
    }

    let large = "the number is too large";
    for text in
        ["9007199254740992", "-9007199254740992", "99999999999999999999999", "1e400", "-1e400", "[1.0e999]"]
    {
        refused(text, large);
    }
    for text in ["01", "-01", "00"] {
        refused(text, "must not begin with 0");
    }
    for text in ["-", "1.", "1e", "1e+", "-a", "1.e1"] {
        refused(text, "a digit must follow");
    }
    for text in ["+1", ".5", "NaN", "Infinity", "tru", "nul", "'a'", "\u{feff}{}", "// a", ",", "]", "}"] {
        refused(text, "invalid start of a JSON value");
    }
    for text in ["\"\n\"", "\"\t\"", "\"\u{0}\"", "\"\u{1f}\"", "{\"\n\":1}"] {
        refused(text, "a control character must be escaped");
    }
    for text in [r#""\x""#, r#""\'""#, r#""\U0041""#] {
        refused(text, "invalid escape sequence");
    }
    for text in [r#""\u12""#, r#""\u12g4""#, r#""\u+123""#, r#""\u 123""#, r#""\u00é""#] {
        refused(text, "four hex digits");
    }
    for text in ["", " ", "[", "[1,", "{\"a\":"] {
        refused(text, "the text ends where a value is expected");
    }
    for text in ["\"", "\"abc", "\"\\\"", "{\"a"] {
        refused(text, "unterminated string");
    }
    for text in ["{", "{1:2}", "{\"a\":1,}", "{,}", "{a:1}"] {
        refused(text, "a key must be a string");
    }
    for text in ["[1 2]", "[1", "[1}", "[tru]e"] {
        assert!(compact(text).is_err(), "{text}");
    }
    refused("[1,]", "invalid start of a JSON value");
    refused("{\"a\" 1}", "a colon must follow");
    refused("{\"a\":1]", "a comma or the end of the object");
    for text in ["{}{}", "1 2", "nullx", "{} x", "\"a\"\"b\"", "1,", "{}\u{0}"] {
        refused(text, "unexpected characters after the value");
    }
    refused("[\u{a0}1]", "invalid start of a JSON value");
}

/// Near the largest number readers differ by a rounding. What one of ours could not read is refused.
#[test]
fn a_number_at_the_edge_is_read_or_refused() {
    for digits in 0..2000_u64 {
        for text in [
            format!("1.797693134862{:04}e308", 3000 + digits),
            format!("17976931348623{digits:04}00000e287"),
            format!("0.{}1{digits}e{}", "0".repeat(20), 329 - digits % 3),
        ] {
            if compact(&text).is_ok() {
                assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
            }
        }
    }
}

#[test]
fn a_refusal_names_the_place() {
    assert_eq!(compact(r#"{"a":1, "a":2}"#).unwrap_err().at, 8);
    assert_eq!(compact("[1, 1e400]").unwrap_err().at, 4);
    assert_eq!(compact("[1, x]").unwrap_err().at, 4);
    assert_eq!(compact("{} x").unwrap_err().at, 3);
}

#[test]
fn nesting_ends_at_the_limit_and_never_overflows_the_stack() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |levels: usize| {
            let inside = if open == "[" { "" } else { "0" };
            format!("{}{inside}{}", open.repeat(levels), close.repeat(levels))
        };
        assert!(compact(&nested(limits::JSON_DEPTH_MAX)).is_ok(), "{open}");
        refused(&nested(limits::JSON_DEPTH_MAX + 1), "nested deeper than 64 levels");
        refused(&nested(1_000_000), "nested deeper than 64 levels");
        refused(&open.repeat(1_000_000), "nested deeper than 64 levels");
    }
}

#[test]
fn tokens_stay_as_they_are() {
    let text = r#" { "b" : 1.0 , "a" : [ 1e2 , -0 , 1E+2 , "A\/\u00e9 \t" , "  " ] , "" : null } "#;
    assert_eq!(compact(text).unwrap(), r#"{"b":1.0,"a":[1e2,-0,1E+2,"A\/\u00e9 \t","  "],"":null}"#);
}

/// Raw values rest on how serde_json is built; a feature switched on elsewhere in the tree must not change
/// the order of keys or the text of numbers in what we keep.
#[test]
fn kept_json_is_kept_to_the_letter() {
    let text = r#"{"z":1.0,"a":1e2,"m":{"b":-0,"a":123456789012345678901234567890},"z2":"\u00e9\/"}"#;
    assert_eq!(Json::parse(text).unwrap().text(), text);
    let data = format!(r#"{{"turn_index":0,"tool_call_id":"call_1","tool_name":"t","input":{text}}}"#);
    assert_eq!(Payload::read("assistant.tool_call_proposed", &data).unwrap().write(), data);
    let data = format!(r#"{{"text":"","blocks":[{text},{text}]}}"#);
    assert_eq!(Payload::read("user.message", &data).unwrap().write(), data);
    let data = format!(r#"{{"artifact_id":"a","field":"f","old_value":{text},"new_value":null}}"#);
    assert_eq!(Payload::read("artifact.updated", &data).unwrap().write(), data);
}

proptest! {
    #[test]
    fn compacting_removes_only_whitespace(node in json_text::node(), spaces in json_text::spaces()) {
        let tight = node.tight();
        let spaced = node.spaced(&mut spaces.into_iter().cycle());
        prop_assert_eq!(&compact(&spaced).unwrap(), &tight);
        prop_assert_eq!(&compact(&tight).unwrap(), &tight);
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        prop_assert_eq!(read(&spaced), read(&tight));
    }

    #[test]
    fn a_truncated_text_is_refused(node in json_text::object(), cut in any::<prop::sample::Index>()) {
        let tight = node.tight();
        let mut end = cut.index(tight.len());
        while !tight.is_char_boundary(end) {
            end -= 1;
        }
        prop_assert!(compact(&tight[..end]).is_err());
    }

    #[test]
    fn any_text_is_compacted_or_refused(text in prop_oneof![
        any::<String>(),
        prop::collection::vec(any::<u8>(), 0..64).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        "[\\[\\]{}:,\"\\\\u0-9a-fdDeE+.\\- tnrl\u{0}-\u{20}é😀]{0,40}",
    ]) {
        let theirs = serde_json::from_str::<Value>(&text);
        match compact(&text) {
            Ok(out) => {
                prop_assert_eq!(compact(&out), Ok(out.clone()));
                prop_assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), theirs.unwrap());
            }
            // What serde_json would take we refuse for a stated reason only.
            Err(why) if theirs.is_ok() => {
                let stated = ["duplicate key", "deeper than", "too large"];
                prop_assert!(stated.iter().any(|reason| why.reason.contains(reason)), "{:?}: {}", text, why);
            }
            Err(_) => {}
        }
    }

    #[test]
    fn one_character_changed_never_panics(
        node in json_text::node(),
        place in any::<prop::sample::Index>(),
        other in any::<char>(),
    ) {
        let mut text: Vec<char> = node.tight().chars().collect();
        let place = place.index(text.len());
        text[place] = other;
        let text: String = text.into_iter().collect();
        if let Ok(out) = compact(&text) {
            prop_assert_eq!(compact(&out), Ok(out.clone()));
            prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
        }
    }
}
