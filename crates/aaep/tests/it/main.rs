//! Integration tests of the library: messages, builders, rules, sessions, schemas and shaping.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod build;
mod corpus;
mod corruption;
mod events;
mod examples;
mod fault_kinds;
mod fuzz;
mod json;
mod markdown;
mod negotiate;
mod order;
mod package;
mod produce;
mod schemas;
mod sessions;
mod shaping;
mod texts;
