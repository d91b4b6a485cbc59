//! The address that a connection comes from, in the extensions of its requests.

use std::net::SocketAddr;

/// The address of the peer; in the extensions of its requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);
