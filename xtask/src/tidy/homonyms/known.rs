//! Names of several types in one crate when the rule was added. The list is empty, and no name may be added.

use super::super::ratchet::Known;

pub(super) const KNOWN: &[Known] = &[];
