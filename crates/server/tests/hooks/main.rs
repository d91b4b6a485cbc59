//! Hooks of other agents over real sockets: documented bodies replayed, and what the log then says.

#![allow(clippy::unwrap_used)]

#[path = "../http/house.rs"]
#[allow(dead_code)]
mod house;
#[path = "../http/wire.rs"]
#[allow(dead_code)]
mod wire;

mod agent;
mod asking;
mod bad_days;
mod recording;
