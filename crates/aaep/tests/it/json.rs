//! Tests of the JSON parser: each error has its name, line, column and path.

use proptest::prelude::*;
use recount_aaep::json::{Fault, Node, Reader, Sort, big_integer};

fn fault(text: &str) -> (Fault, usize, usize, String) {
    let mut reader = Reader::new();
    let error = match reader.read(text) {
        Err(error) => error,
        Ok(_) => panic!("read {text:?}"),
    };
    (error.fault, error.place.line, error.place.column, error.path)
}

#[test]
fn each_json_error_has_its_position() {
    let cases: &[(&str, Fault, usize, usize, &str)] = &[
        ("", Fault::Empty, 1, 1, ""),
        (" \n ", Fault::Empty, 1, 1, ""),
        ("\u{feff}{}", Fault::ByteOrderMark, 1, 1, ""),
        ("{\"a\":1,\n \"a\":2}", Fault::DuplicateKey("a".into()), 2, 2, "a"),
        ("{\"a\":{\"b\":1,\"\\u0062\":2}}", Fault::DuplicateKey("b".into()), 1, 13, "a.\\u0062"),
        ("{\"a\":NaN}", Fault::NotANumber("NaN"), 1, 6, "a"),
        ("{\"a\":-Infinity}", Fault::NotANumber("-Infinity"), 1, 6, "a"),
        ("[1,{\"x\":\"é\\ud800\"}]", Fault::LoneSurrogate(0xD800), 1, 11, "[1].x"),
        ("\"\\udc00\"", Fault::LoneSurrogate(0xDC00), 1, 2, ""),
        ("\"\\ud800\\u0041\"", Fault::LoneSurrogate(0xD800), 1, 2, ""),
        ("{\"a\":\"cut", Fault::Truncated, 1, 10, "a"),
        ("{\"a\":\"cut \\ud83d", Fault::Truncated, 1, 17, "a"),
        ("{\"a\":tr", Fault::Truncated, 1, 8, "a"),
        ("{\"a\":1", Fault::Truncated, 1, 7, ""),
        ("{\"a\":-", Fault::Truncated, 1, 7, "a"),
        ("{\"a\":1,}", Fault::TrailingComma('}'), 1, 7, ""),
        ("[1,]", Fault::TrailingComma(']'), 1, 3, ""),
        ("{a:1}", Fault::Unexpected('a', "a key in quotes"), 1, 2, ""),
        ("{'a':1}", Fault::Unexpected('\'', "a key in quotes"), 1, 2, ""),
        ("{\"a\" 1}", Fault::Unexpected('1', "`:`"), 1, 6, "a"),
        ("// no\n{}", Fault::Comment, 1, 1, ""),
        ("{} {}", Fault::After, 1, 4, ""),
        ("01", Fault::NumberForm, 1, 1, ""),
        ("1.", Fault::Truncated, 1, 1, ""),
        ("[1.]", Fault::NumberForm, 1, 2, ""),
        ("\"a\tb\"", Fault::Control(9), 1, 3, ""),
        ("\"\\x41\"", Fault::Escape, 1, 2, ""),
    ];
    for (text, expected, line, column, path) in cases {
        assert_eq!(fault(text), (expected.clone(), *line, *column, (*path).to_owned()), "{text:?}");
    }
}

#[test]
fn depth_and_encoding_are_bounded() {
    let deep = "[".repeat(200);
    assert_eq!(fault(&deep).0, Fault::TooDeep(recount_aaep::limits::JSON_DEPTH_MAX));
    let mut reader = Reader::new();
    let error = reader.read_bytes(b"{\"a\":\"\xff\"}").err().unwrap();
    assert_eq!((error.fault, error.offset), (Fault::NotUtf8, 6));
    let utf16: Vec<u8> = "{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(reader.read_bytes(&utf16).is_err());
}

#[test]
fn a_duplicate_key_is_found_among_many_keys() {
    let many = |count: usize, last: &str| {
        let keys: Vec<String> = (0..count).map(|at| format!("\"key{at}\":{{\"a\":[1]}}")).collect();
        format!("{{{},{last}:0}}", keys.join(","))
    };
    for count in [1, 31, 32, 33, 34, 100, 200_000] {
        assert!(Reader::new().read(&many(count, "\"other\"")).is_ok(), "{count}");
        for last in ["\"key0\"", "\"\\u006bey0\""] {
            assert_eq!(fault(&many(count, last)).0, Fault::DuplicateKey("key0".into()), "{count} {last}");
        }
    }
}

#[test]
fn values_are_found_at_their_paths() {
    let text = r#"{"a":[1,{"b":"x\ud83d\ude00\n"},true],"c":-2.50e1,"d":9007199254740993}"#;
    let mut reader = Reader::new();
    let doc = reader.read(text).unwrap();
    let b = doc.root().get("a").unwrap().items().nth(1).unwrap().get("b").unwrap();
    assert_eq!(b.str().unwrap(), "x😀\n");
    assert_eq!(b.lengths(), (3, 4));
    assert_eq!(doc.path_at(b.offset()), "a[1].b");
    assert_eq!(doc.root().get("c").unwrap().int(), Some(-25));
    assert_eq!(big_integer(doc).unwrap().raw(), "9007199254740993");
    assert_eq!(doc.depth(), 3);
}

fn same(node: Node<'_>, value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null => node.sort() == Sort::Null,
        serde_json::Value::Bool(bool) => node.bool() == Some(*bool),
        serde_json::Value::Number(number) => node.number() == number.as_f64(),
        serde_json::Value::String(text) => node.str().is_some_and(|found| found == text.as_str()),
        serde_json::Value::Array(values) => {
            node.items().count() == values.len()
                && node.items().zip(values).all(|(node, value)| same(node, value))
        }
        serde_json::Value::Object(map) => {
            node.members().count() == map.len()
                && map.iter().all(|(key, value)| node.get(key).is_some_and(|node| same(node, value)))
        }
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e10..1e10).prop_map(|number: f64| number.into()),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map("[a-c]{0,3}|\\PC{0,4}", inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn written_values_are_parsed_back(value in json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let mut reader = Reader::new();
        let doc = reader.read(&text).unwrap();
        prop_assert!(same(doc.root(), &value));
    }

    #[test]
    fn the_parser_accepts_no_more_than_serde_json(text in "[\\[\\]{}\",:0-9a-e.\\\\u+\\- \n]{0,24}") {
        let mut reader = Reader::new();
        let ours = reader.read(&text).is_ok();
        let theirs = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        // Our parser rejects more (duplicate keys), never less; numbers beyond the range of floats are valid.
        prop_assert!(!ours || theirs || text.contains('e'), "{text:?}");
        prop_assert!(ours || !theirs || text.contains('"'), "{text:?}");
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Err(error) = Reader::new().read_bytes(&bytes) {
            prop_assert!(error.offset <= bytes.len() && !error.to_string().is_empty());
        }
    }
}
