//! What applications are told of runs: streams that an independent reader takes and folds as clients do, and
//! transcripts of every story.

#![allow(clippy::unwrap_used, reason = "in a test a surprise is a panic")]

#[path = "turns/checker.rs"]
mod checker;
#[path = "turns/properties.rs"]
mod properties;
#[path = "turns/reader.rs"]
mod reader;
#[path = "turns/table.rs"]
mod table;
#[path = "turns/told.rs"]
mod told;
#[path = "turns/transcripts.rs"]
mod transcripts;
