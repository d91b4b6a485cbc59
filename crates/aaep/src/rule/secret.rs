//! Detects secrets and personal data in one text for people: keys, tokens, named passwords, payment cards, US social
//! security numbers. It must not know events, rules or findings. Start at [`find`].
//!
//! Words alone never match ("password reset link", "the bearer of this ticket"): a value must follow them. A match is
//! named by its kind and never quoted, because findings are read aloud and logged. Examples and counterexamples are in
//! `tests/it/texts/`; add both for a new pattern.

use crate::limits;

/// The first secret and the first personal data in a text, described by kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SensitiveMatches {
    pub(super) secret: Option<&'static str>,
    pub(super) personal: Option<&'static str>,
}

/// Scans a text in linear time: only bytes that are rare in prose are examined further, within a bounded distance.
pub(super) fn find(text: &str) -> SensitiveMatches {
    let bytes = text.as_bytes();
    let mut found = SensitiveMatches::default();
    for (at, byte) in bytes.iter().enumerate() {
        match CLASS[*byte as usize] {
            ByteClass::Plain => {}
            ByteClass::Digit => found.personal = found.personal.or_else(|| find_number(bytes, at)),
            ByteClass::Separator => found.secret = found.secret.or_else(|| find_named_value(bytes, at)),
            ByteClass::Rare => {
                found.secret = found.secret.or_else(|| find_key(bytes, at)).or_else(|| find_phrase(bytes, at))
            }
        }
        if found.secret.is_some() && found.personal.is_some() {
            break;
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq)]
enum ByteClass {
    Plain,
    Digit,
    /// `=` and `:` between a name and its value.
    Separator,
    /// A byte of [`KEYS`] or of the phrases of [`find_phrase`].
    Rare,
}

const CLASS: [ByteClass; 256] = {
    let mut classes = [ByteClass::Plain; 256];
    let mut at = 0;
    while at < KEYS.len() {
        classes[KEYS[at].rare as usize] = ByteClass::Rare;
        at += 1;
    }
    let mut digit = b'0';
    while digit <= b'9' {
        classes[digit as usize] = ByteClass::Digit;
        digit += 1;
    }
    let spoken = *b"bBwW";
    at = 0;
    while at < spoken.len() {
        classes[spoken[at] as usize] = ByteClass::Rare;
        at += 1;
    }
    classes[b'=' as usize] = ByteClass::Separator;
    classes[b':' as usize] = ByteClass::Separator;
    classes
};

/// A key with a known prefix.
struct KeyPattern {
    /// A byte of the prefix that is rare in prose, and its offset in the prefix.
    rare: u8,
    offset: usize,
    begins: &'static str,
    /// Minimum bytes after the prefix, of letters, digits, `-` and `_`.
    least: usize,
    /// Whether a digit is required, so that hyphenated words do not match.
    digit: bool,
    what: &'static str,
}

const fn key_pattern(
    rare: u8,
    offset: usize,
    begins: &'static str,
    least: usize,
    digit: bool,
    what: &'static str,
) -> KeyPattern {
    KeyPattern { rare, offset, begins, least, digit, what }
}

const KEYS: &[KeyPattern] = &[
    key_pattern(b'-', 2, "sk-", 8, true, "an API key (`sk-`)"),
    key_pattern(b'_', 2, "sk_live_", 8, false, "an API key (`sk_live_`)"),
    key_pattern(b'_', 2, "sk_test_", 8, false, "an API key (`sk_test_`)"),
    key_pattern(b'_', 2, "rk_live_", 8, false, "an API key (`rk_live_`)"),
    key_pattern(b'_', 3, "ghp_", 4, true, "a GitHub token (`ghp_`)"),
    key_pattern(b'_', 3, "gho_", 4, true, "a GitHub token (`gho_`)"),
    key_pattern(b'_', 3, "ghu_", 4, true, "a GitHub token (`ghu_`)"),
    key_pattern(b'_', 3, "ghs_", 4, true, "a GitHub token (`ghs_`)"),
    key_pattern(b'_', 3, "ghr_", 4, true, "a GitHub token (`ghr_`)"),
    key_pattern(b'_', 6, "github_pat_", 4, false, "a GitHub token (`github_pat_`)"),
    key_pattern(b'-', 5, "glpat-", 8, false, "a GitLab token (`glpat-`)"),
    key_pattern(b'-', 4, "xoxb-", 8, true, "a Slack token (`xoxb-`)"),
    key_pattern(b'-', 4, "xoxp-", 8, true, "a Slack token (`xoxp-`)"),
    key_pattern(b'-', 4, "xoxa-", 8, true, "a Slack token (`xoxa-`)"),
    key_pattern(b'-', 4, "xoxs-", 8, true, "a Slack token (`xoxs-`)"),
    key_pattern(b'K', 1, "AKIA", 16, false, "an AWS key (`AKIA`)"),
    key_pattern(b'I', 2, "ASIA", 16, true, "an AWS key (`ASIA`)"),
    key_pattern(b'z', 2, "AIza", 30, false, "a Google key (`AIza`)"),
    key_pattern(b'.', 4, "ya29.", 20, false, "a Google token (`ya29.`)"),
    key_pattern(b'_', 3, "npm_", 30, false, "an npm token (`npm_`)"),
    key_pattern(b'_', 2, "hf_", 30, false, "a Hugging Face token (`hf_`)"),
    key_pattern(b'-', 4, "pypi-", 50, false, "a PyPI token (`pypi-`)"),
    key_pattern(b'J', 2, "eyJ", 16, false, "a JSON web token"),
    key_pattern(b'-', 3, "ssh-rsa AAAA", 8, false, "an SSH key"),
    key_pattern(b'-', 3, "ssh-ed25519 AAAA", 8, false, "an SSH key"),
];

/// A key of [`KEYS`] whose rare byte is at `at`.
fn find_key(bytes: &[u8], at: usize) -> Option<&'static str> {
    KEYS.iter()
        .filter(|key| key.rare == bytes[at])
        .find(|key| {
            let Some(from) = at.checked_sub(key.offset) else { return false };
            let Some(rest) = bytes[from..].strip_prefix(key.begins.as_bytes()) else { return false };
            if before(bytes, from).is_some_and(|byte| byte.is_ascii_alphanumeric()) {
                return false;
            }
            let near = &rest[..rest.len().min(limits::SECRET_BYTES_MAX)];
            let length = near.iter().take_while(|byte| is_of_key(**byte)).count();
            // A JSON web token has three parts; a single part may be any base64.
            let whole = key.begins != "eyJ" || rest[length..].starts_with(b".eyJ");
            let digit = !key.digit || rest[..length].iter().any(u8::is_ascii_digit);
            length >= key.least && digit && whole
        })
        .map(|key| key.what)
}

