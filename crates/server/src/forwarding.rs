//! Connections between servers. A standby passes those of clients to the owner of the stores, as they are: the owner identifies
//! the client and serves it, whatever the protocol. And the owner sends requests of tenants to the standby that has their stores.
//!
//! Both servers prove that they have the seal key before a byte of a client is passed, each with the random number of the
//! other one, so nothing that was recorded can be used again. A connection is passed once at most. See
//! `docs/decisions/0140`. It must not know requests. Start at [`ForwardTarget::connect`] and [`ForwardAcceptor::accept`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use recount_engine::SEAL_KEY_BYTES;
use recount_world::Entropy;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::limits;
use crate::tls::{self, ServerTls};

/// Begins a connection of another server. No request, and no handshake of TLS, begins with this byte.
const HELLO: &[u8; 19] = b"\0recount-forward-1\n";
/// The same, and everything after it is encrypted.
const HELLO_TLS: &[u8; 19] = b"\0recount-forward-2\n";
const NUMBER_BYTES: usize = 16;
const PROOF_BYTES: usize = blake3::OUT_LEN;
const SESSION_BYTES: usize = 32;
const NO_SESSION: [u8; SESSION_BYTES] = [0; SESSION_BYTES];

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

    fn proof(&self, role: &str, numbers: &Numbers, user: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        let Numbers { standby, owner, session } = numbers;
        // Without encryption, the parts are those of earlier releases.
        let session = (*session != NO_SESSION).then_some(&session[..]);
        let parts = [role.as_bytes(), standby, owner, user].into_iter().chain(session);
        for part in parts {
            // With the length, so that no two lists of parts have the same bytes.
            hasher.update(&part.len().to_le_bytes()).update(part);
        }
        hasher.finalize()
    }
}

/// What makes the proofs of a connection different from those of all others.
struct Numbers {
    /// Drawn by the server that connects.
    standby: [u8; NUMBER_BYTES],
    /// Drawn by the one that accepts.
    owner: [u8; NUMBER_BYTES],
    /// Of an encrypted connection: a secret of its two ends, so that no one can be in between. Zero without encryption.
    session: [u8; SESSION_BYTES],
}

/// A connection between servers.
pub(crate) trait ServerStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ServerStream for S {}

/// Another server: the owner of the stores, as a standby knows it, or one that has stores of tenants.
#[derive(Clone)]
pub(crate) struct ForwardTarget {
    /// Its name, which no other process ever has.
    pub(crate) node: String,
    /// Host and port.
    pub(crate) address: String,
    /// Whether it has a certificate.
    pub(crate) is_encrypted: bool,
    pub(crate) key: NodeKey,
}

/// Where a client is, and the address at which it reached this or another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forwarded {
    pub(crate) peer: SocketAddr,
    pub(crate) arrived_at: SocketAddr,
}

/// Begins the text about a connection that the owner of the stores uses itself.
const SERVER: &str = "server ";

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

/// The owner of the stores, as far as it is known.
pub(crate) type KnownOwner = watch::Receiver<Option<ForwardTarget>>;

impl ForwardTarget {
    /// A server by the URL in the database.
    pub(crate) fn of(node: &str, url: &str, key: &NodeKey) -> Self {
        let (scheme, address) = url.split_once("://").unwrap_or_default();
        let (node, address, is_encrypted) = (node.to_owned(), address.to_owned(), scheme == "https");
        ForwardTarget { node, address, is_encrypted, key: key.clone() }
    }

    /// A connection to the owner that serves this client from the next byte on.
    pub(crate) async fn connect(
        &self,
        client: Forwarded,
        entropy: &dyn Entropy,
    ) -> Result<TcpStream, NotForwarded> {
        let connecting = async {
            let mut stream = self.open(HELLO).await?;
            let user = format!("{} {}", client.peer, client.arrived_at);
            self.prove(&mut stream, NO_SESSION, &user, entropy).await?;
            Ok(stream)
        };
        let too_late = || io::Error::new(io::ErrorKind::TimedOut, "it does not respond in time");
        let connected = tokio::time::timeout(limits::FORWARD_WAIT, connecting).await;
        connected.unwrap_or_else(|_| Err(too_late().into()))
    }

    /// A connection to a standby that has stores of tenants, for requests of this server. `node` is the name of this one.
    pub(crate) async fn connect_as(
        &self,
        node: &str,
        entropy: &dyn Entropy,
    ) -> io::Result<Box<dyn ServerStream>> {
        let user = format!("{SERVER}{node}");
        let connecting = async {
            if !self.is_encrypted {
                let mut stream = self.open(HELLO).await?;
                self.prove(&mut stream, NO_SESSION, &user, entropy).await?;
                return Ok::<_, NotForwarded>(Box::new(stream) as Box<dyn ServerStream>);
            }
            let mut stream = tls::connect_unverified(self.open(HELLO_TLS).await?).await?;
            let session = tls::session(stream.get_ref().1)?;
            self.prove(&mut stream, session, &user, entropy).await?;
            Ok(Box::new(stream) as Box<dyn ServerStream>)
        };
        in_time(async {
            connecting.await.map_err(|error| match error {
                NotForwarded::Unreachable(error) => error,
                NotForwarded::TokenRequired => io::ErrorKind::InvalidData.into(),
            })
        })
        .await
    }

