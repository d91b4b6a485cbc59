//! Names of models as configuration writes them: whole, or the beginning with a `*` behind it.
//!
//! Look at [`Pattern`]. It must never know what is configured by it.

use serde::Deserialize;

/// A name, or the beginning of names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern {
    text: String,
    is_prefix: bool,
}

impl Pattern {
    /// What the name has behind the pattern's text, when it fits; nothing for a whole name.
    pub fn rest<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(self.text.as_str()).filter(|rest| self.is_prefix || rest.is_empty())
    }

    /// How exactly it names what it names; of several that fit, the most exact counts.
    pub fn weight(&self) -> (bool, usize) {
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
            return Err(format!("{written:?} names no models; write a name, or its beginning and one `*`"));
        }
        Ok(Pattern { text, is_prefix })
    }
}

/// The most exact of those that fit.
pub(super) fn most_exact<'a, T>(all: impl Iterator<Item = (&'a Pattern, T)>, name: &str) -> Option<T> {
    let fitting = all.filter(|(pattern, _)| pattern.rest(name).is_some());
    let mut best: Option<(&Pattern, T)> = None;
    for (pattern, thing) in fitting {
        if best.as_ref().is_none_or(|(before, _)| pattern.weight() > before.weight()) {
            best = Some((pattern, thing));
        }
    }
    best.map(|(_, thing)| thing)
}
