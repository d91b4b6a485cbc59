//! Deterministic simulation: the rules in a plain loop, and the whole engine on simulated time.
//!
//! What it promises: the same seed plays the same way, to the byte of its trace; and each of its checks is
//! shown to fail on a store that breaks what it checks. It refuses to know how anything is done inside:
//! it acts and looks from outside. Start at [`rules::play`] (tier A) and [`house::play`] (tier B).

pub mod belief;
pub mod dice;
pub mod house;
pub mod limits;
pub mod rules;
pub mod store;
pub mod teller;
pub mod trace;