    async fn open(&self, hello: &[u8]) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        stream.write_all(hello).await?;
        Ok(stream)
    }

    /// Proves to the other server that this one has the key, after it has proved the same.
    async fn prove(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        session: [u8; SESSION_BYTES],
        user: &str,
        entropy: &dyn Entropy,
    ) -> Result<(), NotForwarded> {
        let standby = entropy.draw().to_le_bytes();
        stream.write_all(&standby).await?;
        stream.flush().await?;
        let owner: [u8; NUMBER_BYTES] = read_array(stream).await?;
        let proof: [u8; PROOF_BYTES] = read_array(stream).await?;
        let numbers = Numbers { standby, owner, session };
        if self.key.proof("owner", &numbers, b"") != blake3::Hash::from(proof) {
            return Err(refusal("what listens there is not a server with the same seal key").into());
        }
        let proof = self.key.proof("standby", &numbers, user.as_bytes());
        let length = u8::try_from(user.len())
            .expect("two addresses with ports have at most 120 characters, and names of nodes at most 100");
        stream.write_all(&[&[length], user.as_bytes(), proof.as_bytes()].concat()).await?;
        stream.flush().await?;
        match stream.read_u8().await? {
            ACCEPTED => Ok(()),
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
        in_time(self.receive_client(stream, from)).await.map(Some)
    }

    /// The name of the server that uses a connection for requests of its own. An error closes it. With `tls`, it must be
    /// encrypted.
    pub(crate) async fn accept_server(
        &self,
        mut stream: TcpStream,
        tls: Option<&ServerTls>,
    ) -> io::Result<(String, Box<dyn ServerStream>)> {
        in_time(async {
            stream.set_nodelay(true)?;
            let hello: [u8; HELLO.len()] = read_array(&mut stream).await?;
            match (&hello, tls) {
                (HELLO, None) => {
                    let node = self.receive_server(&mut stream, NO_SESSION).await?;
                    Ok((node, Box::new(stream) as Box<dyn ServerStream>))
                }
                (HELLO_TLS, Some(tls)) => {
                    let mut stream = tls.handshake(stream, true).await?;
                    let session = tls::session(stream.get_ref().1)?;
                    let node = self.receive_server(&mut stream, session).await?;
                    Ok((node, Box::new(stream) as Box<dyn ServerStream>))
                }
                _ => Err(refusal("only one of both servers uses TLS")),
            }
        })
        .await
    }

    async fn receive_server(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        session: [u8; SESSION_BYTES],
    ) -> io::Result<String> {
        let user = self.receive(stream, session).await?;
        let Some(node) = user.strip_prefix(SERVER) else {
            return Err(refusal("a connection is passed once at most"));
        };
        stream.write_all(&[ACCEPTED]).await?;
        stream.flush().await?;
        Ok(node.to_owned())
    }

    async fn receive_client(&self, stream: &mut TcpStream, from: SocketAddr) -> io::Result<Forwarded> {
        let hello: [u8; HELLO.len()] = read_array(stream).await?;
        if hello != *HELLO {
            return Err(refusal("it is not a connection of a standby"));
        }
        let addresses = self.receive(stream, NO_SESSION).await?;
        let Some(client) = Forwarded::parse(&addresses) else {
            return Err(refusal("the addresses of the client are unreadable"));
        };
        let is_near = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        if self.allows_anonymous && !is_near(client.arrived_at) {
            stream.write_all(&[TOKEN_REQUIRED]).await?;
            return Err(refusal(
                "clients need no token here, and the other server is reachable from other machines",
            ));
        }
        stream.write_all(&[ACCEPTED]).await?;
        // A loopback address of another machine is not one of this machine.
        let is_other_machine = is_near(client.peer) && !is_near(from);
        Ok(Forwarded { peer: if is_other_machine { from } else { client.peer }, ..client })
    }

    /// Checks the proof of the other server, and returns the text about the user of the connection.
    async fn receive(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        session: [u8; SESSION_BYTES],
    ) -> io::Result<String> {
        let standby: [u8; NUMBER_BYTES] = read_array(stream).await?;
        let numbers = Numbers { standby, owner: self.entropy.draw().to_le_bytes(), session };
        let proof = self.key.proof("owner", &numbers, b"");
        stream.write_all(&[&numbers.owner[..], proof.as_bytes()].concat()).await?;
        stream.flush().await?;
        let mut user = vec![0; usize::from(stream.read_u8().await?)];
        stream.read_exact(&mut user).await?;
        let proof: [u8; PROOF_BYTES] = read_array(stream).await?;
        if self.key.proof("standby", &numbers, &user) != blake3::Hash::from(proof) {
            return Err(refusal("the other server has another seal key"));
        }
        String::from_utf8(user).map_err(|_| refusal("the text about the client is unreadable"))
    }
}

