//! Connections that a standby passes to the owner of the stores, as they are: the owner identifies the client and
//! serves it, whatever the protocol.
//!
//! Both servers prove that they have the seal key before a byte of the client is passed, each with the random number of the
//! other one, so nothing that was recorded can be used again. A connection is passed once at most. See
//! `docs/decisions/0140`. It must not know requests. Start at [`ForwardTarget::connect`] and [`ForwardAcceptor::accept`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use recount_engine::SEAL_KEY_BYTES;
use recount_world::Entropy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::limits;

/// Begins a connection of another server. No request, and no handshake of TLS, begins with this byte.
const HELLO: &[u8; 19] = b"\0recount-forward-1\n";
const NUMBER_BYTES: usize = 16;
const PROOF_BYTES: usize = blake3::OUT_LEN;

/// The answer of the owner to the addresses of a client.
const ACCEPTED: u8 = b'y';
const TOKEN_REQUIRED: u8 = b't';

/// Proves that a server has the seal key.
#[derive(Clone)]
pub(crate) struct NodeKey([u8; blake3::KEY_LEN]);

impl NodeKey {
    pub(crate) fn derive(seal_key: &[u8; SEAL_KEY_BYTES]) -> Self {
        NodeKey(blake3::derive_key("recount 2026 connections between servers", seal_key))
    }

    fn proof(&self, role: &str, standby: &[u8], owner: &[u8], addresses: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in [role.as_bytes(), standby, owner, addresses] {
            // With the length, so that no two lists of parts have the same bytes.
            hasher.update(&part.len().to_le_bytes()).update(part);
        }
        hasher.finalize()
    }
}

/// The owner of the stores, as a standby knows it.
#[derive(Clone)]
pub(crate) struct ForwardTarget {
    /// Its name, which no other process ever has.
    pub(crate) node: String,
    /// Host and port.
    pub(crate) address: String,
    pub(crate) key: NodeKey,
}

/// Where a client is, and the address at which it reached this or another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forwarded {
    pub(crate) peer: SocketAddr,
    pub(crate) arrived_at: SocketAddr,
}

/// Why the owner got no connection.
#[derive(Debug)]
pub(crate) enum NotForwarded {
    /// The owner, or whatever listens at its address, did not respond as an owner does.
    Unreachable(io::Error),
    /// The owner serves clients without tokens, so it accepts none from outside its machine.
    TokenRequired,
}

impl From<io::Error> for NotForwarded {
    fn from(error: io::Error) -> Self {
        NotForwarded::Unreachable(error)
    }
}

impl ForwardTarget {
    /// A connection to the owner that serves this client from the next byte on.
    pub(crate) async fn connect(
        &self,
        client: Forwarded,
        entropy: &dyn Entropy,
    ) -> Result<TcpStream, NotForwarded> {
        let connecting = self.introduce(client, entropy);
        tokio::time::timeout(limits::FORWARD_WAIT, connecting).await.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, "it does not respond in time").into())
        })
    }

    async fn introduce(&self, client: Forwarded, entropy: &dyn Entropy) -> Result<TcpStream, NotForwarded> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let own = entropy.draw().to_le_bytes();
        stream.write_all(&[&HELLO[..], &own].concat()).await?;
        let theirs: [u8; NUMBER_BYTES] = read_array(&mut stream).await?;
        let proof: [u8; PROOF_BYTES] = read_array(&mut stream).await?;
        if self.key.proof("owner", &own, &theirs, b"") != blake3::Hash::from(proof) {
            let why = "what listens there is not a server with the same seal key";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why).into());
        }
        let addresses = format!("{} {}", client.peer, client.arrived_at);
        let proof = self.key.proof("standby", &own, &theirs, addresses.as_bytes());
        let length =
            u8::try_from(addresses.len()).expect("two addresses with ports have at most 120 characters");
        stream.write_all(&[&[length], addresses.as_bytes(), proof.as_bytes()].concat()).await?;
        match stream.read_u8().await? {
            ACCEPTED => Ok(stream),
            TOKEN_REQUIRED => Err(NotForwarded::TokenRequired),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "its answer is unknown").into()),
        }
    }
}

/// Accepts connections of standbys at the owner.
pub(crate) struct ForwardAcceptor {
    pub(crate) key: NodeKey,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// Whether clients on this machine need no token.
    pub(crate) allows_anonymous: bool,
}

impl ForwardAcceptor {
    /// The client of a connection that a standby passes; `None` if the connection is a client's own. An error closes it.
    pub(crate) async fn accept(
        &self,
        stream: &mut TcpStream,
        from: SocketAddr,
    ) -> io::Result<Option<Forwarded>> {
        if !is_forwarded(&first_bytes(stream).await?) {
            return Ok(None);
        }
        let too_late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "the other server does not respond"));
        let receiving = self.receive(stream, from);
        tokio::time::timeout(limits::FORWARD_WAIT, receiving).await.unwrap_or_else(too_late).map(Some)
    }

    async fn receive(&self, stream: &mut TcpStream, from: SocketAddr) -> io::Result<Forwarded> {
        let refused = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        let hello: [u8; HELLO.len()] = read_array(stream).await?;
        if hello != *HELLO {
            return refused("it is not a connection of a server");
        }
        let theirs: [u8; NUMBER_BYTES] = read_array(stream).await?;
        let own = self.entropy.draw().to_le_bytes();
        let proof = self.key.proof("owner", &theirs, &own, b"");
        stream.write_all(&[&own[..], proof.as_bytes()].concat()).await?;
        let mut addresses = vec![0; usize::from(stream.read_u8().await?)];
        stream.read_exact(&mut addresses).await?;
        let proof: [u8; PROOF_BYTES] = read_array(stream).await?;
        if self.key.proof("standby", &theirs, &own, &addresses) != blake3::Hash::from(proof) {
            return refused("the other server has another seal key");
        }
        let Some(client) = Forwarded::parse(&addresses) else {
            return refused("the addresses of the client are unreadable");
        };
        let is_near = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        if self.allows_anonymous && !is_near(client.arrived_at) {
            stream.write_all(&[TOKEN_REQUIRED]).await?;
            return refused(
                "clients need no token here, and the other server is reachable from other machines",
            );
        }
        stream.write_all(&[ACCEPTED]).await?;
        // A loopback address of another machine is not one of this machine.
        let is_other_machine = is_near(client.peer) && !is_near(from);
        Ok(Forwarded { peer: if is_other_machine { from } else { client.peer }, ..client })
    }
}

