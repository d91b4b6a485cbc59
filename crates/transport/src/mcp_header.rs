//! Texts of MCP requests in HTTP headers: as they are if a header can carry them, otherwise as marked base64.
//!
//! Pure. Entry points: [`encode`] and [`decode`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const MARK: &str = "=?base64?";
const END: &str = "?=";

/// Encodes a text for a header.
pub fn encode(text: &str) -> String {
    let is_marked = text.starts_with(MARK) && text.ends_with(END);
    let is_plain =
        text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) && text.trim() == text && !is_marked;
    if is_plain { text.to_owned() } else { format!("{MARK}{}{END}", STANDARD.encode(text)) }
}

/// Decodes the text of a header. Returns `None` for marked base64 that is not valid.
pub fn decode(value: &str) -> Option<String> {
    match value.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(END)) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_survives_a_header() {
        for text in ["read_file", "größe", " padded ", "a\nb", "", "=?base64?eA==?="] {
            let encoded = encode(text);
            assert!(encoded.bytes().all(|byte| (0x20..=0x7e).contains(&byte)), "{encoded}");
            assert_eq!(encoded.trim(), encoded);
            assert_eq!(decode(&encoded).as_deref(), Some(text));
        }
        assert_eq!(encode("read_file"), "read_file");
        for broken in ["=?base64?!?=", "=?base64?/w==?="] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
