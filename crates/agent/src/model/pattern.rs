//! Patterns for model names in the configuration: a name, or a prefix followed by `*`.
//!
//! It must not know what is configured with a pattern. Start with [`Pattern`].

use serde::Deserialize;

/// A name, or a prefix of names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern {
    text: String,
    is_prefix: bool,
}

impl Pattern {
    /// The rest of a matching name after the prefix; empty for an exact match.
    pub fn rest<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(self.text.as_str()).filter(|rest| self.is_prefix || rest.is_empty())
    }

    /// How specific the pattern is. The most specific of several matching patterns counts.
    pub fn specificity(&self) -> (bool, usize) {
        (!self.is_prefix, self.text.len())
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        let (text, is_prefix) = match written.strip_suffix('*') {
            Some(text) => (text.to_owned(), true),
            None => (written.clone(), false),
        };
        if written.is_empty() || text.contains('*') {
            return Err(format!(
                "{written:?} is not a model pattern; write a name, or a prefix followed by `*`"
            ));
        }
        Ok(Pattern { text, is_prefix })
    }
}

/// The value of the most specific matching pattern.
pub(super) fn most_specific<'a, T>(all: impl Iterator<Item = (&'a Pattern, T)>, name: &str) -> Option<T> {
    let matching = all.filter(|(pattern, _)| pattern.rest(name).is_some());
    let mut best: Option<(&Pattern, T)> = None;
    for (pattern, value) in matching {
        if best.as_ref().is_none_or(|(before, _)| pattern.specificity() > before.specificity()) {
            best = Some((pattern, value));
        }
    }
    best.map(|(_, value)| value)
}
