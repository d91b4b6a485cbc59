//! Deterministic simulation: the rules in a plain loop, and the whole engine on simulated time.
//!
//! Guarantees: the same seed plays the same way, to the byte of its trace; and each of its checks is
//! shown to fail on a store that breaks what it checks. It must not know how anything works inside:
//! it acts and observes from outside. Start at [`rules::play`] (tier A) and [`engine_play::play`] (tier B).

pub mod belief;
pub mod dice;
pub mod engine_play;
pub mod event_generator;
pub mod limits;
pub mod rules;
pub mod store;
pub mod trace;
