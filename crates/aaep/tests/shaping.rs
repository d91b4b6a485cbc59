//! What one subscriber gets: tables of what is joined, cut, left out and let through, and properties that hold for any
//! stream.

#![allow(clippy::unwrap_used, reason = "in a test a surprise is a panic")]

#[path = "shaping/cuts.rs"]
mod cuts;
#[path = "shaping/flow.rs"]
mod flow;
#[path = "shaping/holding.rs"]
mod holding;
#[path = "shaping/joining.rs"]
mod joining;
#[path = "shaping/stage.rs"]
mod stage;
#[path = "shaping/streams.rs"]
mod streams;
#[path = "shaping/wishes.rs"]
mod wishes;
