//! Lexical rules: the formats of ids, times, language tags and other strings. Each [`Lex`] has a test function and an
//! equal regular expression for the JSON Schemas; a property test compares them.

pub mod time;

use crate::language;

/// One format of strings.
pub struct Lex {
    /// Its name in messages, with its article.
    pub name: &'static str,
    pub test: fn(&str) -> bool,
    /// The pattern for JSON Schema.
    pub pattern: &'static str,
    /// A valid example.
    pub example: &'static str,
}

impl std::fmt::Debug for Lex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

pub static EVENT_ID: Lex = Lex {
    name: "an event id",
    test: |text| prefixed(text, "evt_"),
    pattern: "^evt_[A-Za-z0-9]{1,64}$",
    example: "evt_8a3f5b22c91e4d7a",
};
pub static SESSION_ID: Lex = Lex {
    name: "a session id",
    test: |text| prefixed(text, "sess_"),
    pattern: "^sess_[A-Za-z0-9]{1,64}$",
    example: "sess_2c91a7b4d23f1e88",
};
pub static REPLY_TOKEN: Lex = Lex {
    name: "a reply token",
    test: |text| prefixed(text, "rpl_"),
    pattern: "^rpl_[A-Za-z0-9]{1,64}$",
    example: "rpl_4f8a2e7d9c1b6a3f",
};
pub static SUBSCRIPTION_ID: Lex = Lex {
    name: "a subscription id",
    test: |text| prefixed(text, "sub_"),
    pattern: "^sub_[A-Za-z0-9]{1,64}$",
    example: "sub_1f2e3d4c",
};
pub static TOOL_CALL_ID: Lex = Lex {
    name: "a tool call id",
    test: |text| prefixed(text, "call_"),
    pattern: "^call_[A-Za-z0-9]{1,64}$",
    example: "call_7a2b9c4e",
};
pub static OUTPUT_ID: Lex = Lex {
    name: "an output id",
    test: |text| prefixed(text, "out_"),
    pattern: "^out_[A-Za-z0-9]{1,64}$",
    example: "out_3a8c2",
};
pub static TOOL: Lex = Lex {
    name: "the name of a tool",
    test: |text| {
        let rest = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        worded(text, 1, 256, |byte| byte.is_ascii_alphabetic() || *byte == b'_', rest)
    },
    pattern: "^[A-Za-z_][A-Za-z0-9_.-]{0,255}$",
    example: "fetch_balance",
};
pub static ERROR_CODE: Lex = Lex {
    name: "an error code in capital letters",
    test: |text| {
        let rest = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
        worded(text, 2, 64, u8::is_ascii_uppercase, rest)
    },
    pattern: "^[A-Z][A-Z0-9_]{1,63}$",
    example: "TOOL_TIMEOUT",
};
pub static CANCELLATION_REASON: Lex = Lex {
    name: "a reason code in small letters",
    test: |text| {
        let rest = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
        worded(text, 2, 64, u8::is_ascii_lowercase, rest)
    },
    pattern: "^[a-z][a-z0-9_]{1,63}$",
    example: "user_pressed_escape",
};
/// A tag by the protocol's schemas; [`BCP47`] is stricter.
pub static LANGUAGE: Lex = Lex {
    name: "a language tag",
    test: language::looks_like_tag,
    pattern: "^[a-zA-Z]{1,8}(-[a-zA-Z0-9]{1,8})*$",
    example: "en-US",
};
pub static BCP47: Lex = Lex {
    name: "a well-formed BCP 47 language tag",
    test: language::is_well_formed,
    pattern: language::PATTERN,
    example: "en-US",
};
pub static VERSION: Lex = Lex {
    name: "a version of three numbers",
    test: is_version,
    pattern: "^[0-9]+\\.[0-9]+\\.[0-9]+(-[A-Za-z0-9.-]+)?$",
    example: "1.0.0",
};
pub static PUBLISHED: Lex = Lex {
    name: "a published version of the protocol",
    test: is_published,
    pattern: "^(1\\.[0-9]+\\.[0-9]+|0\\.1\\.0-draft)$",
    example: "1.0.0",
};
pub static MEDIA_TYPE: Lex = Lex {
    name: "a media type without parameters",
    test: |text| {
        let part = |text: &str| {
            let rest = |byte: &u8| byte.is_ascii_alphanumeric() || b".+_-".contains(byte);
            worded(text, 1, usize::MAX, u8::is_ascii_alphabetic, rest)
        };
        text.split_once('/').is_some_and(|(kind, name)| part(kind) && part(name))
    },
    pattern: "^[a-zA-Z][a-zA-Z0-9.+_-]*/[a-zA-Z][a-zA-Z0-9.+_-]*$",
    example: "text/plain",
};
/// A media type that may have parameters; [`MEDIA_TYPE`] is the protocol's form.
pub static MEDIA_TYPE_WITH_PARAMETERS: Lex = Lex {
    name: "a media type",
    test: |text| match text.split_once(';') {
        None => (MEDIA_TYPE.test)(text),
        Some((kind, parameters)) => {
            let printable = |byte| (b' '..=b'~').contains(&byte);
            (MEDIA_TYPE.test)(kind.trim_end_matches(' '))
                && !parameters.is_empty()
                && parameters.bytes().all(printable)
        }
    },
    pattern: "^[a-zA-Z][a-zA-Z0-9.+_-]*/[a-zA-Z][a-zA-Z0-9.+_-]*( *;[ -~]+)?$",
    example: "text/plain; charset=utf-8",
};
pub static SCRIPT: Lex = Lex {
    name: "a script of ISO 15924",
    test: |text| worded(text, 4, 4, u8::is_ascii_uppercase, u8::is_ascii_lowercase),
    pattern: "^[A-Z][a-z]{3}$",
    example: "Latn",
};
pub static SIGNATURE: Lex = Lex {
    name: "a compact JWS",
    test: |text| {
        let part = |text: &str| {
            let base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            worded(text, 1, usize::MAX, base64, base64)
        };
        let mut parts = text.split('.');
        parts.by_ref().take(3).filter(|text| part(text)).count() == 3 && parts.next().is_none()
    },
    pattern: "^[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+$",
    example: "eyJhbGciOiJFUzI1NiJ9.eyJhIjoxfQ.c2ln",
};
pub static URI: Lex = Lex {
    name: "an absolute URI",
    test: is_uri,
    pattern: "^[A-Za-z][A-Za-z0-9+.-]*:[!#-;=?-\\[\\]_a-z~%]+$",
    example: "https://example.org/a",
};
/// An RFC 3339 time with a zone; [`TIMESTAMP`] also checks the digits of the fraction.
pub static MOMENT: Lex = Lex {
    name: "an RFC 3339 timestamp with `T` and a time zone",
    test: |text| time::Moment::parse(text).is_some(),
    pattern: time::MOMENT_PATTERN,
    example: "2026-05-24T14:22:11.342Z",
};
/// A time in the protocol's format: no fraction, or three or six digits.
pub static TIMESTAMP: Lex = Lex {
    name: "a timestamp with three or six fractional digits",
    test: |text| time::Moment::parse(text).is_some_and(|moment| matches!(moment.digits, 0 | 3 | 6)),
    pattern: time::TIMESTAMP_PATTERN,
    example: "2026-05-24T14:22:11.342Z",
};
/// The prefix of an extension.
pub static EXTENSION_PREFIX: Lex = Lex {
    name: "an extension's prefix",
    test: |text| {
        let rest = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        worded(text, 1, 64, u8::is_ascii_alphabetic, rest) && !is_reserved_prefix(text)
    },
    pattern: "^(?!(aaep|xsd|rdf|rdfs)$)[A-Za-z][A-Za-z0-9_-]{0,63}$",
    example: "medai",
};

