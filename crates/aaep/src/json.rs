//! JSON as text with places: read once into a flat list of nodes, nothing copied, every fault named with line,
//! column and path. [`Reader`] is the way in. Knows nothing of the protocol.
//!
//! Refused, beside what is not JSON: duplicate keys, a byte order mark, `NaN` and `Infinity`, lone surrogates,
//! nesting beyond [`crate::limits::JSON_DEPTH_MAX`]. These are texts that readers do not read alike.

mod doc;
mod fault;
mod scan;
mod split;

pub use doc::{Doc, Items, Members, Node, Sort};
pub use fault::{Fault, Place, SyntaxError};
pub use scan::Reader;
pub use split::{Piece, Splitter};