fn refusal(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

async fn in_time<T>(receiving: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let too_late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "the other server does not respond"));
    tokio::time::timeout(limits::FORWARD_WAIT, receiving).await.unwrap_or_else(too_late)
}

impl Forwarded {
    fn parse(addresses: &str) -> Option<Self> {
        let (peer, arrived_at) = addresses.split_once(' ')?;
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

async fn read_array<const LENGTH: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; LENGTH]> {
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
        ForwardTarget { node: "owner".to_owned(), address: address.to_string(), is_encrypted: false, key }
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
            let numbers = Numbers { standby: own, owner: earlier, session: NO_SESSION };
            let proof = key.proof("standby", &numbers, addresses);
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
    async fn a_server_is_accepted_by_name_and_neither_is_taken_for_the_other() {
        for (is_server, accepts_server) in [(true, true), (true, false), (false, true)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (target, acceptor) = (target(listener.local_addr().unwrap(), 1), acceptor(1, false));
            let entropy = SeededEntropy::new(1);
            let accepting = async {
                let (mut stream, from) = listener.accept().await.unwrap();
                match accepts_server {
                    true => acceptor.accept_server(stream, None).await.ok().map(|(node, _)| node),
                    false => acceptor.accept(&mut stream, from).await.ok().map(|_| "a client".to_owned()),
                }
            };
            let connecting = async {
                match is_server {
                    true => target.connect_as("alpha-1", &entropy).await.is_ok(),
                    false => target.connect(client("192.0.2.7:1", "192.0.2.1:1"), &entropy).await.is_ok(),
                }
            };
            let both = is_server && accepts_server;
            let expected = (both, both.then(|| "alpha-1".to_owned()));
            assert_eq!(tokio::join!(connecting, accepting), expected, "{is_server} {accepts_server}");
        }
    }

    fn certificate(folder: &std::path::Path) -> ServerTls {
        let own = rcgen::generate_simple_self_signed(["server.example".to_owned()]).unwrap();
        let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        std::fs::write(&cert, own.cert.pem()).unwrap();
        std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
        ServerTls::load(crate::tls::TlsFiles { cert, key }).unwrap()
    }

    /// What both servers get where one has a certificate and the other one expects that.
    async fn meet_encrypted(
        acceptor: &ForwardAcceptor,
        tls: &ServerTls,
        address: SocketAddr,
        listener: &TcpListener,
    ) -> (io::Result<Box<dyn ServerStream>>, io::Result<(String, Box<dyn ServerStream>)>) {
        let target = ForwardTarget { is_encrypted: true, ..target(address, 1) };
        let entropy = SeededEntropy::new(1);
        let accepting = async { acceptor.accept_server(listener.accept().await.unwrap().0, Some(tls)).await };
        tokio::join!(target.connect_as("alpha-1", &entropy), accepting)
    }

    #[tokio::test]
    async fn servers_with_certificates_encrypt_and_notice_a_server_in_between() {
        let folder = tempfile::tempdir().unwrap();
        let (tls, acceptor) = (certificate(folder.path()), acceptor(1, false));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connected, accepted) = meet_encrypted(&acceptor, &tls, address, &listener).await;
        let (mut near, (node, mut far)) = (connected.unwrap(), accepted.unwrap());
        near.write_all(b"secret").await.unwrap();
        near.flush().await.unwrap();
        let received: [u8; 6] = read_array(&mut far).await.unwrap();
        assert_eq!((&*node, &received), ("alpha-1", b"secret"));

        // Has no seal key, and passes everything on between two encrypted connections.
        let between = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let of_between = between.local_addr().unwrap();
        let in_between = async {
            let (mut victim, _) = between.accept().await.unwrap();
            let hello: [u8; HELLO.len()] = read_array(&mut victim).await.unwrap();
            assert_eq!(&hello, HELLO_TLS);
            let mut victim = tls.handshake(victim, true).await.unwrap();
            let mut server = TcpStream::connect(address).await.unwrap();
            server.write_all(HELLO_TLS).await.unwrap();
            let mut server = tls::connect_unverified(server).await.unwrap();
            tokio::io::copy_bidirectional(&mut victim, &mut server).await.ok();
        };
        let meeting = meet_encrypted(&acceptor, &tls, of_between, &listener);
        let ((connected, accepted), ()) = tokio::join!(meeting, in_between);
        assert!(connected.is_err() && accepted.is_err());
    }

    #[tokio::test]
    async fn a_server_with_a_certificate_accepts_nothing_in_plain_text() {
        let folder = tempfile::tempdir().unwrap();
        let tls = certificate(folder.path());
        for (is_encrypted, tls) in [(false, Some(&tls)), (true, None)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let target = ForwardTarget { is_encrypted, ..target(listener.local_addr().unwrap(), 1) };
            let (entropy, acceptor) = (SeededEntropy::new(1), acceptor(1, false));
            let accepting =
                async { acceptor.accept_server(listener.accept().await.unwrap().0, tls).await.err() };
            let (connected, refused) = tokio::join!(target.connect_as("alpha-1", &entropy), accepting);
            assert!(connected.is_err());
            assert!(refused.unwrap().to_string().contains("only one of both servers uses TLS"));
        }
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
