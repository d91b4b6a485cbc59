//! Errors of JSON texts, with their positions. Data only; [`super::Reader`] finds them.

use recount_json::Place;

/// Why a text is not valid JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    #[error("the text is empty; expected a JSON value")]
    Empty,
    #[error("the text ends in the middle of a value; the line is truncated")]
    Truncated,
    #[error("the bytes are not UTF-8; write JSON in UTF-8")]
    NotUtf8,
    #[error("the text begins with a byte order mark; remove it")]
    ByteOrderMark,
    #[error("`{0}` where {1} is expected")]
    Unexpected(char, &'static str),
    #[error("a comma before `{0}`; remove it")]
    TrailingComma(char),
    #[error("comments are not JSON; remove them")]
    Comment,
    #[error("`{0}` is not a JSON number; leave the field out or send a string")]
    NotANumber(&'static str),
    #[error("a number is not in JSON syntax")]
    NumberForm,
    #[error("the control character U+{0:04X} in a string; write it as an escape")]
    Control(u32),
    #[error("a string has an escape that is not valid JSON")]
    Escape,
    #[error("the lone surrogate \\u{0:04X}; a character beyond U+FFFF needs both halves")]
    LoneSurrogate(u32),
    #[error("the key `{0}` appears twice in one object; keep one")]
    DuplicateKey(String),
    #[error("the value nests deeper than {0} levels; flatten it")]
    TooDeep(usize),
    #[error("there is more text after the value; send one value")]
    After,
    #[error("the text has {0} bytes, which exceeds the limit")]
    TooLong(usize),
}

impl Fault {
    /// The rule that this fault breaks.
    pub fn rule(&self) -> &'static str {
        match self {
            Fault::Truncated => "json.truncated",
            Fault::NotUtf8 => "json.encoding",
            Fault::ByteOrderMark => "json.bom",
            Fault::NotANumber(_) | Fault::NumberForm => "json.number",
            Fault::LoneSurrogate(_) => "json.surrogate",
            Fault::DuplicateKey(_) => "json.duplicate_key",
            Fault::TooDeep(_) => "json.depth",
            _ => "json.syntax",
        }
    }
}

/// The error of a JSON text, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault} ({place}{})", if path.is_empty() { String::new() } else { format!(", in {path}") })]
pub struct SyntaxError {
    pub fault: Fault,
    /// Bytes before the fault.
    pub offset: usize,
    pub place: Place,
    /// The value being parsed, such as `producer.agent_id` or `choices[2].label`; empty at the top.
    pub path: String,
}