impl Forwarded {
    fn parse(addresses: &[u8]) -> Option<Self> {
        let (peer, arrived_at) = std::str::from_utf8(addresses).ok()?.split_once(' ')?;
        Some(Forwarded { peer: peer.parse().ok()?, arrived_at: arrived_at.parse().ok()? })
    }
}

/// The first bytes of a connection, which stay unread; empty if it is closed without any.
pub(crate) async fn first_bytes(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut first = vec![0; limits::FIRST_BYTES];
    let peeking = tokio::time::timeout(limits::HEAD_WAIT, stream.peek(&mut first));
    let length = peeking.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    first.truncate(length);
    Ok(first)
}

/// Whether these first bytes are those of another server.
pub(crate) fn is_forwarded(first: &[u8]) -> bool {
    first.first() == HELLO.first()
}

async fn read_array<const LENGTH: usize>(stream: &mut TcpStream) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use recount_world::SeededEntropy;
    use tokio::net::TcpListener;

    use super::*;

    fn target(address: SocketAddr, key: u8) -> ForwardTarget {
        let key = NodeKey::derive(&[key; SEAL_KEY_BYTES]);
        ForwardTarget { node: "owner".to_owned(), address: address.to_string(), key }
    }

    fn acceptor(key: u8, allows_anonymous: bool) -> ForwardAcceptor {
        let key = NodeKey::derive(&[key; SEAL_KEY_BYTES]);
        ForwardAcceptor { key, entropy: Arc::new(SeededEntropy::new(2)), allows_anonymous }
    }

    fn client(peer: &str, arrived_at: &str) -> Forwarded {
        Forwarded { peer: peer.parse().unwrap(), arrived_at: arrived_at.parse().unwrap() }
    }

    /// What both sides get from one connection.
    async fn meet(
        acceptor: &ForwardAcceptor,
        key: u8,
        client: Forwarded,
    ) -> (Result<TcpStream, NotForwarded>, io::Result<Option<Forwarded>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = target(listener.local_addr().unwrap(), key);
        let entropy = SeededEntropy::new(1);
        let accepting = async {
            let (mut stream, from) = listener.accept().await.unwrap();
            acceptor.accept(&mut stream, from).await
        };
        tokio::join!(target.connect(client, &entropy), accepting)
    }

    #[tokio::test]
    async fn the_owner_knows_the_client_of_a_standby_with_the_same_key() {
        let far = client("192.0.2.7:5000", "192.0.2.1:8765");
        let (connected, accepted) = meet(&acceptor(1, false), 1, far).await;
        assert!(connected.is_ok());
        assert_eq!(accepted.unwrap(), Some(far));
    }

    #[tokio::test]
    async fn servers_with_different_keys_pass_nothing() {
        let (connected, accepted) = meet(&acceptor(1, false), 2, client("192.0.2.7:1", "192.0.2.1:1")).await;
        assert!(matches!(connected, Err(NotForwarded::Unreachable(_))), "{connected:?}");
        assert!(accepted.is_err());
    }

    #[tokio::test]
    async fn an_owner_without_tokens_accepts_only_clients_of_its_machine() {
        let (connected, accepted) = meet(&acceptor(1, true), 1, client("192.0.2.7:1", "192.0.2.1:1")).await;
        assert!(matches!(connected, Err(NotForwarded::TokenRequired)), "{connected:?}");
        assert!(accepted.is_err());
        let near = client("127.0.0.1:1", "127.0.0.1:8766");
        let (connected, accepted) = meet(&acceptor(1, true), 1, near).await;
        assert!(connected.is_ok());
        assert_eq!(accepted.unwrap(), Some(near));
    }

    #[tokio::test]
    async fn a_proof_of_an_earlier_connection_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let acceptor = acceptor(1, false);
        let key = NodeKey::derive(&[1; SEAL_KEY_BYTES]);
        let addresses = b"192.0.2.7:1 192.0.2.1:1";
        let replay = async {
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (own, earlier) = ([3; NUMBER_BYTES], [4; NUMBER_BYTES]);
            stream.write_all(&[&HELLO[..], &own].concat()).await.unwrap();
            let proof = key.proof("standby", &own, &earlier, addresses);
            let length = u8::try_from(addresses.len()).unwrap();
            stream.write_all(&[&[length], &addresses[..], proof.as_bytes()].concat()).await.unwrap();
            stream
        };
        let accepting = async {
            let (mut stream, from) = listener.accept().await.unwrap();
            acceptor.accept(&mut stream, from).await
        };
        let (_stream, accepted) = tokio::join!(replay, accepting);
        assert!(accepted.is_err());
    }

    #[tokio::test]
    async fn requests_are_not_taken_for_connections_of_servers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let (mut accepted, from) = listener.accept().await.unwrap();
        assert_eq!(acceptor(1, false).accept(&mut accepted, from).await.unwrap(), None);
        let mut first = [0; 4];
        accepted.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"GET ", "nothing was consumed");
    }
}
