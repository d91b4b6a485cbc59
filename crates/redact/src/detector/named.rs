//! Detects values of secrets by their names: `password=…`, `"client_secret": "…"`, `--password …`, `x-api-key: …`,
//! `machine … login … password …`, cookies.
//!
//! Code, templates and prose use the same names, so a value must also look like one: see [`is_password`] and
//! [`is_key`].

use super::{Check, Hit, TABLE};
use crate::escape;
use crate::limits::{NAME_BYTES_MAX, NAMED_VALUE_BYTES_MAX, SHOWN_BYTES_MAX};
use crate::scan::{Verdict, Window};

/// Bytes between a name and its value.
const BETWEEN_MAX: usize = 24;
const PASSWORD_MIN: usize = 4;
const KEY_MIN: usize = 8;
/// The shortest value after a name that often names something else.
const TOKEN_MIN: usize = 12;

pub(super) const PASSWORD_TRIGGERS: &[&str] =
    &["ssword", "SSWORD", "sswd", "SSWD", "ssphrase", "SSPHRASE", "pwd=", "Pwd=", "_PWD"];
pub(super) const KEY_TRIGGERS: &[&str] =
    &["oken", "OKEN", "ecret", "ECRET", "pi_key", "pi-key", "piKey", "pikey", "pi-Key", "PI_KEY", "PI-KEY"];

/// Words before `token` with which it names a position or a part of a text.
const OTHER_TOKENS: &str = "page next previous sync continuation cancel cancellation max stop eos bos pad unk sep mask cls \
    special start end first last input output current csrf xsrf unexpected resume sequence reply";

/// What is in the place of a value that is not shown, is missing or is described.
const PLACEHOLDERS: &str = "string text bytes bool boolean number object optional required nullable null none nil undefined true \
    false yes empty unset missing invalid incorrect wrong expired prompt stdin hidden redacted masked \
    omitted changeme change-me change_me example placeholder default disabled enabled your sha sha1 \
    sha256 sha512 md5 argon2 argon2id pbkdf2 base64 utf8 utf int32 int64 uint32 uint64 __u32 __u64";

/// A value with one of these in it is rather the name of a variable.
const NAME_STEMS: &[&str] = &["pass", "pwd", "pw", "secret", "token", "key"];

/// How a value is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As the value of a variable, a parameter or an option, in quotes, JSON or XML: any word is one.
    Literal,
    /// It may be code or prose as well.
    Bare,
}

/// The value after a name.
struct Value {
    from: usize,
    quote: Option<u8>,
    form: Form,
    /// Whether `=` is directly before it.
    tight: bool,
    /// Whether it is the text of an element of XML.
    element: bool,
}

/// The bytes of a name up to a place, on one line.
fn name<'a>(window: &Window<'a>, end: usize) -> &'a [u8] {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let least = end.saturating_sub(NAME_BYTES_MAX);
    let bytes = &window.bytes[least..end];
    let length = bytes.iter().rev().take_while(|byte| inside(byte)).count();
    &bytes[bytes.len() - length..]
}

