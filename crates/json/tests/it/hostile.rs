//! Texts that were written to break a reader. Every reader of the workspace stands on this one set.

use proptest::prelude::*;
use recount_json::{Fault, Kind, Reason, Scanner, Token, unescape};
use serde_json::Value;

const DEPTH_MAX: usize = 64;

fn read(mut scanner: Scanner<'_>) -> Result<Vec<Token>, Fault> {
    let mut tokens = Vec::new();
    while let Some(token) = scanner.token()? {
        tokens.push(token);
    }
    assert_eq!((scanner.depth(), scanner.token()), (0, Ok(None)), "the end stays the end");
    Ok(tokens)
}

fn strict(text: &str) -> Result<Vec<Token>, Fault> {
    read(Scanner::strict(text, DEPTH_MAX))
}

#[track_caller]
fn refused(text: &str, reason: Reason, at: usize) {
    let fault = strict(text).expect_err(text);
    assert_eq!((fault.reason, fault.at), (reason, at), "{text:?}");
    assert!(fault.start <= fault.at && !fault.reason.to_string().is_empty());
}

/// The text without white space, put together from its tokens.
fn tight(text: &str, tokens: &[Token]) -> String {
    let mut out = String::new();
    for token in tokens {
        out.extend(token.sign);
        out.push_str(&text[token.start..token.end]);
    }
    out
}

/// A text that has everything, in ASCII and beyond.
const EVERYTHING: &str = "{\"a\":[1,-0,2.50e-1,1E+2],\"é\\ud83d\\ude00\\n\":{\"\":null,\"b\":[true,false,{},[]]},\"😀\":\"x\\/\\u00e9\"}";

