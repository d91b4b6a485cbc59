//! Functions that were too long when the rule was written, and their lines.
//!
//! A row may become smaller or go, and none may be added.

use super::super::ratchet::Known;

#[rustfmt::skip]
pub(super) const KNOWN: &[Known] = &[
    ("crates/aaep-kit/src/scripted/scripts.rs", "script", 124),
    ("crates/aaep/src/shape.rs", "check", 122),
    ("crates/aaep/tests/produce/steps.rs", "misuse_is_refused_and_changes_nothing", 139),
    ("crates/aaep/tests/shaping/flow.rs", "nothing_is_lost_and_no_second_is_too_full", 145),
    ("crates/agent/src/policy/command/tests.rs", "what_cannot_be_judged_in_full_says_so", 222),
    ("crates/agent/src/policy/command/trace.rs", "soup", 224),
    ("crates/agent/src/policy/risk.rs", "by_name", 139),
    ("crates/agent/src/policy/risk/tests.rs", "commands_are_judged_by_their_words", 128),
    ("crates/cli/src/render/sentence/run.rs", "of", 139),
    ("crates/server/src/config.rs", "settle", 174),
    ("crates/server/src/config/runs.rs", "settle", 151),
];
