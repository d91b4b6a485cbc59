//! Runs as listeners are told them: every story in every language, held against the protocol's rules by a checker that
//! knows nothing of runs.

mod external;
mod holds;
mod joining;
mod listening;
mod minting;
mod properties;
mod rows;
mod simulated;
mod transcripts;
