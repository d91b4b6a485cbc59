//! Terminal colours, where allowed. They never carry meaning alone: coloured text has the same meaning without them.
//!
//! Only colours are set and set back; nothing moves the cursor, and nothing is overwritten.

/// Whether colours are used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    pub(in crate::render) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(in crate::render) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(in crate::render) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(in crate::render) fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(in crate::render) fn notable(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Signs that repeat the meaning of the word beside them.
const SIGNS: &[&str] = &["▸ ", "◂ ", "✓ ", "✗ "];

/// A line without the sign that it begins with.
pub(crate) fn without_sign(line: &str) -> &str {
    SIGNS.iter().find_map(|sign| line.strip_prefix(sign)).unwrap_or(line)
}
