//! The face against the real engine, without a socket: the tests that the server has over sockets, and the native
//! face to read what was recorded.

#![allow(clippy::unwrap_used)]

#[path = "../../../server/tests/it/hooks/agent.rs"]
mod agent;
#[path = "../../../server/tests/it/hooks/asking.rs"]
mod asking;
#[path = "../../../server/tests/it/hooks/bad_days.rs"]
mod bad_days;
mod held;
mod house;
#[path = "../../../server/tests/it/hooks/recording.rs"]
mod recording;
mod wire;
