//! Truncates values and texts for findings and messages, at character boundaries.

/// Truncates the text of a finding.
pub(crate) fn bounded(text: String) -> String {
    if text.len() <= crate::limits::FINDING_BYTES_MAX {
        return text;
    }
    cut(&text, crate::limits::FINDING_BYTES_MAX)
}

/// Truncates a value for quoting in a finding.
pub(crate) fn quote(text: &str) -> String {
    cut(text, crate::limits::QUOTE_BYTES_MAX)
}

pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
