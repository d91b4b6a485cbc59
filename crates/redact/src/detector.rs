//! The shapes of secrets: one table. Each row has the beginning of a shape and a check that separates it from
//! ordinary text.
//!
//! Add a row here with its examples in `testdata/secrets/true.txt` and, where ordinary text begins
//! alike, in `false.txt`. The rules for a check: it decides within [`DECIDED_BYTES`](crate::limits) bytes, looks
//! back at most `LOOK_BEHIND` bytes, and returns [`Verdict::Open`] only while the text may continue.

pub(crate) mod card;
mod keyed;
mod named;
mod pem;
mod web;

pub(crate) use keyed::BETWEEN_MAX as BEFORE_VALUE_MAX;
pub(crate) use named::is_secret;

use crate::limits::SHOWN_BYTES_MAX;
use crate::scan::{Verdict, Window};

/// One shape.
#[derive(Debug)]
pub struct Detector {
    pub name: &'static str,
    /// Its description: what stays, and what is masked.
    pub about: &'static str,
    /// The text to search for. It is public, so it stays.
    pub triggers: &'static [&'static str],
    check: Check,
    /// Whether what is written as an escape in JSON may be part of it.
    reads_escapes: bool,
}

#[derive(Debug)]
enum Check {
    Token(Token),
    Own(fn(&Window<'_>, Hit) -> Verdict),
    Named(fn(&Window<'_>, Hit) -> Verdict),
}

/// The place of a trigger.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hit {
    pub(crate) at: usize,
    pub(crate) end: usize,
}

/// A trigger and then bytes of one alphabet.
#[derive(Debug)]
struct Token {
    class: fn(u8) -> bool,
    min: usize,
    /// A longer one is not of this shape.
    max: usize,
    /// Whether a word must begin with the trigger.
    word: bool,
    /// Whether ordinary text may begin with the trigger, so that the first bytes after it are released while
    /// the decision is open.
    common: bool,
    /// Whether the first `min` bytes look like it.
    looks: fn(&[u8]) -> bool,
}

/// Bytes from the beginning of a shape in JSON within which an escape is decoded before the shape is judged: more
/// than any shape needs that may contain one.
const ESCAPE_NEAR: usize = 256;

const ANY: usize = usize::MAX;

const fn token(
    about: &'static str,
    name: &'static str,
    triggers: &'static [&'static str],
    token: Token,
) -> Detector {
    Detector { name, about, triggers, check: Check::Token(token), reads_escapes: false }
}

const fn own(
    about: &'static str,
    name: &'static str,
    triggers: &'static [&'static str],
    check: fn(&Window<'_>, Hit) -> Verdict,
    reads_escapes: bool,
) -> Detector {
    Detector { name, about, triggers, check: Check::Own(check), reads_escapes }
}

const fn named(
    about: &'static str,
    name: &'static str,
    triggers: &'static [&'static str],
    check: fn(&Window<'_>, Hit) -> Verdict,
) -> Detector {
    Detector { name, about, triggers, check: Check::Named(check), reads_escapes: true }
}

const fn strict(class: fn(u8) -> bool, min: usize, max: usize) -> Token {
    Token { class, min, max, word: false, common: false, looks: anything }
}

const fn common(class: fn(u8) -> bool, min: usize, max: usize, looks: fn(&[u8]) -> bool) -> Token {
    Token { class, min, max, word: true, common: true, looks }
}

/// All shapes but the payment card, which has no beginning to search for.
pub const TABLE: &[Detector] = &[
    token("a key of Anthropic", "anthropic", &["sk-ant-"], strict(word_dash, 16, ANY)),
    token(
        "a key of an OpenAI project, service account or administrator, or of OpenRouter",
        "openai-project",
        &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-"],
        strict(word_dash, 16, ANY),
    ),
    token(
        "an older key of OpenAI, and of providers with the same format: at least 32 letters and digits",
        "openai",
        &["sk-"],
        common(alnum, 32, ANY, digit_and_letter),
    ),
    token("a key of Google", "google", &["AIza"], Token { word: true, ..strict(word_dash, 35, 35) }),
    token(
        "an OAuth token or client secret of Google",
        "google-oauth",
        &["ya29.", "GOCSPX-"],
        strict(word_dash_dot, 24, ANY),
    ),
    token(
        "the id of an AWS access key",
        "aws-key-id",
        &["AKIA", "ASIA"],
        common(upper_digit, 16, 16, digit_and_letter),
    ),
    own(
        "an AWS secret key: 40 characters after its name",
        "aws-secret-key",
        &["ecretAccessKey", "secret_access_key", "SECRET_ACCESS_KEY", "aws_secret_key"],
        keyed::aws,
        true,
    ),
    own(
        "a key of Azure storage or a service bus, after its name",
        "azure-account-key",
        &["AccountKey", "SharedAccessKey"],
        keyed::azure,
        true,
    ),
    token(
        "a token of GitHub",
        "github",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        Token { word: true, ..strict(word_dash_dot, 36, ANY) },
    ),
    token("a fine-grained token of GitHub", "github-fine", &["github_pat_"], strict(word, 36, ANY)),
    token(
        "a token of GitLab",
        "gitlab",
        &["glpat-", "gldt-", "glrt-"],
        Token { word: true, ..strict(word_dash_dot, 20, ANY) },
    ),
    token(
        "a token of Slack",
        "slack",
        &["xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-"],
        Token { word: true, ..strict(word_dash_dot, 16, ANY) },
    ),
    token(
        "a secret or restricted key of Stripe, or a secret of its hooks",
        "stripe",
        &["sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"],
        strict(alnum, 16, ANY),
    ),
    token("a token of npm", "npm", &["npm_"], common(alnum, 36, 36, digit_and_letter)),
    token("a token of PyPI", "pypi", &["pypi-"], common(word_dash, 50, ANY, digit_and_letter)),
    token("a token of Hugging Face", "hugging-face", &["hf_"], common(alnum, 30, ANY, mixed)),
    token(
        "a key of Groq, xAI or Perplexity",
        "other-models",
        &["gsk_", "xai-", "pplx-"],
        common(alnum, 40, ANY, digit_and_letter),
    ),
    token(
        "an API key of Twilio",
        "twilio",
        &[
            "SK0", "SK1", "SK2", "SK3", "SK4", "SK5", "SK6", "SK7", "SK8", "SK9", "SKa", "SKb", "SKc", "SKd",
            "SKe", "SKf",
        ],
        common(lower_hex, 31, 31, anything),
    ),
    token("a key of SendGrid", "sendgrid", &["SG."], common(word_dash_dot, 60, 80, mixed)),
    own("a JSON web token: header readable, payload and signature masked", "jwt", &["eyJ"], web::jwt, false),
    own("a private key in PEM", "private-key", &["-----BEGIN "], pem::private_key, true),
    own("the token of a bearer authorization", "bearer", &["earer", "EARER"], web::bearer, true),
    own("the credentials of a basic authorization", "basic", &["asic", "ASIC"], web::basic, true),
    own("the password in an address", "url-password", &["://"], web::password, false),
    own("a token of this server", "recount", &["rct_"], keyed::recount, false),
    own("an incoming webhook of Slack", "slack-hook", &["hooks.slack.com/"], web::slack_hook, false),
    named(
        "a password after its name; in code and prose only with a digit or a symbol",
        "password",
        named::PASSWORD_TRIGGERS,
        named::password,
    ),
    named(
        "a token, secret or API key after its name: at least 8 letters and digits that are not words",
        "named-key",
        named::KEY_TRIGGERS,
        named::key,
    ),
    named(
        "a cookie that looks like a key, and those after it in a request",
        "cookie",
        &["ookie", "OOKIE"],
        named::cookie,
    ),
];

impl Detector {
    /// Whether its triggers are names, of which there are many in ordinary text.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self.check, Check::Named(_))
    }

    pub(crate) fn look(&self, window: &Window<'_>, at: usize, trigger: usize) -> Verdict {
        let hit = Hit { at, end: at + trigger };
        match &self.check {
            Check::Token(token) => token.look(window, hit),
            Check::Own(check) | Check::Named(check) => check(window, hit),
        }
    }

    /// Whether it may be at a place in JSON, of which the strings are not decoded yet.
    pub(crate) fn may_be_in(&self, json: &Window<'_>, at: usize, trigger: usize) -> bool {
        if self.is_named() {
            return named::may_follow(json.bytes, at + trigger);
        }
        let near = &json.bytes[at..json.len().min(at + ESCAPE_NEAR)];
        (self.reads_escapes && memchr::memchr(b'\\', near).is_some())
            || self.look(json, at, trigger) != Verdict::No
    }
}

impl Token {
    fn look(&self, window: &Window<'_>, hit: Hit) -> Verdict {
        if self.word && !window.word_begins(hit.at) {
            return Verdict::No;
        }
        let least = window.run(hit.end, self.min, self.class);
        if least < hit.end + self.min {
            return if window.may_go_on(least) { self.open(window, hit) } else { Verdict::No };
        }
        let masked = (hit.end..least).any(|at| window.is_masked(at));
        if !masked && !(self.looks)(&window.bytes[hit.end..least]) {
            return Verdict::No;
        }
        let more = if self.max == ANY { ANY } else { self.max - self.min + 1 };
        let end = window.run(least, more, self.class);
        if self.max != ANY && end > hit.end + self.max {
            return Verdict::No;
        }
        match window.may_go_on(end) {
            // One byte more, and it would not be one.
            true if self.max != ANY => self.open(window, hit),
            goes_on => Verdict::Yes { from: hit.end, to: end, goes_on },
        }
    }

