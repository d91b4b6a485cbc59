//! The client against a server that says what it is told to.

#![allow(clippy::unwrap_used)]

mod calls;
mod future;
mod scripted;
mod tails;
