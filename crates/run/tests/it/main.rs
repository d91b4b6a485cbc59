//! Integration tests of the rules: whole runs.

#![allow(clippy::unwrap_used, reason = "tests")]

mod stories;
