//! The rules, by tables, by properties and by cost.

mod calls;
mod commands;
mod cost;
mod dice;
mod history;
mod illegal;
mod limits;
mod places;
mod properties;
mod pruning;
mod reports;
mod story;
mod usage;
