//! Matches tool names, with the syntax of Claude Code's hook matchers.
//!
//! An empty matcher and `*` match every tool. Letters, digits, `_` and `|` form names that must be equal. Anything else
//! is a regular expression that is searched in the name. Start at [`Matcher::parse`]. Pure.

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use crate::limits;

/// A parsed matcher.
#[derive(Debug, Clone)]
pub(super) enum Matcher {
    All,
    Names(Vec<String>),
    Pattern(RegexMatcher),
}

impl Matcher {
    pub(super) fn parse(text: &str) -> Result<Matcher, String> {
        if text.chars().count() > limits::PATTERN_CHARS_MAX {
            return Err(format!("it is longer than {} characters", limits::PATTERN_CHARS_MAX));
        }
        if text.is_empty() || text == "*" {
            return Ok(Matcher::All);
        }
        if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_|".contains(&byte)) {
            return Ok(Matcher::Names(text.split('|').map(str::to_owned).collect()));
        }
        let regex = RegexMatcherBuilder::new()
            .size_limit(limits::REGEX_BYTES_MAX)
            .dfa_size_limit(limits::REGEX_BYTES_MAX)
            .build(text);
        regex.map(Matcher::Pattern).map_err(|why| {
            format!(
                "{text:?} is not a regular expression: {why}; look-around and back-references are not supported"
            )
        })
    }

    pub(super) fn is_match(&self, name: &str) -> bool {
        match self {
            Matcher::All => true,
            Matcher::Names(names) => names.iter().any(|known| known == name),
            // An aborted search counts as a match: running the hook too often is safer.
            Matcher::Pattern(regex) => regex.is_match(name.as_bytes()).unwrap_or(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_are_names_lists_patterns_or_everything() {
        let is_match = |matcher: &str, name: &str| Matcher::parse(matcher).unwrap().is_match(name);
        for (matcher, found, not_found) in [
            ("", &["Bash", "mcp__a__b"][..], &[][..]),
            ("*", &["Bash", "mcp__a__b"], &[]),
            (".*", &["Bash", "mcp__a__b"], &[]),
            ("Bash", &["Bash"], &["bash", "BashOutput", ""]),
            ("Edit|Write", &["Edit", "Write"], &["MultiEdit", "Edit|Write", "WriteFile"]),
            ("mcp__memory__.*", &["mcp__memory__create"], &["mcp__memories__x", "Bash"]),
            ("mcp__.*__write.*", &["mcp__fs__write_file"], &["mcp__fs__read_file"]),
            ("^Edit$", &["Edit"], &["MultiEdit"]),
            ("Notebook.*", &["NotebookEdit"], &["Edit"]),
            ("(Multi)?Edit", &["Edit", "MultiEdit"], &["Write"]),
        ] {
            assert!(found.iter().all(|name| is_match(matcher, name)), "{matcher}");
            assert!(!not_found.iter().any(|name| is_match(matcher, name)), "{matcher}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_refused_and_quoted() {
        for (text, words) in [("(", "\"(\""), ("^(?!Bash).*$", "look-around"), (&"a".repeat(1_001), "1000")] {
            let why = Matcher::parse(text).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
