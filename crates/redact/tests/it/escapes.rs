//! Colours and other escape sequences of terminals: they neither hide a secret nor are they masked with it.

use std::sync::Arc;

use recount_redact::{Online, Redactor, StreamRedactor};

use crate::corpus::{innocent, secrets};

/// As a terminal reads them, and as source code, JSON and shells spell them.
const ESCAPES: [&str; 14] = [
    "\x1b[31m",
    "\x1b[01;31m\x1b[K",
    "\x1b[0m",
    "\x1b[38;5;196m",
    "\x1b[38:2::255:0:0m",
    "\x1b[?25h",
    "\x1b(B\x1b[m",
    "\x1b]133;A\x07",
    "\x1b]0;title\x1b\\",
    "\\u001b[31m",
    "\\\\u001B[1;31m",
    "\\x1b[0m",
    "\\033[32m",
    "\\e[1m",
];

/// A header of a key ends at a backslash, so one that ends a sequence moves where masking begins.
fn may_be_in(name: &str, escape: &str) -> bool {
    name != "private-key" || !escape.ends_with('\\')
}

fn streamed(redactor: &Arc<Redactor>, text: &str, size: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut stream = StreamRedactor::new(redactor.clone());
    let mut output: String =
        chars.chunks(size).map(|piece| stream.push(&piece.iter().collect::<String>())).collect();
    output += &stream.finish();
    output
}

/// The table of masked texts with a colour directly before and after the shape, and before and after the secret in it.
#[test]
fn a_secret_beside_an_escape_sequence_is_masked() {
    let redactor = Arc::new(Redactor::shapes());
    let mut wrong = Vec::new();
    for (name, text, masked) in secrets() {
        let from = text.bytes().zip(masked.bytes()).position(|(a, b)| a != b).unwrap();
        let to = text.len() - text.bytes().rev().zip(masked.bytes().rev()).position(|(a, b)| a != b).unwrap();
        let word =
            text[..from].rfind([' ', '=', '"', '\'', '(', ':', ';', ',', '/', '>']).map_or(0, |at| at + 1);
        for escape in ESCAPES.iter().filter(|escape| may_be_in(name, escape)) {
            for places in [[word, to], [from, to], [0, text.len()]] {
                let coloured = |text: &str| {
                    let [a, b] = places;
                    format!("{}{escape}{}{escape}{}", &text[..a], &text[a..b], &text[b..])
                };
                let (text, masked) = (coloured(&text), coloured(&masked));
                let output = redactor.text(&text);
                if output != masked {
                    wrong.push(format!("{name}:\n  {masked:?}\n  {output:?}"));
                }
                for size in [1, 3, 7, 40] {
                    assert_eq!(streamed(&redactor, &text, size), output, "pieces of {size}");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn an_escape_sequence_within_a_secret_stays_and_the_secret_is_masked() {
    let redactor = Arc::new(Redactor::shapes());
    let mut wrong = Vec::new();
    for (name, text, masked) in secrets() {
        let from = text.bytes().zip(masked.bytes()).position(|(a, b)| a != b).unwrap();
        let to = text.len() - text.bytes().rev().zip(masked.bytes().rev()).position(|(a, b)| a != b).unwrap();
        // From the beginning of the name or shape on, but not within an escape of the row itself.
        let begin = text[..from].rfind([' ', '\n', '"', '\'', '&', ';', '<']).map_or(0, |at| at + 1);
        for place in begin..to {
            if !text.is_char_boundary(place) || text[..place].ends_with('\\') {
                continue;
            }
            let escape = ESCAPES[place % ESCAPES.len()];
            if !may_be_in(name, escape) {
                continue;
            }
            let coloured = format!("{}{escape}{}", &text[..place], &text[place..]);
            let expected = format!("{}{escape}{}", &masked[..place], &masked[place..]);
            let output = redactor.text(&coloured);
            if output != expected {
                wrong.push(format!("{name}:\n  {expected:?}\n  {output:?}"));
            }
            assert_eq!(streamed(&redactor, &coloured, 1 + place % 9), output);
        }
    }
    assert!(wrong.is_empty(), "{} are wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_coloured_secret_in_json_is_masked() {
    let redactor = Redactor::shapes();
    for escape in ESCAPES {
        let secret = format!("a {escape}ghp_{escape}7TTwrxMIBDt5WSuDVKzx{escape}WV0br78WsDvlOvJD b");
        let masked = format!("a {escape}ghp_{escape}********************{escape}**************** b");
        let json = serde_json::json!({ "text": secret }).to_string();
        let output = redactor.json(&json, None, &|_| false).unwrap_or_else(|| panic!("{escape:?}"));
        assert_eq!(output.text, serde_json::json!({ "text": masked }).to_string());
    }
}

#[test]
fn nothing_innocent_is_masked_because_it_is_coloured() {
    let redactor = Redactor::shapes();
    for escape in ESCAPES {
        for line in innocent() {
            let line =
                line.split(' ').map(|word| format!("{escape}{word}\x1b[0m")).collect::<Vec<_>>().join(" ");
            assert_eq!(redactor.text(&line), line);
        }
    }
}

/// As a producer reports it: nothing is held back, and the sequence may be cut anywhere.
#[test]
fn a_coloured_secret_in_pieces_shows_no_more_than_its_beginning() {
    let redactor = Redactor::shapes();
    let body = "7TTwrxMIBDt5WSuDVKzxWV0br78WsDvlOvJD";
    for escape in ESCAPES {
        let text = format!("a {escape}ghp_{}{escape}{} b", &body[..10], &body[10..]);
        for cut in 0..text.len() {
            for pieces in [vec![&text[..cut], &text[cut..]], text.split_inclusive(|_| true).collect()] {
                let mut before = Online::default();
                let mut log = String::new();
                for piece in pieces {
                    let (spans, next) = redactor.online(&before, piece.as_bytes(), false);
                    let mut output = piece.as_bytes().to_vec();
                    spans.into_iter().for_each(|span| output[span].fill(b'*'));
                    log.push_str(std::str::from_utf8(&output).unwrap());
                    before = next;
                }
                let expected =
                    text.replace(&body[..10], &"*".repeat(10)).replace(&body[10..], &"*".repeat(26));
                assert_eq!(log.trim_end_matches([' ', 'b']), expected.trim_end_matches([' ', 'b']));
            }
        }
    }
}

/// A text of nothing but sequences within an undecided secret is not held back for ever.
#[test]
fn escape_sequences_without_end_are_held_back_up_to_the_limit() {
    let redactor = Arc::new(Redactor::shapes());
    let mut stream = StreamRedactor::new(redactor);
    let text = format!("ghp_abc{}", "\x1b[31m".repeat(4000));
    let mut output = String::new();
    for piece in text.as_bytes().chunks(100) {
        output += &stream.push(std::str::from_utf8(piece).unwrap());
        assert!(stream.held() <= recount_redact::limits::HOLD_BYTES_MAX);
    }
    output += &stream.finish();
    assert_eq!(output.len(), text.len());
}