#[test]
fn each_fault_is_named_where_it_is() {
    let cases: &[(&str, Reason, usize)] = &[
        ("", Reason::End, 0),
        (" \n", Reason::End, 2),
        ("[1,", Reason::End, 3),
        ("{\"a\":", Reason::End, 5),
        ("{\"a\" 1}", Reason::Colon, 5),
        ("{\"a\"", Reason::Colon, 4),
        ("\"a\tb\"", Reason::Control, 2),
        ("\"12345678\u{0}\"", Reason::Control, 9),
        ("-", Reason::Digit, 1),
        ("-a", Reason::Digit, 1),
        ("1.", Reason::Digit, 2),
        ("[1.]", Reason::Digit, 3),
        ("1e+", Reason::Digit, 3),
        ("01", Reason::LeadingZero, 1),
        ("-00", Reason::LeadingZero, 2),
        (r#""\x41""#, Reason::Escape, 1),
        (r#""\"#, Reason::Escape, 1),
        (r#""\u12g4""#, Reason::HexDigits, 1),
        (r#""\u00é""#, Reason::HexDigits, 1),
        (r#""\u12"#, Reason::HexDigits, 1),
        ("{", Reason::Key, 1),
        ("{a:1}", Reason::Key, 1),
        ("{\"a\":1,}", Reason::Key, 7),
        ("{,}", Reason::Key, 1),
        ("[1 2]", Reason::NextItem, 3),
        ("[1}", Reason::NextItem, 2),
        ("[1", Reason::NextItem, 2),
        ("{\"a\":1]", Reason::NextMember, 6),
        ("{\"a\":1", Reason::NextMember, 6),
        ("{} {}", Reason::Rest, 3),
        ("nullx", Reason::Rest, 4),
        ("{}\u{0}", Reason::Rest, 2),
        ("\"", Reason::Unterminated, 1),
        ("{\"a", Reason::Unterminated, 3),
        ("tru", Reason::Value, 0),
        ("[1,]", Reason::Value, 3),
        ("[,1]", Reason::Value, 1),
        ("NaN", Reason::Value, 0),
        ("+1", Reason::Value, 0),
        ("'a'", Reason::Value, 0),
        ("// a", Reason::Value, 0),
        ("\u{feff}{}", Reason::Value, 0),
        ("[\u{a0}1]", Reason::Value, 1),
    ];
    for (text, reason, at) in cases {
        refused(text, *reason, *at);
    }
}

#[test]
fn a_lone_surrogate_is_refused_wherever_it_hides() {
    for text in
        [r#""\ud800""#, r#""\udc00""#, r#""\ud800\ud800""#, r#""\ud800x""#, r#""\uDBFF\n""#, r#""\ud800\u00"#]
    {
        refused(text, Reason::Surrogate, 1);
        let read = read(Scanner::trusting(text));
        assert!(read.is_ok() || text.ends_with("00"), "one that was let in before is read: {text}");
    }
    refused(r#"{"\udbff":1}"#, Reason::Surrogate, 2);
    assert_eq!(unescape(r"a\ud800\udc00\ud800b\udc00"), "a\u{10000}\u{fffd}b\u{fffd}");
}

#[test]
fn a_key_that_comes_twice_is_found_however_it_is_written() {
    for (one, two) in [("a", r"\u0061"), ("é", r"\u00E9"), ("😀", r"\uD83D\uDE00"), ("/", r"\/"), ("", "")]
    {
        for (first, second) in [(one, two), (two, one), (one, one)] {
            let text = format!("[{{\"b\":{{\"{first}\":1,\"c\":{{\"{first}\":0}},\"{second}\":2}}}}]");
            let fault = strict(&text).expect_err(&text);
            let Reason::DuplicateKey { end } = fault.reason else { panic!("{text}: {fault:?}") };
            assert_eq!(&text[fault.at..end], format!("\"{second}\""));
            assert!(read(Scanner::trusting(&text)).is_ok());
        }
    }
    for count in [1, 31, 32, 33, 34, 100, 100_000] {
        let keys: Vec<String> = (0..count).map(|at| format!("\"key{at}\":{{\"key0\":[1]}}")).collect();
        let keys = keys.join(",");
        assert!(strict(&format!("{{{keys},\"other\":0}}")).is_ok(), "{count}");
        for last in [r"key0", r"\u006bey0"] {
            assert!(strict(&format!("{{{keys},\"{last}\":0}}")).is_err(), "{count} {last}");
        }
    }
}

#[test]
fn nesting_ends_at_the_limit_and_never_overflows_the_stack() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let inside = if open == "[" { "" } else { "0" };
        let nested = |levels: usize| format!("{}{inside}{}", open.repeat(levels), close.repeat(levels));
        assert!(strict(&nested(DEPTH_MAX)).is_ok(), "{open}");
        for text in [nested(DEPTH_MAX + 1), nested(1_000_000), open.repeat(1_000_000)] {
            let fault = strict(&text).expect_err("too deep");
            assert_eq!(fault.reason, Reason::TooDeep(DEPTH_MAX));
            assert_eq!(fault.at, open.len() * DEPTH_MAX);
        }
        assert!(read(Scanner::trusting(&nested(1_000_000))).is_ok(), "a trusted one costs memory only");
    }
}

#[test]
fn a_text_that_was_cut_off_is_refused_at_every_byte() {
    assert!(strict(EVERYTHING).is_ok());
    for end in (0..EVERYTHING.len()).filter(|end| EVERYTHING.is_char_boundary(*end)) {
        let cut = &EVERYTHING[..end];
        assert!(strict(cut).is_err_and(|fault| fault.at <= end), "{cut}");
        assert!(read(Scanner::trusting(cut)).is_err(), "{cut}");
    }
}

#[test]
fn a_huge_string_and_a_huge_number_are_one_token() {
    for unit in ["x", "é", r"\n", r"\ud83d\ude00"] {
        for padding in 0..9 {
            let text = format!("\"{}{}\"", "y".repeat(padding), unit.repeat(1 << 20));
            let tokens = strict(&text).unwrap();
            assert_eq!((tokens.len(), tokens[0].end), (1, text.len()));
            assert_eq!((tokens[0].is_escaped, tokens[0].is_ascii), (unit.starts_with('\\'), unit != "é"));
            refused(&text[..text.len() - 1], Reason::Unterminated, text.len() - 1);
        }
    }
    let digits = "9".repeat(1 << 20);
    assert_eq!(strict(&digits).unwrap()[0].kind, Kind::Integer);
    assert_eq!(strict(&format!("0.{digits}")).unwrap()[0].kind, Kind::Real);
}

#[test]
fn a_value_is_passed_as_a_whole() {
    let text = " [ {\"a\" : [1,{}], \"b\": \"]\" } , 2 ]";
    let mut scanner = Scanner::strict(text, DEPTH_MAX);
    assert_eq!(scanner.token().unwrap().unwrap().kind, Kind::ArrayStart);
    assert_eq!(&text[scanner.skip().unwrap()], "{\"a\" : [1,{}], \"b\": \"]\" }");
    assert_eq!(&text[scanner.skip().unwrap()], "2");
    assert_eq!(scanner.token().unwrap().unwrap().kind, Kind::ArrayEnd);
    assert_eq!(scanner.token(), Ok(None));
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 48, 40, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map("[a-c]{0,3}|\\PC{0,4}", inner, 0..40)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn almost_json() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        prop::collection::vec(any::<u8>(), 0..64)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        "[\\[\\]{}:,\"\\\\u0-9a-fdDeE+.\\- tnrl\u{0}-\u{20}é😀]{0,40}",
        (json(), any::<prop::sample::Index>(), any::<char>()).prop_map(|(value, place, other)| {
            let mut text: Vec<char> = value.to_string().chars().collect();
            let place = place.index(text.len());
            text[place] = other;
            text.into_iter().collect()
        }),
    ]
}

proptest! {
    #[test]
    fn what_serde_json_writes_is_read_token_for_token(value in json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let tokens = strict(&text).unwrap();
        prop_assert_eq!(tight(&text, &tokens), value.to_string());
        prop_assert_eq!(tokens, read(Scanner::trusting(&text)).unwrap());
    }

    #[test]
    fn a_string_says_what_serde_json_reads(text in any::<String>(), plain in any::<bool>()) {
        let written = if plain {
            serde_json::to_string(&text).unwrap()
        } else {
            let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
            format!("\"{units}\"")
        };
        let token = strict(&written).unwrap()[0];
        prop_assert_eq!(unescape(&written[token.inside()]), text);
    }

    #[test]
    fn nothing_is_read_that_serde_json_refuses(text in almost_json()) {
        let theirs = serde_json::from_str::<Value>(&text);
        match strict(&text) {
            Ok(tokens) => {
                let tight = tight(&text, &tokens);
                prop_assert_eq!(strict(&tight).map(|tokens| tokens.len()), Ok(tokens.len()));
                match theirs {
                    Ok(theirs) => prop_assert_eq!(serde_json::from_str::<Value>(&tight).unwrap(), theirs),
                    // A number that no float can hold is no fault of the form.
                    Err(why) => prop_assert!(why.to_string().contains("number out of range"), "{text:?}: {why}"),
                }
            }
            Err(fault) => {
                prop_assert!(fault.at <= text.len() && text.is_char_boundary(fault.at), "{text:?}: {fault:?}");
                let stated = matches!(fault.reason, Reason::DuplicateKey { .. } | Reason::TooDeep(_));
                prop_assert!(stated || theirs.is_err(), "{text:?}: {fault:?}");
            }
        }
    }
}
