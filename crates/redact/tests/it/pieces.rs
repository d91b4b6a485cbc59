//! Texts that come in pieces: held back, whatever the cuts, it comes out as the whole would; not held back, no
//! more of a secret comes out than the limits allow.

use std::sync::Arc;

use proptest::prelude::*;
use recount_redact::limits::{HOLD_BYTES_MAX, KEPT_BYTES_MAX, SHOWN_BYTES_MAX, SHOWN_DIGITS_MAX};
use recount_redact::{Online, Redactor, Secret, StreamRedactor};

use crate::corpus::{FALSE, TRUE};

const KNOWN: [&str; 5] = [
    "correct horse battery",
    "Zürich-größe-42",
    "line one\nline \"two\"",
    "a1b2c3d4",
    "\"\\/\"\\/\"\\/\"\\/\"",
];

fn redactor() -> Arc<Redactor> {
    let known = KNOWN.iter().map(|value| Secret::new(value).unwrap()).collect();
    Arc::new(Redactor::new(known, true))
}

/// Text, and the range of the secret in it.
fn secrets() -> Vec<(String, std::ops::Range<usize>)> {
    let shaped = TRUE.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (_, marked) = line.split_once('\t').unwrap();
        let (before, rest) = marked.split_once('⟦').unwrap();
        let (secret, after) = rest.split_once('⟧').unwrap();
        (format!("{before}{secret}{after}"), before.len()..before.len() + secret.len())
    });
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{0}\n{0}\n{0}==\n-----END PRIVATE KEY-----\n",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
    );
    let until = pem.find("\n-----END").unwrap();
    let known = KNOWN.iter().map(|value| (format!("it is {value}, really"), 6..6 + value.len()));
    shaped.chain([(pem, 28..until)]).chain(known).collect()
}

/// Text cut at places, as near as characters allow.
fn cut<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
    places.extend([0, text.len()]);
    places.retain(|place| text.is_char_boundary(*place));
    places.sort_unstable();
    places.windows(2).map(|two| &text[two[0]..two[1]]).collect()
}

fn one_by_one(text: &str) -> Vec<&str> {
    text.split_inclusive(|_| true).collect()
}

fn online(redactor: &Redactor, pieces: &[&str], wakes: bool) -> String {
    let mut before = Online::default();
    let mut log = String::new();
    for piece in pieces {
        if wakes {
            // Nothing is left but the log.
            before = Online::default();
            before.add_stored(redactor, log.as_bytes());
        }
        let (spans, next) = redactor.online(&before, piece.as_bytes(), false);
        let mut output = piece.as_bytes().to_vec();
        for span in spans {
            output[span]
                .iter_mut()
                .filter(|byte| !matches!(byte, b'\n' | b'\r'))
                .for_each(|byte| *byte = b'*');
        }
        log.push_str(std::str::from_utf8(&output).unwrap());
        before = next;
    }
    log
}

/// The longest contiguous part of a secret in the log, in bytes.
fn shown(log: &str, text: &str, secret: std::ops::Range<usize>) -> usize {
    let same =
        |at: usize| log.as_bytes()[at] == text.as_bytes()[at] && !b"\n\r".contains(&text.as_bytes()[at]);
    let (mut most, mut now) = (0, 0);
    for at in secret {
        now = if same(at) { now + 1 } else { 0 };
        most = most.max(now);
    }
    most
}

/// What comes out when what is held back is released after some of the pieces: a bit of `releases` for each.
fn released(redactor: &Arc<Redactor>, pieces: &[&str], releases: u64) -> String {
    let mut stream = StreamRedactor::new(redactor.clone());
    let mut output = String::new();
    for (number, piece) in pieces.iter().enumerate() {
        output += &stream.push(piece);
        if releases >> (number % 64) & 1 == 1 {
            output += &stream.release();
        }
    }
    output + &stream.finish()
}

fn check_released(
    redactor: &Arc<Redactor>,
    text: &str,
    secret: std::ops::Range<usize>,
    pieces: &[&str],
    releases: u64,
) {
    let output = released(redactor, pieces, releases);
    assert_eq!(output.len(), text.len());
    let (visible, most) = (shown(&output, text, secret.clone()), shown_max(text, secret.clone()));
    assert!(visible <= most, "{visible} bytes of {:?} came out: {output:?}", &text[secret]);
}

#[test]
fn released_after_every_byte_no_more_than_the_beginning_of_a_secret_comes_out() {
    let redactor = redactor();
    for (text, secret) in secrets() {
        check_released(&redactor, &text, secret.clone(), &one_by_one(&text), u64::MAX);
        for at in 0..text.len() {
            check_released(&redactor, &text, secret.clone(), &cut(&text, &[at]), 1);
        }
    }
}

