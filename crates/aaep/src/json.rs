//! Parses JSON into a flat list of nodes without copying; every error has a line, a column and a path. Start at
//! [`Reader`]. This module must not know the protocol.
//!
//! Rejected besides invalid JSON: duplicate keys, a byte order mark, `NaN` and `Infinity`, lone surrogates,
//! nesting beyond [`crate::limits::JSON_DEPTH_MAX`]. Parsers disagree about these texts.

mod fault;
mod reader;
mod split;

pub use fault::{Fault, SyntaxError};
pub use reader::Reader;
pub use recount_json::{Doc, Items, Members, Node, Place, Sort};
pub use split::{Piece, Splitter};

use crate::limits;

/// The first integer beyond 2^53.
pub fn big_integer(doc: Doc<'_>) -> Option<Node<'_>> {
    doc.nodes().find(|node| {
        if !node.is_integer() {
            return false;
        }
        // Integers beyond 2^53 have at least sixteen digits.
        let digits = node.raw().trim_start_matches('-');
        let size = || digits.parse().unwrap_or(f64::INFINITY);
        digits.len() >= 16 && (digits == "9007199254740993" || size() > limits::INTEGER_MAX)
    })
}

/// The first string or key beyond [`crate::limits::STRING_BYTES_SOFT`].
pub fn long_string(doc: Doc<'_>) -> Option<Node<'_>> {
    doc.nodes().find(|node| node.sort() == Sort::Text && node.raw().len() > limits::STRING_BYTES_SOFT)
}