    fn open(&self, window: &Window<'_>, hit: Hit) -> Verdict {
        Verdict::Open { from: if self.common { beyond_shown(window, hit.end) } else { hit.end } }
    }
}

/// Where masking of a possible secret begins: after the bytes that are released, and only
/// if they do not look like a word.
pub(crate) fn beyond_shown(window: &Window<'_>, from: usize) -> usize {
    let end = window.len();
    let shown = from + SHOWN_BYTES_MAX;
    if shown >= end {
        return end;
    }
    if (from..end).any(|at| window.is_masked(at)) {
        return shown;
    }
    // Words have no digits, and capitals only at their beginning: from where one does come it is no word.
    let telling = |at: &usize| {
        let byte = window.bytes[*at];
        byte.is_ascii_digit() || (*at > from && byte.is_ascii_uppercase())
    };
    (from..end).find(telling).map_or(end, |at| shown.max(at))
}

/// The table in words, for pages about it.
pub fn describe() -> String {
    let mut page = String::from("| shape | starts with | what it is |\n| --- | --- | --- |\n");
    for row in TABLE {
        let shown = match row.name {
            "twilio" => &["SK"] as &[&str],
            "password" => &["password", "passwd", "passphrase", "pwd"],
            "named-key" => &["token", "secret", "api_key", "api-key"],
            "bearer" => &["Bearer"],
            "basic" => &["Basic"],
            "cookie" => &["Cookie", "Set-Cookie"],
            _ => row.triggers,
        };
        let triggers: Vec<String> = shown.iter().map(|trigger| format!("`{}`", trigger.trim())).collect();
        page.push_str(&format!("| {} | {} | {} |\n", row.name, triggers.join(" "), row.about));
    }
    page.push_str(
        "| card | a digit | a payment card number: 13 to 19 digits of a known network with a valid check \
         digit, together or in groups |\n",
    );
    page
}

pub(crate) fn anything(_: &[u8]) -> bool {
    true
}

pub(crate) fn digit_and_letter(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_digit) && bytes.iter().any(u8::is_ascii_alphabetic)
}

/// Capitals and small letters.
pub(crate) fn mixed(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_uppercase) && bytes.iter().any(u8::is_ascii_lowercase)
}

pub(crate) fn alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn upper_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The letters of base64 for addresses.
pub(crate) fn word_dash(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

pub(crate) fn word_dash_dot(byte: u8) -> bool {
    word_dash(byte) || byte == b'.'
}

/// The letters of plain base64.
pub(crate) fn base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}
