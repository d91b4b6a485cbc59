//! What the vocabulary promises, held against files that are committed.

mod blessed;
mod codec;
mod door;
mod fixtures;
mod generated;
mod json_text;
mod mutations;
mod rfc;
mod schemas;
