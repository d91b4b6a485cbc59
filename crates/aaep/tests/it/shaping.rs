//! What one subscriber gets: tables of what is joined, cut, left out and let through, and properties that hold for any
//! stream.

mod cuts;
mod flow;
mod holding;
mod joining;
mod stage;
mod streams;
mod wishes;
