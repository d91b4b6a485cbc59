//! JSON as text with places: read once into a flat list of nodes, nothing copied, every fault named with line,
//! column and path. [`Reader`] is the entry point. It must not know the protocol.
//!
//! Refused, beside what is not JSON: duplicate keys, a byte order mark, `NaN` and `Infinity`, lone surrogates,
//! nesting beyond [`crate::limits::JSON_DEPTH_MAX`]. Readers disagree about these texts.

mod fault;
mod reader;
mod split;

pub use fault::{Fault, SyntaxError};
pub use reader::Reader;
pub use recount_json::{Doc, Items, Members, Node, Place, Sort};
pub use split::{Piece, Splitter};

use crate::limits;

/// The first integer whose size is beyond 2^53.
pub fn big_integer(doc: Doc<'_>) -> Option<Node<'_>> {
    doc.nodes().find(|node| {
        if !node.is_integer() {
            return false;
        }
        // Sixteen digits are the first that can be beyond 2^53.
        let digits = node.raw().trim_start_matches('-');
        let size = || digits.parse().unwrap_or(f64::INFINITY);
        digits.len() >= 16 && (digits == "9007199254740993" || size() > limits::INTEGER_MAX)
    })
}

/// The first string or key beyond [`crate::limits::STRING_BYTES_SOFT`].
pub fn long_string(doc: Doc<'_>) -> Option<Node<'_>> {
    doc.nodes().find(|node| node.sort() == Sort::Text && node.raw().len() > limits::STRING_BYTES_SOFT)
}