fn contains(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

fn starts_with(text: &[u8], part: &str) -> bool {
    text.get(..part.len()).is_some_and(|start| start.eq_ignore_ascii_case(part.as_bytes()))
}

fn ends_with(text: &[u8], part: &str) -> bool {
    text.len() >= part.len() && text[text.len() - part.len()..].eq_ignore_ascii_case(part.as_bytes())
}

enum After {
    No,
    /// The text ends before the value.
    Open,
    Value(Value),
}

/// Finds the value after a name: after `=`, `:`, `=>` or `:=`, in XML after `>`; after an option or in a `.netrc` file
/// also after a blank.
fn value(window: &Window<'_>, name: &[u8], name_end: usize, netrc: bool) -> After {
    let name_begin = name_end - name.len();
    let mut at = name_end;
    let last = window.len().min(name_end + BETWEEN_MAX);
    let skip = |at: &mut usize, class: fn(u8) -> bool| {
        let from = *at;
        while *at < last && class(window.bytes[*at]) {
            *at += 1;
        }
        *at - from
    };
    let before = name_begin.checked_sub(1).map(|at| window.bytes[at]);
    skip(&mut at, |byte| byte == b'\\');
    let key_quote = skip(&mut at, |byte| matches!(byte, b'"' | b'\'')) > 0;
    let blanks = skip(&mut at, blank);
    let separator = at;
    skip(&mut at, |byte| matches!(byte, b'=' | b':' | b'>'));
    let form = match &window.bytes[separator..at] {
        _ if at == window.len() && !window.ended => return After::Open,
        b"=" | b":" | b"=>" | b":=" => None,
        b">" if before == Some(b'<') && blanks == 0 && !key_quote => {
            let value = Value { from: at, quote: None, form: Form::Literal, tight: false, element: true };
            return After::Value(value);
        }
        b"" if blanks > 0 && (netrc || name.starts_with(b"--")) && !key_quote => Some(Form::Bare),
        _ => return After::No,
    };
    let equals = &window.bytes[separator..at] == b"=";
    let tight = equals && blanks == 0 && skip(&mut at, blank) == 0;
    skip(&mut at, blank);
    if equals
        && window.get(at).is_some_and(|byte| matches!(byte, b'b' | b'r'))
        && matches!(window.get(at + 1), Some(b'"' | b'\''))
    {
        at += 1;
    }
    let escaped = skip(&mut at, |byte| byte == b'\\') > 0;
    let quote = window.get(at).filter(|byte| matches!(byte, b'"' | b'\''));
    at += usize::from(quote.is_some());
    if at >= window.len() {
        return if window.ended { After::No } else { After::Open };
    }
    let is_constant = name.iter().any(u8::is_ascii_uppercase) && !name.iter().any(u8::is_ascii_lowercase);
    let is_given = quote.is_some() || name.starts_with(b"--") || matches!(before, Some(b'?' | b'&' | b';'));
    let form = match form {
        Some(form) => form,
        None if is_given || (tight && is_constant) => Form::Literal,
        None => Form::Bare,
    };
    if escaped && quote.is_none() {
        return After::No;
    }
    let quote = if escaped { Some(b'\\') } else { quote };
    After::Value(Value { from: at, quote, form, tight, element: false })
}

fn blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// What ends a value without quotes.
fn is_end(byte: u8) -> bool {
    byte <= b' '
        || matches!(
            byte,
            b'"' | b'\'' | b'`' | b',' | b';' | b'&' | b'<' | b'>' | b')' | b']' | b'}' | b'|' | b'\\' | 0x7f
        )
}

/// Whether another parameter or command follows an `&`; `None` if that is not known yet.
fn parameter(window: &Window<'_>, from: usize) -> Option<bool> {
    let end = window
        .run(from, NAME_BYTES_MAX, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    if window.may_go_on(end) {
        return None;
    }
    Some(end == from || window.get(end) == Some(b'='))
}

impl Value {
    /// Where it ends, as far as it is known.
    fn end(&self, window: &Window<'_>) -> usize {
        let last = window.len().min(self.from + NAMED_VALUE_BYTES_MAX);
        let mut at = self.from;
        while at < last && !window.is_masked(at) {
            let byte = window.bytes[at];
            let ends = match self.quote {
                Some(quote) => byte == quote || byte < b' ',
                None if byte == b'&' && at > self.from => match parameter(window, at + 1) {
                    Some(is_parameter) => is_parameter,
                    None => return window.len(),
                },
                None => is_end(byte),
            };
            if ends {
                break;
            }
            // What is escaped within quotes belongs to the value.
            at += if byte == b'\\' && self.quote.is_some() { 2 } else { 1 };
        }
        if at < last && window.is_masked(at) {
            let plain = |byte| match self.quote {
                Some(quote) => byte != quote && byte != b'"' && byte != b'\'' && byte >= b' ',
                None => !is_end(byte),
            };
            while at < last && (window.is_masked(at) || plain(window.bytes[at])) {
                at += 1;
            }
        }
        at.min(last)
    }

    /// Judges the value by what it looks like.
    fn judge(&self, window: &Window<'_>, shown: bool, looks: impl Fn(&[u8], Form, bool) -> bool) -> Verdict {
        let end = self.end(window);
        // It is judged in the text without escape sequences.
        let mut slashes = memchr::memchr_iter(b'\\', &window.bytes[self.from..end]);
        if slashes.any(|at| escape::begins_at(window.bytes, self.from + at, window.ended)) {
            return Verdict::No;
        }
        let masked = (self.from..end).any(|at| window.is_masked(at));
        let prefix = prefix(&window.bytes[self.from..end]);
        let Some(prefix) = prefix else { return Verdict::No };
        let from = self.from + prefix;
        if end >= self.from + NAMED_VALUE_BYTES_MAX && !masked {
            return Verdict::No;
        }
        if window.may_go_on(end) {
            if !masked && is_placeholder_start(&window.bytes[self.from..end], self.quote.is_some()) {
                return Verdict::No;
            }
            // A phrase without digits is none of these.
            let text = &window.bytes[self.from..end];
            let is_phrase = text.contains(&b' ') && !super::digit_and_letter(text);
            let shown = match masked {
                false if is_phrase => usize::MAX,
                false if shown => SHOWN_BYTES_MAX,
                _ => 0,
            };
            return Verdict::Open { from: from.saturating_add(shown).min(window.len()) };
        }
        if self.element && window.get(end) != Some(b'<') {
            return Verdict::No;
        }
        let mut to = end;
        if self.quote.is_none() {
            while to > from && matches!(window.bytes[to - 1], b'.' | b':') {
                to -= 1;
            }
        }
        // Code goes on where a value ends.
        let is_argument = self.quote.is_none() && matches!(window.get(end), Some(b',' | b')' | b']'));
        let form =
            if self.form == Form::Bare && self.tight && !is_argument { Form::Literal } else { self.form };
        let text = &window.bytes[self.from..to];
        if masked || looks(text, form, self.quote.is_some()) {
            Verdict::Yes { from, to: to.max(from), goes_on: false }
        } else {
            Verdict::No
        }
    }
}

/// How many bytes of a value are the public beginning of a shape, which stays. `None` if the shape alone decides
/// what stays.
fn prefix(value: &[u8]) -> Option<usize> {
    if starts_with(value, "eyJ") || value.starts_with(b"rct_") || value.starts_with(b"-----BEGIN") {
        return None;
    }
    let shapes = TABLE.iter().filter(|row| matches!(row.check, Check::Token(_)));
    let triggers =
        shapes.flat_map(|row| row.triggers).filter(|trigger| value.starts_with(trigger.as_bytes()));
    Some(triggers.map(|trigger| trigger.len()).max().unwrap_or(0))
}

/// Whether what begins like this is a template, a variable, a path, an address or code.
fn is_placeholder_start(text: &[u8], quoted: bool) -> bool {
    match text {
        [b'$' | b'<' | b'{' | b'*', ..] => true,
        [b'(' | b'[' | b'?' | b':' | b'@' | b'!', ..] if !quoted => true,
        [b'%', b's' | b'(' | b'{' | b'd', ..] => true,
        [b'/', ..] | [b'.' | b'~', b'/', ..] | [b'.', b'.', ..] => true,
        _ => false,
    }
}

fn is_placeholder(text: &[u8], quoted: bool) -> bool {
    let uniform = text.iter().all(|byte| Some(byte) == text.first());
    let word =
        |word: &str| starts_with(text, word) && !text.get(word.len()).is_some_and(u8::is_ascii_alphanumeric);
    let braces = text.iter().any(|byte| matches!(byte, b'{' | b'}')) || contains(text, "$(");
    let calls = !quoted && text.iter().any(|byte| matches!(byte, b'(' | b'['));
    uniform
        || is_placeholder_start(text, quoted)
        || PLACEHOLDERS.split(' ').any(word)
        || braces
        || calls
        || contains(text, "://")
        || contains(text, "::")
        || is_member(text)
}

/// `config.db.password`: names with dots between them.
fn is_member(text: &[u8]) -> bool {
    let identifier = |part: &[u8]| {
        part.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
            && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            && is_word(part)
    };
    text.contains(&b'.') && text.split(|byte| *byte == b'.').all(identifier)
}

/// Letters of one word or of camel case, and up to three digits at the end.
fn is_word(part: &[u8]) -> bool {
    let letters = part.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_').count();
    part[letters..].len() <= 3 && part[letters..].iter().all(u8::is_ascii_digit)
        || (letters == 0 && part.len() <= 4 && part.iter().all(u8::is_ascii_digit))
}

/// Whether this is a password: not a placeholder, and with a digit or a symbol unless a literal may be any word.
fn is_password(text: &[u8], form: Form, quoted: bool) -> bool {
    if text.len() < PASSWORD_MIN || is_placeholder(text, quoted) {
        return false;
    }
    let letter = text.iter().any(u8::is_ascii_alphabetic) || text.iter().any(|byte| *byte >= 0x80);
    let digit = text.iter().any(u8::is_ascii_digit);
    let symbol = text
        .iter()
        .any(|byte| byte.is_ascii_punctuation() && !matches!(byte, b'-' | b'_' | b'.' | b':' | b'\''));
    if text.contains(&b' ') {
        // Longer phrases are labels and messages.
        let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
        return words.len() <= 3 && words.iter().any(|word| super::digit_and_letter(word));
    }
    if letter && (digit || symbol) {
        return true;
    }
    if !letter {
        return form == Form::Literal && digit && !symbol;
    }
    let is_name = NAME_STEMS.iter().any(|stem| contains(text, stem));
    let is_constant = !text.iter().any(u8::is_ascii_lowercase);
    let is_label = quoted && text[0].is_ascii_uppercase() && !text[1..].iter().any(u8::is_ascii_uppercase);
    form == Form::Literal && !is_name && !is_constant && !is_label
}

/// Whether this is a key or a token: letters and digits that are not words, in the alphabets of such values.
fn is_key(text: &[u8], quoted: bool, min: usize) -> bool {
    let inside = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'+' | b'/' | b'=' | b'%' | b':' | b'!')
    };
    // A type or a variable.
    let is_name = !quoted && ["token", "key", "secret"].iter().any(|stem| ends_with(text, stem));
    text.len() >= min
        && super::digit_and_letter(text)
        && text.iter().all(inside)
        && !is_name
        && !is_placeholder(text, quoted)
        && !text.split(|byte| !byte.is_ascii_alphanumeric()).all(is_word)
}

