//! Links and captures on real sockets and with real programs, against small producers that say exactly what a test
//! has them say.

#![expect(clippy::unwrap_used, reason = "helpers of tests, too")]

mod captures;
mod commands;
mod handshakes;
mod recordings;
mod server;
mod sockets;
mod streams;
mod tls;
