//! The rules, by tables, by properties and by cost.

mod commands;
mod cost;
mod dice;
mod illegal;
mod properties;
mod story;
