//! Integration tests of the library: messages, builders, rules, sessions, schemas and shaping.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod build;
mod corpus;
mod corruption;
mod events;
mod examples;
mod fuzz;
mod json;
mod negotiate;
mod order;
mod package;
mod produce;
mod schemas;
mod sessions;
mod shaping;
mod texts;
