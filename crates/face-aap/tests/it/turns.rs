//! What applications are told of runs: streams that an independent reader takes and folds as clients do, and
//! transcripts of every story.

mod checker;
mod properties;
mod reader;
mod table;
mod told;
mod transcripts;
