//! The address that a connection comes from, and the one it came to, in the extensions of its requests.

use std::net::SocketAddr;

/// The address of the peer; in the extensions of its requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The address of the listener that a request came to, where that is not the server's own; in the extensions of its
/// requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArrivedAt(pub(crate) SocketAddr);

/// A request that arrived encrypted; in its extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encrypted;
