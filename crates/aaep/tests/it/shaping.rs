//! Tests of shaping: tables of joined, cut, filtered and passed events, and properties of any stream.

mod cuts;
mod flow;
mod holding;
mod joining;
mod stage;
mod streams;
mod wishes;