/// All formats, for tests and generated pages.
pub static ALL: &[&Lex] = &[
    &EVENT_ID,
    &SESSION_ID,
    &REPLY_TOKEN,
    &SUBSCRIPTION_ID,
    &TOOL_CALL_ID,
    &OUTPUT_ID,
    &TOOL,
    &ERROR_CODE,
    &CANCELLATION_REASON,
    &LANGUAGE,
    &BCP47,
    &VERSION,
    &PUBLISHED,
    &MEDIA_TYPE,
    &MEDIA_TYPE_WITH_PARAMETERS,
    &SCRIPT,
    &SIGNATURE,
    &URI,
    &MOMENT,
    &TIMESTAMP,
    &EXTENSION_PREFIX,
];

/// Prefixes that no extension may have.
pub fn is_reserved_prefix(text: &str) -> bool {
    matches!(text, "aaep" | "xsd" | "rdf" | "rdfs") || text.starts_with('@')
}

/// Lookup table of letters and digits, because most checked strings are ids.
const ALPHANUMERIC: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0_u8;
    while at < 128 {
        table[at as usize] = at.is_ascii_alphanumeric();
        at += 1;
    }
    table
};

fn prefixed(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        (1..=64).contains(&rest.len()) && rest.bytes().all(|byte| ALPHANUMERIC[byte as usize])
    })
}

fn worded(
    text: &str,
    min: usize,
    max: usize,
    first: impl Fn(&u8) -> bool,
    rest: impl Fn(&u8) -> bool,
) -> bool {
    let bytes = text.as_bytes();
    (min..=max).contains(&bytes.len()) && bytes.first().is_some_and(first) && bytes[1..].iter().all(rest)
}

fn is_version(text: &str) -> bool {
    let (numbers, label) =
        text.split_once('-').map_or((text, None), |(numbers, label)| (numbers, Some(label)));
    let mut parts = numbers.split('.');
    let numeric = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.by_ref().take(3).filter(|part| numeric(part)).count() == 3
        && parts.next().is_none()
        && label.is_none_or(|label| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
        })
}

fn is_published(text: &str) -> bool {
    text == "0.1.0-draft" || (text.starts_with("1.") && !text.contains('-') && is_version(text))
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let scheme_rest = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    worded(scheme, 1, usize::MAX, u8::is_ascii_alphabetic, scheme_rest)
        && !rest.is_empty()
        && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
}
