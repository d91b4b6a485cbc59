//! Findings: violations of rules, and the list that collects them.

use super::{Profile, Rule, Severity};
use crate::json::{Node, Place};
use crate::quote::{bounded, cut};

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub rule: &'static Rule,
    pub severity: Severity,
    /// The line of the file, from 1; 0 if the caller gave no line.
    pub line: usize,
    /// The id of the event, if it has one.
    pub event_id: Option<String>,
    /// The value, such as `producer.agent_id`; empty for the whole event.
    pub path: String,
    /// The position in the text of the event; the first character for the whole event.
    pub place: Place,
    /// What is wrong; a sentence fragment.
    pub message: String,
}

impl Eq for Rule {}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.severity.name(), self.rule.id, self.message)?;
        if !self.path.is_empty() {
            write!(f, " (at `{}`)", self.path)?;
        }
        write!(f, ". {} ({})", self.rule.remedy, self.rule.cites)
    }
}

/// Collects findings for one profile. Rules that are off in the profile cost nothing.
#[derive(Debug, Default)]
pub struct Findings {
    profile: Profile,
    pub(crate) found: Vec<Finding>,
    /// Number of findings when the current text began.
    began: usize,
}

impl Findings {
    pub fn new(profile: Profile) -> Self {
        Findings { profile, found: Vec::new(), began: 0 }
    }

    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Takes the findings since the last call.
    pub fn take(&mut self) -> Vec<Finding> {
        self.began = 0;
        std::mem::take(&mut self.found)
    }

    /// Starts the next text; returns the number of findings so far. Of each text, at most
    /// [`crate::limits::FINDINGS_PER_TEXT_MAX`] are kept, errors first.
    pub(crate) fn begin(&mut self) -> usize {
        self.began = self.found.len();
        self.began
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Adds a finding; the message is built only if the rule is on in the profile.
    pub(crate) fn add(
        &mut self,
        rule: &'static Rule,
        text: &str,
        node: Option<Node<'_>>,
        path: impl FnOnce() -> String,
        message: impl FnOnce() -> String,
    ) {
        let Some(severity) = rule.severity(self.profile) else { return };
        if self.found.len() - self.began >= crate::limits::FINDINGS_PER_TEXT_MAX
            && !self.evict_less_severe(severity)
        {
            return;
        }
        self.found.push(Finding {
            rule,
            severity,
            line: 0,
            event_id: None,
            path: bounded(path()),
            place: Place::of(text, node.map_or_else(|| text.len() - text.trim_start().len(), Node::offset)),
            message: bounded(message()),
        });
    }

    /// Removes the last finding of the current text that is less severe than the next one, so that notes never hide an
    /// error.
    #[cold]
    fn evict_less_severe(&mut self, severity: Severity) -> bool {
        let own = &self.found[self.began..];
        let Some(at) = own.iter().rposition(|finding| finding.severity < severity) else { return false };
        self.found.remove(self.began + at);
        true
    }

    /// Sorts the findings from this index in the order of §3.9 and sets the event id.
    pub(crate) fn settle(&mut self, from: usize, event_id: Option<&str>) {
        let new = &mut self.found[from..];
        new.sort_by_key(|finding| finding.rule.layer);
        for finding in new {
            finding.event_id = event_id.map(|id| cut(id, crate::limits::FINDING_BYTES_MAX));
        }
    }
}
