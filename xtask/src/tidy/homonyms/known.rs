//! Names that stood for several types of one crate when the rule was written, and how many each.
//!
//! A row may become smaller or go, and none may be added.

use super::super::ratchet::Known;

#[rustfmt::skip]
pub(super) const KNOWN: &[Known] = &[
    ("crates/aaep", "Asks", 2),
    ("crates/aaep", "Change", 2),
    ("crates/aaep", "Field", 2),
    ("crates/aaep", "Piece", 2),
    ("crates/aaep", "Place", 2),
    ("crates/aaep", "Terms", 2),
    ("crates/aaep", "Track", 2),
    ("crates/aaep", "Written", 2),
    ("crates/aaep-kit", "Behaviour", 2),
    ("crates/aaep-kit", "Direction", 2),
    ("crates/aaep-kit", "Ended", 2),
    ("crates/aaep-kit", "Feed", 2),
    ("crates/aaep-kit", "Heard", 3),
    ("crates/aaep-kit", "Line", 3),
    ("crates/aaep-kit", "Open", 2),
    ("crates/aaep-kit", "Options", 2),
    ("crates/aaep-kit", "Outcome", 3),
    ("crates/aaep-kit", "Player", 2),
    ("crates/aaep-kit", "Reply", 2),
    ("crates/aaep-kit", "Room", 2),
    ("crates/aaep-kit", "Saying", 2),
    ("crates/aaep-kit", "Script", 2),
    ("crates/aaep-kit", "Sent", 2),
    ("crates/aaep-kit", "Subscription", 2),
    ("crates/aaep-kit", "Surface", 3),
    ("crates/aaep-kit", "Times", 2),
    ("crates/aaep-kit", "Told", 3),
    ("crates/aaep-kit", "Verdict", 2),
];
