//! Integration tests of masking: whole texts, and texts in pieces.

#![allow(clippy::unwrap_used, reason = "tests")]

mod corpus;
mod escapes;
mod pieces;
