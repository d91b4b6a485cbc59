//! Tests of projected sessions: every story in every language, checked by an independent checker of the protocol's
//! rules.

mod external;
mod holds;
mod joining;
mod listening;
mod minting;
mod properties;
mod rows;
mod simulated;
mod transcripts;