fn is_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

fn before(bytes: &[u8], at: usize) -> Option<u8> {
    at.checked_sub(1).map(|at| bytes[at])
}

/// Names whose value is a secret. `_` matches `_`, `-`, a space or nothing; any letters may precede.
const NAMES: &[&str] = &[
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "api_key",
    "secret_key",
    "private_key",
    "access_key",
    "account_key",
    "encryption_key",
    "client_secret",
    "app_secret",
    "api_secret",
    "shared_secret",
    "webhook_secret",
    "aws_secret",
    "access_token",
    "auth_token",
    "api_token",
    "bearer_token",
    "session_token",
    "refresh_token",
    "github_token",
    "authorization",
];

/// Words that describe or replace a secret, in lower case.
const PLACEHOLDERS: &str = "accepted access auth authentication authorization bearer bond bonds bool boolean change changed \
    confirmed correct denied done empty enabled disabled expired failed false forgotten hidden incorrect \
    invalid key masked missing needed new nil no none null ok old omitted optional pass password pending \
    present provided pwd redacted removed required reset revoked saved secret sent set share shares str \
    string strong text token tokens true unchanged undefined unknown unset updated valid verified weak \
    wrong yes";

/// A value that follows its name, as in `api_key=…`, `"password": "…"`, and `https://name:…@host`.
fn find_named_value(bytes: &[u8], at: usize) -> Option<&'static str> {
    if bytes[at..].starts_with(b"://") {
        return in_address(&bytes[at + 3..]);
    }
    // `==`, `=>` and `::` have no value after them.
    let is_value = !matches!(bytes.get(at + 1), Some(b'=' | b'>' | b':')) && !bytes[..=at].ends_with(b"::");
    if !is_value {
        return None;
    }
    let spaced = bytes[..at].trim_ascii_end();
    let left = spaced.strip_suffix(b":").unwrap_or(spaced);
    let name = trim_quote(left);
    // `DB_PASS`; "pass" alone is an ordinary word.
    let is_pass = start_of(name, "pass").is_some_and(|from| before(name, from) == Some(b'_'));
    let known = is_pass || NAMES.iter().any(|known| start_of(name, known).is_some());
    let secret = !known && start_of(name, "secret").is_some();
    if !known && !secret {
        return None;
    }
    let after = &bytes[at + 1..];
    let quoted = name.len() < left.len() && after.trim_ascii_start().starts_with(&left[left.len() - 1..]);
    let (value, rest) = value(after);
    // Only the name and the value, as in many argument summaries.
    let blank = |text: &[u8]| text.iter().rev().all(u8::is_ascii_whitespace);
    let whole = rest.iter().all(u8::is_ascii_whitespace)
        && NAMES.iter().any(|known| start_of(name, known).is_some_and(|from| blank(&name[..from])));
    let outright = known && (bytes[at] == b'=' || quoted || whole);
    if start_of(name, "authorization").is_some() && value.eq_ignore_ascii_case(b"basic") {
        let (value, _) = self::value(rest);
        return (value.len() >= 8 && !is_placeholder(value)).then_some("credentials (`Authorization`)");
    }
    // Not for passwords, which may look like these values.
    let is_harmless_value = (start_of(name, "token").is_some() && is_duration(value))
        || (start_of(name, "access_key").is_some() && is_shortcut(value))
        || (start_of(name, "authorization").is_some() && is_decision(value));
    (!is_placeholder(value) && !is_harmless_value && (outright || looks_random(value)))
        .then_some("a secret after its name")
}

