//! A strict scanner of JSON text: tokens with their places, nothing copied, each fault named.
//!
//! It must not know what the text is for: it builds no values, writes nothing and has no size limits.
//! It does not recurse, so nesting costs memory and never the stack.
//! [`Scanner`] is the entry point; [`unescape`] decodes the content of a string token.

mod fault;
mod keys;
mod scan;
mod text;

pub use fault::{Fault, Reason};
pub use scan::{Kind, Scanner, Token};
pub use text::unescape;
