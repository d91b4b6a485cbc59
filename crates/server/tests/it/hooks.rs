//! Hooks of other agents over real sockets: replays documented bodies and checks the recorded events.

mod agent;
mod guarded;
mod held;
mod irregular;
mod permissions;
mod recording;

// `face-hooks` compiles some of these files too, with a `test_context` and a `wire` of its own.
use crate::{test_context, wire};
