//! What must be masked, exactly, and what must not be.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use recount_redact::{DETECTORS, Redactor, StreamRedactor};

const TRUE: &str = include_str!("../../../testdata/secrets/true.txt");
const FALSE: &str = include_str!("../../../testdata/secrets/false.txt");

/// Shape, text, and the text as it must come out.
fn secrets() -> impl Iterator<Item = (&'static str, String, String)> {
    TRUE.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (name, marked) = line.split_once('\t').unwrap();
        let (before, rest) = marked.split_once('⟦').unwrap();
        let (secret, after) = rest.split_once('⟧').unwrap();
        let stars = "*".repeat(secret.len());
        (name, format!("{before}{secret}{after}"), format!("{before}{stars}{after}"))
    })
}

fn innocent() -> impl Iterator<Item = &'static str> {
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
            let told = redactor.text(&text);
            if told != masked {
                wrong.push(format!("{name}:\n  {masked}\n  {told}"));
            }
            assert_eq!(redactor.text(&told), told, "masking twice is masking once");
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
        include_str!("../../../Cargo.lock"),
        include_str!("../../../docs/registry.md"),
        include_str!("../../../docs/grammar.md"),
        include_str!("../../../docs/performance.md"),
        include_str!("../../../testdata/events/.hashes"),
        include_str!("../src/redactor.rs"),
        include_str!("../src/detector.rs"),
        include_str!("../src/detector/card.rs"),
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
            let told = redactor.json(&json, None, &|_| false).unwrap_or_else(|| panic!("{name}: {json}"));
            let wanted =
                format!(r#"{{"a":[1,{{"b c/d":{}}}],"e":1.50}}"#, serde_json::to_string(&masked).unwrap());
            assert_eq!((told.text, told.paths), (wanted, vec!["/a/1/b c~1d".to_owned()]), "{name}");
        }
    }
    for line in innocent() {
        let json = serde_json::json!({ "text": line, line: [line] }).to_string();
        assert_eq!(redactor.json(&json, None, &|_| false), None, "{line}");
    }
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
            let mut told: String =
                chars.chunks(size).map(|piece| stream.push(&piece.iter().collect::<String>())).collect();
            told += &stream.finish();
            assert_eq!(&told, masked, "pieces of {size}");
        }
    }
}
