//! Selects events by type and session: [`Filter`].

use recount_aaep::kind::{PREFIX, TYPES_URI, VOCABULARY_URI};

use crate::glance::Glance;

/// An empty list matches everything. Messages other than events always pass, because events cannot be interpreted
/// without handshakes and replies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Type names, or prefixes followed by `*`. The prefix `aaep:agent.` is optional.
    pub types: Vec<String>,
    pub urgencies: Vec<String>,
    pub sessions: Vec<String>,
}

impl Filter {
    pub(super) fn passes(&self, glance: &Glance) -> bool {
        let urgency = glance.urgency.as_deref().unwrap_or("normal");
        let is_one = |list: &[String], word: &str| list.is_empty() || list.iter().any(|known| known == word);
        (self.types.is_empty()
            || self.types.iter().any(|pattern| fits(pattern, glance.name.as_deref().unwrap_or_default())))
            && is_one(&self.urgencies, urgency)
            && self.is_about(glance)
    }

    /// Whether an event belongs to a selected session.
    pub(super) fn is_about(&self, glance: &Glance) -> bool {
        self.sessions.is_empty() || glance.session_id.as_ref().is_some_and(|id| self.sessions.contains(id))
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    // All spellings of the protocol's own types are equal.
    let own = |text: &str| {
        let short = [TYPES_URI, VOCABULARY_URI, PREFIX].iter().find_map(|start| text.strip_prefix(start));
        short.map(|short| short.strip_prefix("agent.").unwrap_or(short).to_owned())
    };
    let is_it = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    };
    match own(name) {
        Some(short) => {
            let pattern =
                own(pattern).unwrap_or_else(|| pattern.strip_prefix("agent.").unwrap_or(pattern).to_owned());
            is_it(&pattern, &short)
        }
        None => is_it(pattern, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_however_they_are_written() {
        for (pattern, name, expected) in [
            ("tool.invoked", "aaep:agent.tool.invoked", true),
            ("agent.tool.*", "aaep:agent.tool.invoked", true),
            ("aaep:agent.*", "https://aaep-protocol.org/types/agent.tool.invoked", true),
            ("https://aaep-protocol.org/types/agent.tool.invoked", "aaep:agent.tool.invoked", true),
            ("*", "medai:alert", true),
            ("medai:*", "medai:alert", true),
            ("invoked", "aaep:agent.tool.invoked", false),
            ("tool", "aaep:agent.tool.invoked", false),
            ("aaep:*", "medai:alert", false),
            ("alert", "medai:alert", false),
            ("tool.*", "aaep:agent.session.started", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_filter_requires_every_condition_and_missing_urgency_is_normal() {
        let event = |urgency: &str| {
            Glance::at(&format!(r#"{{"type":"aaep:agent.tool.invoked","session_id":"sess_1"{urgency}}}"#))
                .unwrap()
        };
        let filter = |types: &[&str], urgencies: &[&str], sessions: &[&str]| {
            let owned = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
            Filter { types: owned(types), urgencies: owned(urgencies), sessions: owned(sessions) }
        };
        assert!(Filter::default().passes(&event("")));
        assert!(filter(&["x", "tool.*"], &["normal"], &["sess_1"]).passes(&event("")));
        assert!(!filter(&["tool.*"], &["critical"], &[]).passes(&event("")));
        assert!(filter(&[], &["critical", "background"], &[]).passes(&event(r#","urgency":"critical""#)));
        assert!(!filter(&[], &[], &["sess_2"]).passes(&event("")));
        assert!(!filter(&["state.changed"], &[], &[]).passes(&event("")));
    }
}
