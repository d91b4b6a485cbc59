//! Words that the tree had when the rule was written: none is left, and none may be added.

use super::super::ratchet::Known;

pub(super) const KNOWN: &[Known] = &[];
