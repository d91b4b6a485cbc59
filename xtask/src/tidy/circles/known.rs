//! Circles that existed when the rule was added. Lines may become shorter or be removed; none may be added.

/// A folder, and the modules in it that use each other, in order.
pub(super) type Known = (&'static str, &'static [&'static str]);

pub(super) const KNOWN: &[Known] = &[];
