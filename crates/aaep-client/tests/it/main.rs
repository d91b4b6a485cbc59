//! Links on real sockets and with real programs, against small producers that send exactly the bytes of a test.

#![expect(clippy::unwrap_used, reason = "helpers of tests, too")]

mod commands;
mod handshakes;
mod server;
mod sockets;
mod streams;
mod tls;
