//! Text that grows by small pieces, in copies that share the old part.

use std::sync::Arc;

/// A part that has reached this size is never touched again.
const PART_BYTES: usize = 16 << 10;

/// The joined pieces of an open block.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedText {
    parts: Vec<Arc<String>>,
    bytes: usize,
}

impl SharedText {
    pub(crate) fn push(&mut self, piece: &str) {
        self.bytes += piece.len();
        match self.parts.last_mut() {
            Some(last) if last.len() < PART_BYTES => Arc::make_mut(last).push_str(piece),
            _ => self.parts.push(Arc::new(piece.to_owned())),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn text(&self) -> String {
        self.parts.iter().map(|part| part.as_str()).collect()
    }

    /// Whether the pieces, joined, are this text.
    pub(crate) fn is(&self, text: &str) -> bool {
        let rest = self.parts.iter().try_fold(text, |rest, part| rest.strip_prefix(part.as_str()));
        rest == Some("")
    }

    /// How many links a copy takes.
    #[cfg(test)]
    pub(crate) fn links(&self) -> usize {
        self.parts.len()
    }
}

/// Equal texts are equal, however they were split.
impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.text() == other.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_compares_and_shares() {
        let mut text = SharedText::default();
        assert!(text.is("") && !text.is("a"));
        let mut whole = String::new();
        for n in 0..100_000 {
            let piece = format!("{n} é ");
            text.push(&piece);
            whole.push_str(&piece);
        }
        assert!(text.is(&whole) && text.text() == whole && text.bytes() == whole.len());
        assert!(!text.is(&whole[1..]) && !text.is(&format!("{whole}!")));
        assert!(text.links() <= whole.len() / PART_BYTES + 1);

        let mut copy = text.clone();
        copy.push("x");
        let shared = text.parts.iter().zip(&copy.parts).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, text.parts.len() - 1, "only the last part is copied");
    }
}