/// What innocent text begins like a secret with is not kept back for ever.
#[test]
fn a_harmless_prefix_is_released_and_a_longer_one_is_not() {
    for (piece, out) in [
        ("it is s", "it is s"),
        ("sk-", "sk-"),
        ("it is corr", "it is corr"),
        ("corre", "corre"),
        ("correct horse", "corre"),
        ("4", "4"),
        ("sk-ant-api03-abc", "sk-ant-"),
    ] {
        let mut stream = StreamRedactor::new(redactor());
        let output = stream.push(piece) + &stream.release();
        assert_eq!(output, out, "{piece}");
        assert_eq!(stream.held(), piece.len() - out.len());
        assert_eq!(stream.release(), "");
    }
}

/// The maximum length of a contiguous visible part of a secret.
fn shown_max(text: &str, secret: std::ops::Range<usize>) -> usize {
    // Of a card with what separates the groups.
    let digits = text.as_bytes()[secret].iter().filter(|byte| byte.is_ascii_digit()).count();
    if digits >= 13 { SHOWN_DIGITS_MAX + 2 } else { SHOWN_BYTES_MAX }
}

fn check_online(redactor: &Redactor, text: &str, secret: std::ops::Range<usize>, pieces: &[&str]) {
    let most = shown_max(text, secret.clone());
    for wakes in [false, true] {
        let log = online(redactor, pieces, wakes);
        assert_eq!(log.len(), text.len());
        let visible = shown(&log, text, secret.clone());
        assert!(visible <= most, "{visible} bytes of {:?} stand in the log: {log:?}", &text[secret]);
    }
}

#[test]
fn byte_by_byte_no_more_than_the_beginning_of_a_secret_is_in_the_log() {
    let redactor = redactor();
    for (text, secret) in secrets() {
        check_online(&redactor, &text, secret, &one_by_one(&text));
    }
}

#[test]
fn cut_once_anywhere_no_more_than_the_beginning_of_a_secret_is_in_the_log() {
    let redactor = redactor();
    for (text, secret) in secrets() {
        for at in 0..text.len() {
            check_online(&redactor, &text, secret.clone(), &cut(&text, &[at]));
        }
    }
}

#[test]
fn innocent_text_in_pieces_of_words_stays_as_it_is() {
    let redactor = Redactor::shapes();
    let mut touched = Vec::new();
    for line in FALSE.lines().filter(|line| !line.starts_with('#')) {
        let line = format!("{line}\n");
        let pieces: Vec<&str> = line.split_inclusive(' ').collect();
        let log = online(&redactor, &pieces, false);
        // Numbers in groups of four may be those of a card until the last group is there.
        if log != line
            && !["4111 1111 1111 ", "5555 5555 5555 ", "5678 9012 3456"]
                .iter()
                .any(|like| line.contains(like))
        {
            touched.push(log);
        }
    }
    assert!(touched.is_empty(), "{}", touched.join(""));
}

#[test]
fn a_secret_that_is_longer_than_what_is_kept_is_masked_to_its_end() {
    let redactor = redactor();
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7+/ab12345678\n";
    let body = line.repeat(3 * KEPT_BYTES_MAX / line.len());
    let pem = format!("-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----\n");
    let token = format!("key sk-ant-api03-{} and on", "aB3".repeat(KEPT_BYTES_MAX));
    for text in [pem, token] {
        let whole = redactor.text(&text).into_owned();
        let pieces: Vec<&str> =
            text.as_bytes().chunks(100).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
        let mut stream = StreamRedactor::new(redactor.clone());
        let mut output: String = pieces.iter().map(|piece| stream.push(piece)).collect();
        output += &stream.finish();
        assert!(output == whole, "held back: {}", difference(&output, &whole));
        let output = online(&redactor, &pieces, false);
        assert!(output == whole, "at once: {}", difference(&output, &whole));
        let woken = online(&redactor, &pieces[..pieces.len() - 1], false) + pieces[pieces.len() - 1];
        assert!(woken.len() == whole.len());
    }
}

#[test]
fn a_secret_that_overlaps_another_is_found_whole_and_in_pieces() {
    let redactor = Arc::new(Redactor::shapes());
    let stripe = format!("rk_live_{}", "li4NJaTqop9b".repeat(8));
    let aws = "wJalrXUtnFEMIbK7MDENGbPxRfiCYEXAMPLE9KEy";
    let bearer = "Bearer a1b2c3d4e5f6g7h8i9/";
    let cases = [
        (format!("{stripe}{stripe}"), "rk_live_*************************"),
        (format!("{bearer}{bearer}"), "Bearer *************"),
        (format!("secretAccessKey={}secretAccessKey:{aws}", &aws[..25]), "secretAccessKey=*****"),
        (format!("secretAccessKey={}secretAccessKey=\"{aws}", &aws[..24]), "secretAccessKey=*****"),
    ];
    for (text, begins) in cases {
        let whole = redactor.text(&text).into_owned();
        let second = &text[text.len() - 10..];
        assert!(whole.starts_with(begins) && !whole.contains(second), "{text} is masked as {whole}");
        let mut stream = StreamRedactor::new(redactor.clone());
        let mut output: String = one_by_one(&text).into_iter().map(|piece| stream.push(piece)).collect();
        output += &stream.finish();
        assert_eq!(output, whole);
    }
}

