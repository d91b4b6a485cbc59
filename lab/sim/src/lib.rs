//! Deterministic simulation of the rules in a plain loop, of the whole engine on simulated time, and of several nodes on one
//! database.
//!
//! The same seed always gives the same trace, byte for byte. Each check is proved by a store with a fault that it must
//! find. The crate must not depend on engine internals: it acts and observes from outside. Start at [`rules::play`]
//! (tier A), [`engine_play::play`] (tier B) and [`nodes::play`] (tier C).

pub mod belief;
pub mod dice;
pub mod engine_play;
pub mod event_generator;
pub mod limits;
pub mod mutant;
pub mod nodes;
pub mod rules;
pub mod trace;