fn trim_quote(text: &[u8]) -> &[u8] {
    match text {
        [text @ .., b'"' | b'\'' | b'`'] => text,
        text => text,
    }
}

/// The offset of a name at the end of a text.
fn start_of(text: &[u8], name: &str) -> Option<usize> {
    let mut end = text.len();
    for byte in name.bytes().rev() {
        let last = before(text, end);
        match (byte, last) {
            (b'_', Some(b'_' | b'-' | b' ')) => end -= 1,
            (b'_', _) => {}
            (byte, Some(last)) if last.eq_ignore_ascii_case(&byte) => end -= 1,
            _ => return None,
        }
    }
    Some(end)
}

/// Splits a text into the value at its beginning and the rest.
fn value(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let inside = match text {
        [b'"' | b'\'' | b'`', inside @ ..] => inside,
        text => text,
    };
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`,;&)]}".contains(byte);
    let end = inside.iter().take(limits::SECRET_BYTES_MAX).position(ends);
    let end = end.unwrap_or(inside.len().min(limits::SECRET_BYTES_MAX));
    let (value, rest) = inside.split_at(end);
    let kept = value.iter().rposition(|byte| !b".!?:".contains(byte)).map_or(0, |last| last + 1);
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    (&value[..kept], rest)
}

/// Whether a value is no secret: a description, a placeholder, a mask or a reference.
fn is_placeholder(value: &[u8]) -> bool {
    let Some(first) = value.first() else { return true };
    let refers = b"$<{[%(*/".contains(first)
        || [b"http".as_slice(), b"os.", b"process.", b"env.", b"self.", b"args."]
            .iter()
            .any(|with| value.starts_with(with))
        || value.contains(&b'(');
    let mask = value.len() >= 3
        && (value.iter().all(|byte| byte == first) || value.iter().all(|byte| !byte.is_ascii()));
    let flag = value.len() < 4 && value.iter().all(u8::is_ascii_digit);
    refers
        || mask
        || flag
        || !value.iter().any(u8::is_ascii_alphanumeric)
        || PLACEHOLDERS.split(' ').any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether a value is a duration, such as a token lifetime of `3600s`.
fn is_duration(value: &[u8]) -> bool {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && [b"s".as_slice(), b"ms", b"m", b"min", b"h", b"d"].contains(&&value[digits..])
}

/// Whether a value is the outcome of an authorization.
fn is_decision(value: &[u8]) -> bool {
    [b"allowed".as_slice(), b"approved", b"granted"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether a value is a keyboard shortcut, such as `Alt+Shift+1`.
fn is_shortcut(value: &[u8]) -> bool {
    const MODIFIERS: [&str; 7] = ["alt", "ctrl", "control", "shift", "cmd", "meta", "option"];
    let mut keys = value.split(|byte| *byte == b'+');
    let last_is_short = keys.next_back().is_some_and(|key| (1..=9).contains(&key.len()));
    let mut modifiers = keys.peekable();
    last_is_short
        && modifiers.peek().is_some()
        && modifiers.all(|key| MODIFIERS.iter().any(|known| key.eq_ignore_ascii_case(known.as_bytes())))
}

/// Whether a value is not a word: digits or symbols among letters, or many digits.
fn looks_random(value: &[u8]) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = value.iter().any(u8::is_ascii_alphabetic);
    let marks = value.iter().any(|byte| b"!@#$%^&*".contains(byte));
    (value.len() >= 4 && letters && (digits > 0 || marks)) || (value.len() >= 6 && digits == value.len())
}

/// The password in `name:password@host` after `://`.
fn in_address(rest: &[u8]) -> Option<&'static str> {
    let end = rest
        .iter()
        .take(limits::SECRET_BYTES_MAX)
        .position(|byte| byte.is_ascii_whitespace() || b"/?#\"'<>".contains(byte));
    let authority = &rest[..end.unwrap_or(rest.len().min(limits::SECRET_BYTES_MAX))];
    let login = &authority[..authority.iter().rposition(|byte| *byte == b'@')?];
    let password = &login[login.iter().position(|byte| *byte == b':')? + 1..];
    (!is_placeholder(password)).then_some("a password in an address")
}

