//! A raw WebSocket on a [`Wire`], frame by frame, without a library.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::wire::{Wire, request};

/// The opcodes that tests send and receive.
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const PING: u8 = 9;
const CLOSE: u8 = 8;

pub(crate) struct WebSocket {
    pub(crate) wire: Wire,
}

impl WebSocket {
    /// Opens the socket of the accessibility face with small receive buffers.
    pub(crate) async fn open(address: SocketAddr, token: Option<&str>) -> WebSocket {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        let mut wire = Wire::over(socket.connect(address).await.unwrap());
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "aaep.v1"),
        ];
        headers.extend(bearer.iter().map(|bearer| ("authorization", bearer.as_str())));
        wire.send(&request(address, "GET", "/aaep/v1/ws", &headers, None)).await;
        let head = wire.head().await.expect("a response head");
        assert_eq!(head.status, 101, "{head:?}");
        assert_eq!(head.header("sec-websocket-protocol"), Some("aaep.v1"));
        WebSocket { wire }
    }

    /// Opens a socket with a subscription, and returns its id too.
    pub(crate) async fn subscribed(
        address: SocketAddr,
        token: Option<&str>,
        own: Value,
    ) -> (WebSocket, String) {
        let mut socket = WebSocket::open(address, token).await;
        socket.send_json(&subscription_request(json!({}), own)).await;
        let answer = socket.message().await;
        assert_eq!(answer["type"], "subscription.accepted", "{answer}");
        let id = answer["subscription_id"].as_str().unwrap().to_owned();
        (socket, id)
    }

    pub(crate) async fn send_json(&mut self, message: &Value) {
        self.frame(TEXT, message.to_string().as_bytes()).await;
    }

    /// Sends a whole message in one frame. Clients mask with a key; this one is zero.
    pub(crate) async fn frame(&mut self, opcode: u8, payload: &[u8]) {
        let mut bytes = vec![0x80 | opcode];
        match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
            (Ok(short @ ..126), _) => bytes.push(0x80 | short),
            (_, Ok(long)) => {
                bytes.push(0x80 | 126);
                bytes.extend(long.to_be_bytes());
            }
            _ => {
                bytes.push(0x80 | 127);
                bytes.extend((payload.len() as u64).to_be_bytes());
            }
        }
        bytes.extend([0; 4]);
        bytes.extend_from_slice(payload);
        // The server may close before it receives all bytes.
        self.wire.send_anyway(&bytes).await;
    }

    /// The next frame; `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let head = self.wire.take(2).await?;
        let length = match head[1] {
            126 => u64::from(u16::from_be_bytes(self.wire.take(2).await?.try_into().unwrap())),
            127 => u64::from_be_bytes(self.wire.take(8).await?.try_into().unwrap()),
            short => u64::from(short),
        };
        let payload = self.wire.take(usize::try_from(length).unwrap()).await?;
        Some((head[0] & 0x0f, payload))
    }

    /// The next text; `None` when the connection is closed or ends.
    pub(crate) async fn text(&mut self) -> Option<String> {
        loop {
            match self.next().await? {
                (TEXT, payload) => return Some(String::from_utf8(payload).expect("texts are UTF-8")),
                (CLOSE, _) => return None,
                _ => {}
            }
        }
    }

    pub(crate) async fn message(&mut self) -> Value {
        let text = self.text().await.expect("a message");
        serde_json::from_str(&text).unwrap()
    }

    /// The close code and reason; earlier frames are skipped. `None` when the connection ends without them.
    pub(crate) async fn closed(&mut self) -> Option<(u16, String)> {
        self.until_closed().await.1
    }

    /// The texts before the close frame, and the close code and reason.
    pub(crate) async fn until_closed(&mut self) -> (Vec<String>, Option<(u16, String)>) {
        let mut texts = Vec::new();
        while let Some((opcode, payload)) = self.next().await {
            match opcode {
                TEXT => texts.push(String::from_utf8(payload).expect("texts are UTF-8")),
                CLOSE => {
                    let (code, reason) = payload.split_at_checked(2).expect("a code");
                    let code = u16::from_be_bytes([code[0], code[1]]);
                    return (texts, Some((code, String::from_utf8(reason.to_vec()).unwrap())));
                }
                _ => {}
            }
        }
        (texts, None)
    }
}

/// A request for a subscription.
pub(crate) fn subscription_request(capabilities: Value, own: Value) -> Value {
    json!({
        "type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "reader",
        "capabilities": capabilities, "extensions": { "recount": own },
    })
}
