//! Findings: one breach of a rule each, and the list that collects them.

use super::{Profile, Rule, Severity};
use crate::json::{Node, Place};
use crate::quote::{bounded, cut};

/// A breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub rule: &'static Rule,
    pub severity: Severity,
    /// The line of the file, from 1, when the caller said where the text begins; 0 when not.
    pub line: usize,
    /// The event it is about, if it has an id.
    pub event_id: Option<String>,
    /// The value it is about, as `producer.agent_id`; empty for the event as a whole.
    pub path: String,
    /// Where in the text of the event; the first character where the finding is about the whole.
    pub place: Place,
    /// What is so and should not be; a fragment.
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

/// Gathers findings for one profile. What the profile does not look for costs nothing.
#[derive(Debug, Default)]
pub struct Findings {
    profile: Profile,
    pub(crate) found: Vec<Finding>,
    /// How many there were when the present text began.
    began: usize,
}

impl Findings {
    pub fn new(profile: Profile) -> Self {
        Findings { profile, found: Vec::new(), began: 0 }
    }

    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Takes what was found since the last time.
    pub fn take(&mut self) -> Vec<Finding> {
        self.began = 0;
        std::mem::take(&mut self.found)
    }

    /// The next text begins; answers how many findings there are. Of each text at most
    /// [`crate::limits::FINDINGS_PER_TEXT_MAX`] are kept, errors before all others.
    pub(crate) fn begin(&mut self) -> usize {
        self.began = self.found.len();
        self.began
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Notes a breach; the message is made only when the profile looks.
    pub(crate) fn add(
        &mut self,
        rule: &'static Rule,
        text: &str,
        node: Option<Node<'_>>,
        path: impl FnOnce() -> String,
        message: impl FnOnce() -> String,
    ) {
        let Some(severity) = rule.severity(self.profile) else { return };
        if self.found.len() - self.began >= crate::limits::FINDINGS_PER_TEXT_MAX && !self.make_room(severity)
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

    /// Gives up the last finding of the present text that is less grave than the next one, so that no number of notes
    /// hides an error.
    #[cold]
    fn make_room(&mut self, severity: Severity) -> bool {
        let own = &self.found[self.began..];
        let Some(at) = own.iter().rposition(|finding| finding.severity < severity) else { return false };
        self.found.remove(self.began + at);
        true
    }

    /// Puts the findings from here on into the order of §3.9 and names the event.
    pub(crate) fn settle(&mut self, from: usize, event_id: Option<&str>) {
        let new = &mut self.found[from..];
        new.sort_by_key(|finding| finding.rule.layer);
        for finding in new {
            finding.event_id = event_id.map(|id| cut(id, crate::limits::FINDING_BYTES_MAX));
        }
    }
}
