//! The address that a connection comes from, in the extensions of its requests.

use std::net::SocketAddr;

/// Where a connection comes from; in the extensions of its requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);
