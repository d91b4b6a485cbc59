//! Words that the tree had when the rule was written, and how often, by crate or folder.
//!
//! A row may become smaller or go, and none may be added.

use super::super::ratchet::Known;

#[rustfmt::skip]
pub(super) const KNOWN: &[Known] = &[
    ("crates/aaep-kit", "begun", 41),
    ("crates/aaep-kit", "is not there", 9),
    ("crates/aaep-kit", "mended", 2),
    ("crates/aaep-kit", "somebody", 39),
    ("crates/aaep-kit", "stands in", 10),
    ("crates/aaep-kit", "whoever", 6),
    ("docs", "begun", 1),
    ("docs", "is not there", 4),
    ("docs", "somebody", 1),
    ("docs", "stands in", 2),
    ("docs", "whoever", 1),
];
