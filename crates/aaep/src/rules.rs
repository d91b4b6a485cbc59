//! The table of rules: each has a stable id, a source, a severity in each profile, and a remedy. Start at [`ALL`]. It
//! must not know events: [`crate::rule`] finds violations.

mod page;
mod table;

pub use page::page;
pub use table::*;

/// How violations are graded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// By the text of the specification: a violation of any MUST is an error.
    #[default]
    Strict,
    /// By existing software: errors are violations that the protocol's schemas or its conformance suite reject, or that
    /// make an action unsafe. Violations of the text alone are warnings.
    Compat,
}

/// How severe a violation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Information; never changes a verdict.
    Note,
    /// A violation of a SHOULD, or an uncertain one.
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

/// The source of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The protocol's JSON Schemas contain it too.
    Schema,
    /// Only the text of the specification contains it.
    Prose,
    /// The protocol's conformance suite checks it.
    Suite,
    /// Good practice: a SHOULD of the specification, or no text.
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

/// The layer of a rule, in the order of the steps of §3.9, by which findings of one event are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The text is valid JSON.
    Text,
    /// Required fields are present.
    Required,
    /// Fields have the right type and format.
    Form,
    /// The type is known, and the payload matches it.
    Payload,
    /// Extensions.
    Extension,
    /// Sizes and advice.
    Advice,
    /// Messages other than events.
    Message,
    /// Whole sessions.
    Session,
}

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// Stable: findings and other projects refer to it.
    pub id: &'static str,
    pub layer: Layer,
    pub source: Source,
    /// Requirement and section.
    pub cites: &'static str,
    pub strict: Option<Severity>,
    pub compat: Option<Severity>,
    /// Whether our own JSON Schemas include it: they reject an event that violates it.
    pub in_schema: bool,
    /// The requirement, as one sentence.
    pub statement: &'static str,
    /// How to fix a violation.
    pub remedy: &'static str,
}

impl Rule {
    /// The severity of a violation; `None` if the rule is off in the profile.
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