/// Whether a `.netrc` file has `machine … login …` or one of them before this name; and whether it has both, or the
/// value may be any word.
fn netrc(window: &Window<'_>, name_begin: usize) -> Option<bool> {
    let least = name_begin.saturating_sub(crate::limits::LOOK_BEHIND);
    let mut words =
        window.bytes[least..name_begin].rsplit(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let blank = name_begin > 0 && window.bytes[name_begin - 1].is_ascii_whitespace();
    let (_, key) = (words.next().filter(|_| blank)?, words.next()?);
    match key {
        key if key.ends_with(b"machine") => Some(true),
        b"login" | b"account" => {
            words.next();
            Some(words.next().is_some_and(|word| word.ends_with(b"machine")))
        }
        _ => None,
    }
}

/// Whether a value may follow a name in raw JSON, in which it is not decoded yet.
pub(super) fn may_follow(json: &[u8], trigger_end: usize) -> bool {
    let rest = &json[trigger_end - 1..json.len().min(trigger_end + NAME_BYTES_MAX)];
    let is_between = |byte: &u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'\\');
    let mut between =
        rest.iter().skip_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let blank = between.clone().next().is_some_and(is_between);
    blank || between.find(|byte| !is_between(byte)).is_some_and(|byte| matches!(byte, b'=' | b':' | b'>'))
}

