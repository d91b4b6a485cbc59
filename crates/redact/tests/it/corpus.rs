//! What must be masked, exactly, and what must not be.

use std::collections::BTreeSet;
use std::sync::Arc;

use recount_redact::{DETECTORS, Redactor, StreamRedactor};

pub(crate) const TRUE: &str = include_str!("../../../../testdata/secrets/true.txt");
pub(crate) const FALSE: &str = include_str!("../../../../testdata/secrets/false.txt");

/// Shape, text, and the text as it must come out.
pub(crate) fn secrets() -> impl Iterator<Item = (&'static str, String, String)> {
    TRUE.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (name, marked) = line.split_once('\t').unwrap();
        let (before, rest) = marked.split_once('⟦').unwrap();
        let (secret, after) = rest.split_once('⟧').unwrap();
        let stars = "*".repeat(secret.len());
        (name, format!("{before}{secret}{after}"), format!("{before}{stars}{after}"))
    })
}

pub(crate) fn innocent() -> impl Iterator<Item = &'static str> {
    FALSE.lines().filter(|line| !line.starts_with('#'))
}

#[test]
fn every_secret_is_masked_and_nothing_beside_it() {
    let redactor = Redactor::shapes();
    let mut wrong = Vec::new();
    for (name, text, masked) in secrets() {
        for (before, after) in [("", ""), ("a line\n", "\nanother"), ("(", ")"), ("größe: ", " ünd")] {
            let text = format!("{before}{text}{after}");
            let masked = format!("{before}{masked}{after}");
            let output = redactor.text(&text);
            if output != masked {
                wrong.push(format!("{name}:\n  {masked}\n  {output}"));
            }
            assert_eq!(redactor.text(&output), output, "masking twice is masking once");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_shape_has_an_example() {
    let shown: BTreeSet<&str> = secrets().map(|(name, ..)| name).collect();
    let all: BTreeSet<&str> = DETECTORS.iter().map(|row| row.name).chain(["card"]).collect();
    assert_eq!(shown, all);
    assert!(DETECTORS.iter().flat_map(|row| row.triggers).all(|trigger| (3..=18).contains(&trigger.len())));
}

#[test]
fn nothing_innocent_is_masked() {
    let redactor = Redactor::shapes();
    let wrong: Vec<String> = innocent()
        .filter(|line| redactor.text(line) != *line)
        .map(|line| format!("{line}\n{}", redactor.text(line)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(redactor.text(FALSE), FALSE, "nor when all of it is one text");
    for page in [
        include_str!("../../../../Cargo.lock"),
        include_str!("../../../../docs/registry.md"),
        include_str!("../../../../docs/grammar.md"),
        include_str!("../../../../docs/performance.md"),
        include_str!("../../../../testdata/events/.hashes"),
        include_str!("../../src/redactor.rs"),
        include_str!("../../src/detector.rs"),
        include_str!("../../src/detector/card.rs"),
    ] {
        assert_eq!(redactor.text(page), page);
    }
}

#[test]
fn the_same_in_json_whatever_way_it_is_written() {
    let redactor = Redactor::shapes();
    for (name, text, masked) in secrets() {
        let plain = serde_json::to_string(&text).unwrap();
        let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let slashed = plain.replace('/', "\\/");
        for token in [plain, slashed, format!("\"{units}\"")] {
            let json = format!(r#"{{"a":[1,{{"b c/d":{token}}}],"e":1.50}}"#);
            let output = redactor.json(&json, None, &|_| false).unwrap_or_else(|| panic!("{name}: {json}"));
            let wanted =
                format!(r#"{{"a":[1,{{"b c/d":{}}}],"e":1.50}}"#, serde_json::to_string(&masked).unwrap());
            assert_eq!((output.text, output.paths), (wanted, vec!["/a/1/b c~1d".to_owned()]), "{name}");
        }
    }
    for line in innocent() {
        let json = serde_json::json!({ "text": line, line: [line] }).to_string();
        assert_eq!(redactor.json(&json, None, &|_| false), None, "{line}");
    }
}

/// The name of a member of JSON makes the whole value a secret, also a word or a phrase.
#[test]
fn a_member_with_the_name_of_a_secret_is_masked_as_a_whole() {
    let redactor = Redactor::shapes();
    for (name, value, is_masked) in [
        ("password", "swordfish", true),
        ("db_password", "two words 2b", true),
        ("userPassword", "a, b1 and 'c'; d", false),
        ("password", "Passwort", false),
        ("password", "Enter your password", false),
        ("password", "${DB_PASSWORD}", false),
        ("password_hint", "swordfish", false),
        ("accessToken", "9f8e7d6c5b4a3928", true),
        ("client_secret", "a1b2c3d4", true),
        ("x-api-key", "a1b2 c3d4", false),
        ("nextPageToken", "9f8e7d6c5b4a3928", false),
        ("secretName", "9f8e7d6c5b4a3928", false),
        ("the password", "swordfish", false),
        ("label", "Token: none", false),
    ] {
        let json = serde_json::json!({ name: value }).to_string();
        let masked = serde_json::json!({ name: "*".repeat(value.len()) }).to_string();
        let output = redactor.json(&json, None, &|_| false).map(|output| output.text);
        assert_eq!(output, is_masked.then_some(masked), "{json}");
    }
    let headers = r#"{"Cookie":"theme=dark; sid=8f14e45fceea167a5a36"}"#;
    let output = redactor.json(headers, None, &|_| false).map(|output| output.text);
    assert_eq!(output.as_deref(), Some(r#"{"Cookie":"theme=dark; sid=********************"}"#));
}

#[test]
fn in_pieces_of_every_size_it_comes_out_the_same() {
    let redactor = Arc::new(Redactor::shapes());
    let all: Vec<(String, String)> = secrets()
        .map(|(_, text, masked)| (text, masked))
        .chain(innocent().map(|line| (line.to_owned(), line.to_owned())))
        .collect();
    for (text, masked) in &all {
        for size in 1..=text.chars().count().min(70) {
            let chars: Vec<char> = text.chars().collect();
            let mut stream = StreamRedactor::new(redactor.clone());
            let mut output: String =
                chars.chunks(size).map(|piece| stream.push(&piece.iter().collect::<String>())).collect();
            output += &stream.finish();
            assert_eq!(&output, masked, "pieces of {size}");
        }
    }
}

/// `RECOUNT_BLESS=1` writes the page again.
#[test]
fn the_page_about_masking_names_every_shape() {
    const BEGIN: &str = "<!-- made from crates/redact; a test compares -->\n";
    const END: &str = "<!-- end of what is made -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/redaction.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    let wanted = recount_redact::describe();
    if std::env::var_os("RECOUNT_BLESS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
    } else {
        assert!(table == wanted, "docs/redaction.md is not as the table is; run with RECOUNT_BLESS=1");
    }
}

/// Nothing but beginnings: each is looked at, and it does not take for ever.
#[test]
fn beginnings_without_end_are_passed_in_one_go() {
    let redactor = Redactor::shapes();
    let triggers = DETECTORS.iter().flat_map(|row| row.triggers.iter().copied());
    for trigger in triggers.chain(["4", "4111 ", "4111111111111111-", "rct_01M7YHX0000000000000000000_"]) {
        for filling in ["", "-", "_", " ", "a1B2", ".", "\\n"] {
            let text = format!("{trigger}{filling}").repeat(10_000 / (trigger.len() + filling.len()));
            assert_eq!(redactor.text(&text).len(), text.len());
        }
    }
}
