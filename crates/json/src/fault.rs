//! The faults of a JSON text: their kinds and places. Names them; does not search for them.

use std::fmt;

/// A text that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub reason: Reason,
    /// Bytes before the fault.
    pub at: usize,
    /// Where the token begins that the fault is in; [`Fault::at`] between tokens.
    pub start: usize,
}

/// Why a text is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A colon is missing after a key.
    Colon,
    /// An unescaped character below U+0020 in a string.
    Control,
    /// A number lacks a digit here.
    Digit,
    /// A key comes twice; its second token ends here.
    DuplicateKey { end: usize },
    /// The text ends where a value is expected.
    End,
    /// A backslash is followed by none of JSON's escapes.
    Escape,
    /// `\u` is not followed by four hex digits.
    HexDigits,
    /// A key is missing: neither a string nor, in a new object, its end.
    Key,
    /// A number begins with 0 and goes on with digits.
    LeadingZero,
    /// Neither a comma nor the end follows a value of an array.
    NextItem,
    /// Neither a comma nor the end follows a value of an object.
    NextMember,
    /// Something follows the outermost value.
    Rest,
    /// Half of a surrogate pair.
    Surrogate,
    /// Nesting beyond this many levels.
    TooDeep(usize),
    /// A text of more than this many bytes, which only [`crate::Reader`] refuses.
    TooLong(usize),
    /// The text ends within a string.
    Unterminated,
    /// No value begins like this.
    Value,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Colon => "a colon must follow the key",
            Reason::Control => "a control character must be escaped",
            Reason::Digit => "a digit must follow",
            Reason::DuplicateKey { .. } => "duplicate key in an object",
            Reason::End => "the text ends where a value is expected",
            Reason::Escape => "invalid escape sequence",
            Reason::HexDigits => "four hex digits must follow \\u",
            Reason::Key => "a key must be a string",
            Reason::LeadingZero => "a number must not begin with 0",
            Reason::NextItem => "a comma or the end of the array must follow",
            Reason::NextMember => "a comma or the end of the object must follow",
            Reason::Rest => "unexpected characters after the value",
            Reason::Surrogate => "unpaired surrogate",
            Reason::TooDeep(levels) => return write!(f, "nested deeper than {levels} levels"),
            Reason::TooLong(bytes) => return write!(f, "longer than {bytes} bytes"),
            Reason::Unterminated => "unterminated string",
            Reason::Value => "invalid start of a JSON value",
        })
    }
}