/// A password, passphrase or `pwd` and its value.
pub(super) fn password(window: &Window<'_>, hit: Hit) -> Verdict {
    // The separator is part of the trigger where the name alone is too frequent.
    let end = hit.end - usize::from(window.bytes[hit.end - 1] == b'=');
    let name = name(window, end);
    let named = match &window.bytes[hit.at..hit.at + 2] {
        b"pw" | b"Pw" => {
            name.len() > 3 || matches!(before(window, end - name.len()), Some(b';' | b'&' | b'?'))
        }
        b"_P" => true,
        _ => ends_with(&name[..name.len() - (end - hit.at)], "pa"),
    };
    if !named {
        return Verdict::No;
    }
    let netrc = netrc(window, end - name.len()).filter(|_| name == b"password");
    match value(window, name, end, netrc.is_some()) {
        After::No => Verdict::No,
        After::Open => Verdict::Open { from: window.len() },
        After::Value(value) => {
            let any = netrc == Some(true);
            value.judge(window, false, |text, form, quoted| {
                is_password(text, if any { Form::Literal } else { form }, quoted)
            })
        }
    }
}

fn as_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("?")
}

fn before(window: &Window<'_>, at: usize) -> Option<u8> {
    at.checked_sub(1).map(|at| window.bytes[at])
}

/// A token, secret or API key and its value.
pub(super) fn key(window: &Window<'_>, hit: Hit) -> Verdict {
    let stem = &window.bytes[hit.at..hit.end];
    let mut end = hit.end;
    if stem.eq_ignore_ascii_case(b"ecret") {
        const SUFFIXES: [&str; 4] = ["_key_base", "_key", "-key", "key"];
        let rest = &window.bytes[end..window.len().min(end + SUFFIXES[0].len())];
        let is_cut =
            |suffix: &str| suffix.len() > rest.len() && starts_with(suffix.as_bytes(), as_text(rest));
        if window.may_go_on(end + rest.len()) && SUFFIXES.iter().any(|suffix| is_cut(suffix)) {
            return Verdict::Open { from: window.len() };
        }
        end += SUFFIXES.iter().find(|suffix| starts_with(rest, suffix)).map_or(0, |suffix| suffix.len());
    }
    let whole = name(window, end);
    let Some(min) = key_min(whole, end - hit.at, stem) else { return Verdict::No };
    match value(window, whole, end, false) {
        After::No => Verdict::No,
        After::Open => Verdict::Open { from: window.len() },
        After::Value(value) => value.judge(window, true, |text, _, quoted| is_key(text, quoted, min)),
    }
}

