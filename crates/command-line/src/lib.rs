//! What the command-line programs share: output for people and for programs ([`output`]), text that is harmless to a
//! terminal ([`clean`]), line breaking ([`flow`]), help that describes global options once ([`global_options`]), the token for a server ([`credential`]) and files that exist only when
//! they are whole ([`partial`]).
//!
//! It must not know verbs, servers or protocols.

pub mod clean;
pub mod credential;
pub mod flow;
pub mod global_options;
pub mod limits;
pub mod output;
pub mod partial;
