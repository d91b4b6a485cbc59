//! Words that the tree had when the rule was written, and how often, by crate or folder.
//!
//! A row may become smaller or go, and none may be added.

use super::super::ratchet::Known;

#[rustfmt::skip]
pub(super) const KNOWN: &[Known] = &[
    ("crates/aaep", "begun", 32),
    ("crates/aaep", "is not there", 1),
    ("crates/aaep", "somebody", 12),
    ("crates/aaep", "stands in", 5),
    ("crates/aaep", "whoever", 2),
    ("crates/aaep-kit", "begun", 41),
    ("crates/aaep-kit", "is not there", 9),
    ("crates/aaep-kit", "mended", 2),
    ("crates/aaep-kit", "somebody", 40),
    ("crates/aaep-kit", "stands in", 12),
    ("crates/aaep-kit", "whoever", 6),
    ("crates/cli", "begun", 20),
    ("crates/cli", "is not there", 4),
    ("crates/cli", "mend", 3),
    ("crates/cli", "somebody", 49),
    ("crates/cli", "stands in", 6),
    ("crates/cli", "whoever", 19),
    ("crates/engine", "begun", 26),
    ("crates/engine", "is not there", 13),
    ("crates/engine", "mend", 1),
    ("crates/engine", "somebody", 35),
    ("crates/engine", "stands in", 13),
    ("crates/engine", "whoever", 33),
    ("crates/run", "is not there", 2),
    ("docs", "begun", 4),
    ("docs", "is not there", 4),
    ("docs", "mend", 1),
    ("docs", "somebody", 12),
    ("docs", "stands in", 4),
    ("docs", "whoever", 6),
    ("web", "somebody", 4),
    ("web", "stands in", 1),
    ("web", "whoever", 1),
    ("web-tests", "somebody", 2),
    ("web-tests", "stands in", 2),
    ("web-tests", "whoever", 1),
    ("xtask", "is not there", 1),
    ("xtask", "somebody", 2),
    ("xtask", "stands in", 3),
    ("xtask", "whoever", 1),
];