/// A secret after a phrase: `Bearer …`, `the password is …`, `--password …`, `-----BEGIN PRIVATE KEY-----`.
fn find_phrase(bytes: &[u8], at: usize) -> Option<&'static str> {
    let begins = |from: usize, what: &str| {
        bytes.get(from..from + what.len()).is_some_and(|found| found.eq_ignore_ascii_case(what.as_bytes()))
    };
    match bytes[at] {
        b'b' | b'B' if begins(at, "bearer ") => {
            let (value, rest) = value(&bytes[at + 7..]);
            let head = bytes[..at].trim_ascii_end();
            let whole = head.is_empty() && rest.iter().all(u8::is_ascii_whitespace);
            let header =
                head.strip_suffix(b":").is_some_and(|name| start_of(name, "authorization").is_some());
            let odd = (value.len() >= 8 && looks_random(value)) || value.len() >= limits::TOKEN_BYTES_LEAST;
            (!is_placeholder(value) && (whole || header || odd)).then_some("a bearer token")
        }
        b'b' | b'B' if begins(at, "begin ") && bytes[..at].ends_with(b"-----") => {
            let line = &bytes[at..bytes.len().min(at + 40)];
            let private = line.windows(11).any(|words| words.eq_ignore_ascii_case(b"private key"));
            private.then_some("a private key")
        }
        b'-' if bytes[at..].starts_with(b"--")
            && before(bytes, at).is_none_or(|byte| byte.is_ascii_whitespace()) =>
        {
            let option = &bytes[at + 2..];
            let end = option.iter().take(limits::SECRET_BYTES_MAX).position(u8::is_ascii_whitespace)?;
            let is_of_secret = NAMES.iter().any(|known| start_of(&option[..end], known) == Some(0));
            let quoted = matches!(option[end..].trim_ascii_start(), [b'"' | b'\'', ..]);
            let (value, _) = value(&option[end..]);
            // "--password on the command line" contains no secret.
            (is_of_secret && !is_placeholder(value) && (quoted || looks_random(value)))
                .then_some("a secret after its name")
        }
        b'w' | b'W' if at >= 4 && begins(at - 4, "password is ") => {
            let (value, _) = value(&bytes[at + 8..]);
            (!is_placeholder(value) && looks_random(value)).then_some("a secret after its name")
        }
        _ => None,
    }
}

/// A payment card or social security number whose first digit is at `at`.
fn find_number(bytes: &[u8], at: usize) -> Option<&'static str> {
    let last = before(bytes, at);
    // Digits of a longer number, of an identifier, of a path.
    if last.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_./#".contains(&byte)) {
        return None;
    }
    if is_card(&bytes[at..]) {
        return Some("a payment card number");
    }
    is_social_security(bytes, at).then_some("a US social security number")
}

/// Whether a number continues after these digits, or is part of a word.
fn continues_number(rest: &[u8]) -> bool {
    match rest {
        [next, ..] if next.is_ascii_alphanumeric() || *next == b'_' => true,
        [b'-' | b'.' | b',' | b':' | b'/', digit, ..] => digit.is_ascii_digit(),
        _ => false,
    }
}

