//! The peer of a connection, and the address that it came to, in the extensions of its requests.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The user number that is shown for all users without a number in this user namespace, so it identifies none of them.
pub(crate) const OVERFLOW_UID: u32 = 65_534;

/// The other end of a connection; in the extensions of its requests.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    Address(SocketAddr),
    /// A process of this machine, over a Unix socket.
    #[cfg_attr(not(unix), expect(dead_code, reason = "no Unix sockets"))]
    User(Arc<LocalUser>),
}

/// A user of this machine, as the operating system identifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalUser {
    pub(crate) uid: u32,
    /// `None`: this machine has no usable name for it.
    pub(crate) name: Option<String>,
    /// Whether the server runs as this user, or it is root.
    pub(crate) is_operator: bool,
}

/// The part of a peer by which connections and refusals are counted: the address without its port, or the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PeerId {
    Address(IpAddr),
    User(u32),
}

impl Peer {
    pub(crate) fn id(&self) -> PeerId {
        match self {
            Peer::Address(address) => PeerId::Address(address.ip()),
            Peer::User(user) => PeerId::User(user.uid),
        }
    }

    pub(crate) fn is_on_this_machine(&self) -> bool {
        match self {
            Peer::Address(address) => address.ip().to_canonical().is_loopback(),
            Peer::User(_) => true,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => address.fmt(f),
            Peer::User(user) => PeerId::User(user.uid).fmt(f),
        }
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerId::Address(address) => address.fmt(f),
            PeerId::User(uid) => write!(f, "uid:{uid}"),
        }
    }
}

impl From<IpAddr> for PeerId {
    fn from(address: IpAddr) -> Self {
        PeerId::Address(address)
    }
}

impl From<SocketAddr> for PeerId {
    fn from(address: SocketAddr) -> Self {
        PeerId::Address(address.ip())
    }
}

impl From<Arc<LocalUser>> for PeerId {
    fn from(user: Arc<LocalUser>) -> Self {
        PeerId::User(user.uid)
    }
}

/// The address of the listener that a request came to, where that is not the server's own; in the extensions of its
/// requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArrivedAt(pub(crate) SocketAddr);

/// A request that arrived encrypted; in its extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encrypted;
