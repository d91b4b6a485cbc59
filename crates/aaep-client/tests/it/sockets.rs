//! Links over WebSockets: subprotocols, invalid frames and close codes.

use futures_util::{SinkExt as _, StreamExt as _};
use recount_aaep_client::limits;
use recount_aaep_client::link::{Dial, Link, LinkError};
use recount_world::World;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use crate::server::{Request, Server, TEST_TIMEOUT, all, dial, response, texts, write};

const REQUEST: &str = r#"{"type":"subscription.request"}"#;
const ACCEPTED: &str = r#"{"type":"subscription.accepted","subscription_id":"sub_1"}"#;

/// Upgrades to a WebSocket, with additional headers.
async fn switch(request: &Request, mut socket: TcpStream, headers: &str) -> WebSocketStream<TcpStream> {
    assert_eq!(request.header("upgrade"), Some("websocket"));
    let accept = derive_accept_key(request.header("sec-websocket-key").unwrap().as_bytes());
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {accept}\r\n{headers}\r\n"
    );
    write(&mut socket, head).await;
    WebSocketStream::from_raw_socket(socket, Role::Server, None).await
}

fn address(server: &Server) -> String {
    format!("ws://{}/ws", server.at)
}

#[tokio::test]
async fn sockets_work_with_and_without_the_subprotocol() {
    let world = World::real();
    for (headers, expected) in [("sec-websocket-protocol: aaep.v1\r\n", Some("aaep.v1")), ("", None)] {
        let server = Server::start(&world, move |request, socket| async move {
            assert_eq!(request.header("sec-websocket-protocol"), Some("aaep.v1"));
            assert_eq!(request.header("authorization"), Some("Bearer t0k"));
            let mut socket = switch(&request, socket, headers).await;
            socket.send(Message::text("{\"n\":1}")).await.unwrap();
            socket.send(Message::Ping("beat".into())).await.unwrap();
            socket.send(Message::text("{\"n\":\n2}")).await.unwrap();
            socket.close(None).await.unwrap();
        })
        .await;
        let dial = Dial { token: Some("t0k".to_owned()), ..dial(&address(&server)) };
        let mut link = Link::open(&world, &dial).await.unwrap();
        assert_eq!(link.subprotocol(), expected);
        let (received, ended) = all(&mut link).await;
        assert!(ended.is_none(), "{ended:?}");
        assert_eq!(texts(&received), ["{\"n\":1}", "{\"n\":\n2}"]);
        assert_eq!((received[0].comments, received[1].comments, link.comments()), (0, 1, 1));
        assert_eq!(link.closed(), Some((1005, "")));
    }
}