/// How long a value with this name must be; `None` if the name is another one.
fn key_min(name: &[u8], tail: usize, stem: &[u8]) -> Option<usize> {
    let head = &name[..name.len().checked_sub(tail)?];
    let first = match stem.first()?.to_ascii_lowercase() {
        b'o' => "t",
        b'e' => "s",
        _ => "a",
    };
    let head = head.get(..head.len().checked_sub(1)?).filter(|_| ends_with(head, first))?;
    if first != "t" {
        return Some(KEY_MIN);
    }
    let word = head.strip_suffix(b"_").or_else(|| head.strip_suffix(b"-")).unwrap_or(head);
    if OTHER_TOKENS.split(' ').any(|other| ends_with(word, other)) {
        return None;
    }
    Some(if word.is_empty() { TOKEN_MIN } else { KEY_MIN })
}

/// Whether a member of JSON with this name is a secret as a whole.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    let (bytes, value) = (name.as_bytes(), value.as_bytes());
    if value.len() >= NAMED_VALUE_BYTES_MAX || prefix(value) != Some(0) {
        return false;
    }
    if ["password", "passwd", "passphrase"].iter().any(|tail| ends_with(bytes, tail)) {
        return is_password(value, Form::Literal, true);
    }
    KEY_TRIGGERS.iter().chain(&["ecret_key", "ecretKey"]).any(|tail| {
        let min = key_min(bytes, tail.len(), &tail.as_bytes()[..5.min(tail.len())]);
        bytes.ends_with(tail.as_bytes()) && min.is_some_and(|min| is_key(value, true, min))
    })
}

/// The cookies of a request from the first value on that looks like a key; of a response that value.
pub(super) fn cookie(window: &Window<'_>, hit: Hit) -> Verdict {
    let name = name(window, hit.end);
    let set = ends_with(name, "set-cookie");
    if !(set || ends_with(name, "cookie") && name.len() == 6) {
        return Verdict::No;
    }
    let value = match value(window, name, hit.end, false) {
        After::No => return Verdict::No,
        After::Open => return Verdict::Open { from: window.len() },
        After::Value(value) => value,
    };
    let last = value.from + NAMED_VALUE_BYTES_MAX;
    let mut at = value.from;
    loop {
        let name_end = window.run(at, NAME_BYTES_MAX, |byte| {
            byte > b' ' && !matches!(byte, b'=' | b';' | b'"' | b'\'' | b'\\')
        });
        if window.may_go_on(name_end) {
            return Verdict::Open { from: window.len() };
        }
        if window.get(name_end) != Some(b'=') || name_end >= last {
            return Verdict::No;
        }
        let from = name_end + 1;
        let end = window.run(from, last.saturating_sub(from), in_cookie);
        let Some(prefix) = prefix(&window.bytes[from..end]) else { return Verdict::No };
        let masked = (from..end).any(|at| window.is_masked(at));
        if window.may_go_on(end) {
            let shown = if masked { 0 } else { prefix + SHOWN_BYTES_MAX };
            return Verdict::Open { from: (from + shown).min(end) };
        }
        if masked || end >= last || is_key(&window.bytes[from..end], true, KEY_MIN) {
            let mut to = window.run(end, usize::MAX, in_cookie);
            while !set && window.bytes[to..].starts_with(b"; ") {
                to = window.run(to + 2, usize::MAX, in_cookie);
            }
            let is_cut = !set && window.get(to) == Some(b';') && window.may_go_on(to + 1);
            return Verdict::Yes { from: from + prefix, to, goes_on: is_cut || window.may_go_on(to) };
        }
        let next = window.run(end, 3, |byte| matches!(byte, b';' | b' '));
        if window.may_go_on(next) {
            return Verdict::Open { from: window.len() };
        }
        if set || next == end {
            return Verdict::No;
        }
        at = next;
    }
}

fn in_cookie(byte: u8) -> bool {
    byte > b' '
        && byte < 0x7f
        && !matches!(byte, b';' | b',' | b'"' | b'\'' | b'\\' | b'(' | b')' | b'`' | b'<' | b'>')
}
