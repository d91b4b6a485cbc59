//! The client against a server with scripted responses.

#![allow(clippy::unwrap_used)]

mod calls;
mod future;
mod scripted;
mod tails;