#[tokio::test]
async fn a_handshake_and_replies_share_the_socket() {
    let world = World::real();
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let server = Server::start(&world, move |request, socket| {
        let sender = sender.clone();
        async move {
            let mut socket = switch(&request, socket, "sec-websocket-protocol: aaep.v1\r\n").await;
            while let Some(Ok(message)) = socket.next().await {
                let text = message.to_string();
                if text == REQUEST {
                    socket.send(Message::text("\"early\"")).await.unwrap();
                    socket.send(Message::text(ACCEPTED)).await.unwrap();
                    socket.send(Message::text("\"late\"")).await.unwrap();
                }
                if let Message::Close(Some(frame)) = &message {
                    sender.send(u16::from(frame.code).to_string()).unwrap();
                } else {
                    sender.send(text).unwrap();
                }
            }
        }
    })
    .await;
    let dial = Dial { request: Some(REQUEST.to_owned()), ..dial(&address(&server)) };
    let mut link = Link::open(&world, &dial).await.unwrap();
    assert_eq!((link.handshake_response(), link.subscription()), (Some(ACCEPTED), Some("sub_1")));
    for expected in ["\"early\"", "\"late\""] {
        assert_eq!(link.next().await.unwrap().unwrap().text, expected);
    }
    let sent = link.send(r#"{"type":"confirmation.reply"}"#).await.unwrap();
    assert!(sent.status.is_none() && sent.body.is_empty());
    link.close().await;
    for expected in [REQUEST, r#"{"type":"confirmation.reply"}"#, "4000"] {
        assert_eq!(
            tokio::time::timeout(TEST_TIMEOUT, receiver.recv()).await.unwrap().as_deref(),
            Some(expected)
        );
    }
}

/// Sends a text and this message to a link; returns the number of received messages, the error and the close code.
async fn exchange(message: Message) -> (usize, Option<LinkError>, Option<u16>) {
    let world = World::real();
    let (codes, mut code_receiver) = mpsc::unbounded_channel();
    let server = Server::start(&world, move |request, socket| {
        let (message, codes) = (message.clone(), codes.clone());
        async move {
            let mut socket = switch(&request, socket, "").await;
            socket.send(Message::text("\"one\"")).await.unwrap();
            socket.send(message).await.ok();
            while let Some(Ok(message)) = socket.next().await {
                if let Message::Close(Some(frame)) = message {
                    codes.send(u16::from(frame.code)).ok();
                }
            }
        }
    })
    .await;
    let mut link = Link::open(&world, &dial(&address(&server))).await.unwrap();
    let (received, ended) = all(&mut link).await;
    // A producer that is still sending does not read the close frame.
    let code = match ended {
        Some(LinkError::Binary { .. }) => {
            tokio::time::timeout(TEST_TIMEOUT, code_receiver.recv()).await.unwrap()
        }
        _ => None,
    };
    assert!(link.next().await.unwrap().is_none(), "the error is returned once");
    (received.len(), ended, code)
}

#[tokio::test]
async fn binary_frames_are_refused() {
    let (received, ended, code) = exchange(Message::binary(b"{}".to_vec())).await;
    assert!(received == 1 && matches!(ended, Some(LinkError::Binary { bytes: 2 })), "{ended:?}");
    assert_eq!(code, Some(1003));
}

#[tokio::test]
async fn oversized_messages_are_refused_and_a_mebibyte_is_accepted() {
    // R-148
    let (received, ended, _) = exchange(Message::text("x".repeat(limits::MESSAGE_BYTES_MAX + 1))).await;
    assert!(received == 1 && matches!(ended, Some(LinkError::TooLong { .. })), "{ended:?}");

    let world = World::real();
    let server = Server::start(&world, |request, socket| async move {
        let mut socket = switch(&request, socket, "").await;
        socket.send(Message::text("x".repeat(1024 * 1024))).await.unwrap();
        socket.close(Some(CloseFrame { code: 4004.into(), reason: "enough".into() })).await.unwrap();
    })
    .await;
    let mut link = Link::open(&world, &dial(&address(&server))).await.unwrap();
    let (received, ended) = all(&mut link).await;
    assert!(ended.is_none() && received[0].text.len() == 1024 * 1024);
    assert_eq!(link.closed(), Some((4004, "enough")));
}

#[tokio::test]
async fn a_socket_that_disconnects_is_reported_as_broken() {
    let world = World::real();
    let server = Server::start(&world, |request, socket| async move {
        let mut socket = switch(&request, socket, "").await;
        socket.send(Message::text("1")).await.unwrap();
    })
    .await;
    let mut link = Link::open(&world, &dial(&address(&server))).await.unwrap();
    let (received, ended) = all(&mut link).await;
    assert_eq!(received.len(), 1);
    assert!(matches!(&ended, Some(why @ LinkError::Broken { .. }) if why.may_pass()), "{ended:?}");
}

#[tokio::test]
async fn a_failed_protocol_switch_is_reported() {
    let world = World::real();
    for (status, code) in [("401 Unauthorized", 401), ("200 OK", 200), ("426 Upgrade Required", 426)] {
        let server = Server::responding(&world, response(status, "", "no sockets here")).await;
        let why = Link::open(&world, &dial(&address(&server))).await.err().unwrap();
        assert_eq!(why.status(), Some(code), "{why}");
        assert!(why.to_string().contains("no sockets here"), "{why}");
    }
    for headers in ["sec-websocket-accept: bm90IGl0\r\n", ""] {
        let head = format!("HTTP/1.1 101 Ok\r\nconnection: Upgrade\r\nupgrade: websocket\r\n{headers}\r\n");
        let server = Server::responding(&world, head).await;
        let why = Link::open(&world, &dial(&address(&server))).await.err().unwrap();
        assert!(matches!(why, LinkError::Protocol(_)), "{why}");
    }
    let server = Server::start(&world, |request, socket| async move {
        switch(&request, socket, "sec-websocket-protocol: other\r\n").await;
    })
    .await;
    let why = Link::open(&world, &dial(&address(&server))).await.err().unwrap();
    assert!(why.to_string().contains("\"other\""), "{why}");
}
