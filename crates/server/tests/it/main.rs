//! Integration tests of the server over real sockets.
//!
//! [`wire`] writes and reads raw HTTP, [`test_context`] starts servers and reports runs to them; the other modules are
//! tests.

#![allow(clippy::unwrap_used, reason = "tests")]

mod growth;
mod hooks;
mod http;
mod operations;
mod test_context;
#[cfg(target_os = "linux")]
mod unix_socket;
mod wire;
