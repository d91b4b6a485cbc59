//! Tests of projected turns: streams that an independent reader folds as clients do, and transcripts of every story.

mod checker;
mod projected;
mod properties;
mod reader;
mod table;
mod transcripts;
