//! The rules, one row each: a stable id, where it is written, how grave a breach is in each profile, and what to do.
//! [`ALL`] is the table. It must not know events: [`crate::rule`] looks for breaches.

mod page;
mod table;

pub use page::page;
pub use table::*;

/// How findings are graded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// As the specification is worded: whatever it says MUST is an error.
    #[default]
    Strict,
    /// As what runs today: errors are what the protocol's schemas and its conformance suite refuse, and what makes
    /// an action unsafe; what only the text forbids is a warning.
    Compat,
}

/// How grave a breach is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; never changes a verdict.
    Note,
    /// A breach of a SHOULD, or something that cannot be told for certain.
    Warning,
    Error,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// Where a rule comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The protocol's JSON Schemas say it too.
    Schema,
    /// Only the text of the specification says it.
    Prose,
    /// The protocol's conformance suite looks for it.
    Suite,
    /// Good practice; the specification says SHOULD, or nothing.
    Lint,
}

impl Source {
    pub fn name(self) -> &'static str {
        match self {
            Source::Schema => "schema",
            Source::Prose => "prose",
            Source::Suite => "suite",
            Source::Lint => "lint",
        }
    }
}

/// Which layer holds a rule, and at which of the nine steps of §3.9 (findings of one event are in their order).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The text: is it JSON?
    Text,
    /// Required fields are there.
    Required,
    /// Fields are of the right type and form.
    Form,
    /// The type is known, the payload as its type asks.
    Payload,
    /// Extensions.
    Extension,
    /// Sizes, advice.
    Advice,
    /// Messages that are no events.
    Message,
    /// The session as a whole.
    Session,
}

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// Stable: findings carry it, files of others name it.
    pub id: &'static str,
    pub layer: Layer,
    pub source: Source,
    /// Requirement and section.
    pub cites: &'static str,
    pub strict: Option<Severity>,
    pub compat: Option<Severity>,
    /// Whether our own JSON Schemas say it as well: a breach makes an event invalid there.
    pub in_schema: bool,
    /// What holds.
    pub says: &'static str,
    /// What to do when it does not.
    pub remedy: &'static str,
}

impl Rule {
    /// How grave a breach is; `None` where the profile does not look.
    pub fn severity(&self, profile: Profile) -> Option<Severity> {
        match profile {
            Profile::Strict => self.strict,
            Profile::Compat => self.compat,
        }
    }

    /// The rule with this id.
    pub fn named(id: &str) -> Option<&'static Rule> {
        ALL.iter().copied().find(|rule| rule.id == id)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}
