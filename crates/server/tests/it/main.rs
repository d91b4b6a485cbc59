//! Integration tests of the server over real sockets.
//!
//! [`wire`] writes and reads raw HTTP, [`house`] starts servers and reports runs to them; the rest are tests.

#![allow(clippy::unwrap_used, reason = "tests")]

mod growth;
mod hooks;
mod house;
mod http;
mod operations;
mod wire;
