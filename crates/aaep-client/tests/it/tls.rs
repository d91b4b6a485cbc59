//! Links over TLS: versions before 1.2 are rejected.

use recount_aaep_client::link::{Link, LinkError};
use recount_world::World;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::server::dial;

/// Records of TLS.
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
/// The alert for an unsupported version.
const PROTOCOL_VERSION: u8 = 70;

/// The first flight of a server that chooses this minor version of TLS 1: 2 is TLS 1.1.
fn server_hello(minor: u8) -> Vec<u8> {
    let mut body = vec![3, minor];
    body.extend([7; 32]);
    // No session id, ECDHE-RSA with AES-128 in CBC, no compression.
    body.extend([0, 0xc0, 0x13, 0]);
    let mut message = vec![2, 0, 0, u8::try_from(body.len()).unwrap()];
    message.extend(body);
    let mut record = vec![HANDSHAKE, 3, minor, 0, u8::try_from(message.len()).unwrap()];
    record.extend(message);
    record
}

#[tokio::test]
async fn a_server_that_speaks_tls_1_1_is_refused() {
    let world = World::real();
    for (scheme, path) in [("https", "/aaep/v1"), ("wss", "/aaep/v1/ws")] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("{scheme}://{}{path}", listener.local_addr().unwrap());
        let server = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = [0; 5];
            socket.read_exact(&mut head).await.unwrap();
            assert_eq!(head[0], HANDSHAKE);
            let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
            socket.read_exact(&mut hello).await.unwrap();
            socket.write_all(&server_hello(2)).await.unwrap();
            let mut rest = Vec::new();
            socket.read_to_end(&mut rest).await.ok();
            rest
        };
        let target = dial(&target);
        let (link, rest) = tokio::join!(Link::open(&world, &target), server);
        let why = link.err().expect("it is refused");
        assert!(!matches!(why, LinkError::Unusable(_)), "{why}");
        assert_eq!((rest.first(), rest.last()), (Some(&ALERT), Some(&PROTOCOL_VERSION)), "{why}: {rest:?}");
    }
}
