//! Hooks of other agents over real sockets: documented bodies replayed, and what the log then says.

mod agent;
mod asking;
mod bad_days;
mod guarded;
mod held;
mod recording;

// `face-hooks` compiles some of these files too, with a `house` and a `wire` of its own.
use crate::{house, wire};