/// Whether a text starts with a card number: 13 to 19 digits, possibly grouped, with a known prefix and a valid check
/// digit.
fn is_card(text: &[u8]) -> bool {
    const GROUPS: &[&[usize]] = &[&[4, 4, 4, 4, 3], &[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4]];
    let run = text.iter().take(20).take_while(|byte| byte.is_ascii_digit()).count();
    if (13..=19).contains(&run) {
        return !continues_number(&text[run..]) && is_card_number(&text[..run]);
    }
    // A space or hyphen, including non-breaking ones.
    const SEPARATORS: [&str; 6] = [" ", "-", "\u{a0}", "\u{202f}", "\u{2011}", "\u{2013}"];
    let separator = SEPARATORS.iter().find(|separator| text[run..].starts_with(separator.as_bytes()));
    let Some(separator) = separator.filter(|_| run == 4) else { return false };
    GROUPS.iter().any(|groups| {
        let mut digits = Vec::with_capacity(19);
        let mut at = 0;
        for (number, length) in groups.iter().enumerate() {
            if number > 0 {
                if !text[at..].starts_with(separator.as_bytes()) {
                    return false;
                }
                at += separator.len();
            }
            let group = text.get(at..at + length).filter(|group| group.iter().all(u8::is_ascii_digit));
            let Some(group) = group else { return false };
            digits.extend_from_slice(group);
            at += length;
        }
        !continues_number(&text[at..]) && is_card_number(&digits)
    })
}

fn is_card_number(digits: &[u8]) -> bool {
    let number =
        |count: usize| digits[..count].iter().fold(0_u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    let length = digits.len();
    let issued = match number(4) {
        4000..=4999 => matches!(length, 13 | 16 | 19),
        2221..=2720 | 5100..=5599 => length == 16,
        3400..=3499 | 3700..=3799 => length == 15,
        3000..=3059 | 3600..=3699 | 3800..=3999 => length == 14,
        3528..=3589 | 6011 | 6200..=6299 | 6440..=6599 => length >= 16,
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let value = u32::from(digit - b'0') << (place % 2);
            value / 10 + value % 10
        })
        .sum();
    issued && sum.is_multiple_of(10)
}

/// Whether a number is a social security number: `123-45-6789`; with spaces or ungrouped only after words that name it.
fn is_social_security(bytes: &[u8], at: usize) -> bool {
    let text = &bytes[at..];
    let (parts, length) = match text {
        [_, _, _, b'-', _, _, b'-', ..] => ([0..3, 4..6, 7..11], 11),
        [_, _, _, b' ', _, _, b' ', ..] if is_named_social_security(&bytes[..at]) => {
            ([0..3, 4..6, 7..11], 11)
        }
        _ if is_named_social_security(&bytes[..at]) => ([0..3, 3..5, 5..9], 9),
        _ => return false,
    };
    let [Some(area), Some(group), Some(serial)] = parts.map(|part| {
        let digits = text.get(part)?;
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
    }) else {
        return false;
    };
    let issued = !matches!(area, 0 | 666 | 900..) && group != 0 && serial != 0;
    issued && !continues_number(&text[length..])
}

/// Whether the text before a number names it a social security number.
fn is_named_social_security(head: &[u8]) -> bool {
    let near = &head[head.len().saturating_sub(limits::NUMBER_NAME_BYTES)..];
    let mentions = |words: &[u8]| near.windows(words.len()).any(|found| found.eq_ignore_ascii_case(words));
    mentions(b"ssn") || mentions(b"social security")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_and_similar_words_are_not() {
        for text in
            ["api_key=sk-test-12345", "PASSWORD: x", "Bearer abc", "key sk-live-0123456789", "ghp_0123"]
        {
            assert!(find(text).secret.is_some(), "{text}");
        }
        for text in
            ["a risk-free plan", "the task-list", "disk-full", "sk-1", "barrier", "forward", "Balance: $1"]
        {
            assert_eq!(find(text), SensitiveMatches::default(), "{text}");
        }
    }

    #[test]
    fn each_rare_byte_is_at_its_listed_position() {
        for key in KEYS {
            assert_eq!(key.begins.as_bytes()[key.offset], key.rare, "{}", key.begins);
        }
    }

    /// Every single-digit error and every swap of neighbours but 0 and 9 breaks the check digit.
    #[test]
    fn a_card_number_with_one_wrong_digit_is_invalid() {
        let card = b"4111111111111111";
        assert!(is_card_number(card));
        for at in 4..card.len() {
            for digit in b'0'..=b'9' {
                let mut other = *card;
                other[at] = digit;
                assert_eq!(is_card_number(&other), other == *card, "{at} {}", digit - b'0');
            }
        }
    }
}
