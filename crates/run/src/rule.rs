//! The grammar, one sentence a rule.

/// One rule of the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Stable and dotted.
    pub id: &'static str,
    pub sentence: &'static str,
    pub reach: Reach,
}

/// Where a rule can be seen to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// In the log: [`crate::decide`] and [`crate::audit`] both hold it.
    Log,
    /// Only where events are reported, because the log does not say who wrote an event.
    Command,
}

/// All rules.
pub const RULES: &[Rule] = &[];

/// The reference page.
pub fn grammar_page() -> String {
    String::new()
}
