//! Markdown as spoken text: the table that the console's converter is checked with too, and properties.

use proptest::prelude::*;
use recount_aaep::markdown::{MarkdownPart, SpokenMarkdown, plain};
use serde_json::{Value, json};

fn spoken(pieces: &[&str]) -> Vec<MarkdownPart> {
    let mut markdown = SpokenMarkdown::default();
    let mut parts: Vec<MarkdownPart> = pieces.iter().flat_map(|piece| markdown.take(piece)).collect();
    parts.extend(markdown.release());
    assert!(!markdown.is_holding(), "nothing is lost: {markdown:?}");
    parts
}

fn shown(part: &MarkdownPart) -> Value {
    match part {
        MarkdownPart::Text(text) => json!({ "text": text }),
        MarkdownPart::Heading(text) => json!({ "heading": text }),
        MarkdownPart::Task { is_done, text } => json!({ "task": { "done": is_done, "text": text } }),
        MarkdownPart::Code { language, lines } => json!({ "code": { "language": language, "lines": lines } }),
    }
}

#[test]
fn markdown_is_spoken_as_text() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/markdown.json");
    let table: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    for row in &table {
        let pieces: Vec<&str> =
            row["pieces"].as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect();
        let parts: Vec<Value> = spoken(&pieces).iter().map(shown).collect();
        assert_eq!(Value::from(parts), row["parts"], "{}", row["name"]);
    }
    assert!(table.len() > 20);
}

#[test]
fn a_whole_text_becomes_one_line() {
    for (text, line) in [
        (
            "# Done\n\nAll `3` tests pass\n- one\n- two.\n```sh\nls\npwd\n```",
            "Done. All 3 tests pass. one. two. ls pwd",
        ),
        ("", ""),
        ("`missing.txt` does not exist", "missing.txt does not exist"),
    ] {
        assert_eq!(plain(text), line);
    }
}

proptest! {
    /// However a text is cut, its letters and digits are spoken once and in order.
    #[test]
    fn no_letter_is_lost_however_the_text_is_cut(
        words in proptest::collection::vec("[a-z0-9]{1,4}|[#*_`~|>\\[\\]()!<&\\\\-]{1,3}|\n| |\n```\n|- |1\\. ", 0..60),
        cuts in proptest::collection::vec(0_usize..200, 0..8),
    ) {
        let text = words.concat();
        let mut cuts: Vec<usize> =
            cuts.into_iter().filter(|at| *at <= text.len() && text.is_char_boundary(*at)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for at in cuts {
            pieces.push(&text[from..at]);
            from = at;
        }
        pieces.push(&text[from..]);
        spoken(&pieces);
        spoken(&[&text]);
    }
}