/// Where two texts part.
fn difference(a: &str, b: &str) -> String {
    let at = a.bytes().zip(b.bytes()).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    let near = |text: &str| text[at.saturating_sub(80).min(text.len())..text.len().min(at + 40)].to_owned();
    format!("at {at} of {} and {}: {:?} and {:?}", a.len(), b.len(), near(a), near(b))
}

/// Texts of secrets, parts of them, and what looks like them.
fn text() -> impl Strategy<Value = String> {
    let secrets = secrets();
    let innocent: Vec<String> = FALSE.lines().map(str::to_owned).collect();
    let part = prop_oneof![
        (0..secrets.len()).prop_map({
            let secrets = secrets.clone();
            move |index| secrets[index].0.clone()
        }),
        (0..secrets.len(), 0..200usize, 0..200usize).prop_map(move |(index, from, to)| {
            let text = &secrets[index].0;
            let chars: Vec<char> = text.chars().collect();
            let (from, to) = (from % chars.len(), to % chars.len());
            chars[from.min(to)..from.max(to)].iter().collect()
        }),
        (0..innocent.len()).prop_map(move |index| innocent[index].clone()),
        "[-_ .:/@=*a-zA-Z0-9\n\\\\\"äß]{0,12}",
        Just("sk-ant-".to_owned()),
        Just("4111 1111 ".to_owned()),
        Just("://a:b".to_owned()),
        Just("Bearer ".to_owned()),
        Just("password=".to_owned()),
        Just("\"token\": \"".to_owned()),
        Just("\x1b[1;31m".to_owned()),
        Just("\\u001b[0m".to_owned()),
        "[\x1b\x07\\[\\]\\\\eux01b3m;]{0,8}",
    ];
    prop::collection::vec(part, 1..6).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_cuts_give_the_masked_whole(text in text(), cuts in prop::collection::vec(any::<usize>(), 0..40)) {
        let redactor = redactor();
        let whole = redactor.text(&text).into_owned();
        for pieces in [cut(&text, &cuts), one_by_one(&text)] {
            let mut stream = StreamRedactor::new(redactor.clone());
            let mut output = String::new();
            for piece in pieces {
                output += &stream.push(piece);
                prop_assert!(stream.held() <= HOLD_BYTES_MAX);
            }
            output += &stream.finish();
            prop_assert_eq!(&output, &whole);
        }
    }

    #[test]
    fn any_releases_show_no_more_than_the_beginning_of_a_secret(index in any::<prop::sample::Index>(), before in "[a-z ]{0,9}", after in "[a-z ]{0,9}", cuts in prop::collection::vec(any::<usize>(), 0..20), releases in any::<u64>()) {
        let secrets = secrets();
        let (text, secret) = &secrets[index.index(secrets.len())];
        let text = format!("{before} {text} {after}");
        let secret = secret.start + before.len() + 1..secret.end + before.len() + 1;
        check_released(&redactor(), &text, secret, &cut(&text, &cuts), releases);
    }

    #[test]
    fn releases_change_nothing_outside_of_secrets(text in text(), cuts in prop::collection::vec(any::<usize>(), 0..40), releases in any::<u64>()) {
        let redactor = redactor();
        let whole = redactor.text(&text).into_owned();
        for pieces in [cut(&text, &cuts), one_by_one(&text)] {
            let output = released(&redactor, &pieces, releases);
            prop_assert_eq!(output.len(), text.len());
            for (at, byte) in output.bytes().enumerate() {
                prop_assert!(byte == whole.as_bytes()[at] || byte == text.as_bytes()[at], "at {} of {:?}", at, output);
            }
        }
    }

    #[test]
    fn unbuffered_output_shows_no_more_than_the_beginning_of_a_secret(index in any::<prop::sample::Index>(), before in "[a-z ]{0,9}", cuts in prop::collection::vec(any::<usize>(), 0..20)) {
        let secrets = secrets();
        let (text, secret) = &secrets[index.index(secrets.len())];
        let text = format!("{before} {text}");
        let secret = secret.start + before.len() + 1..secret.end + before.len() + 1;
        let pieces = cut(&text, &cuts);
        check_online(&redactor(), &text, secret, &pieces);
    }

    #[test]
    fn json_of_any_text_has_the_masked_text(text in text()) {
        let redactor = redactor();
        let json = serde_json::json!({ "n": 1, "t": [text] }).to_string();
        let expected = redactor.text(&text).into_owned();
        let output = redactor.json(&json, None, &|_| false).map_or(json, |masked| masked.text);
        let output: serde_json::Value = serde_json::from_str(&output).unwrap();
        // The key may identify a secret that the value alone does not.
        let with_key = redactor.text(&format!("t={text}"))[2..].to_owned();
        let output = output["t"][0].as_str().unwrap();
        prop_assert!(output == expected || output == with_key);
    }
}
