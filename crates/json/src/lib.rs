//! A strict scanner of JSON text: tokens with their positions, nothing copied, each fault named.
//!
//! It must not know what the text is for: it creates no values, writes nothing and has no limits on size beyond its own.
//! It does not recurse, so nesting costs memory and never the stack.
//! [`Scanner`] is the entry point, [`Reader`] keeps the tokens of a whole text for lookups, and [`unescape`] decodes the
//! content of a string token.

mod fault;
mod keys;
mod place;
mod reader;
mod scan;
mod text;
mod tree;

pub use fault::{Fault, Reason};
pub use place::Place;
pub use reader::{ReadFault, Reader};
pub use scan::{Kind, Scanner, Token};
pub use text::unescape;
pub use tree::{Doc, Items, Members, Node, Sort};
