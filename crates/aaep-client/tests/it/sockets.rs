//! WebSockets: subprotocols, frames that must not come, and how they end.

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

use crate::server::{Request, SOON, Server, all, dial, texts, whole, write};

const REQUEST: &str = r#"{"type":"subscription.request"}"#;
const ACCEPTED: &str = r#"{"type":"subscription.accepted","subscription_id":"sub_1"}"#;

/// Switches to a WebSocket, with headers of the test's.
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
async fn with_and_without_the_subprotocol() {
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
        let (heard, ended) = all(&mut link).await;
        assert!(ended.is_none(), "{ended:?}");
        assert_eq!(texts(&heard), ["{\"n\":1}", "{\"n\":\n2}"]);
        assert_eq!((heard[0].comments, heard[1].comments, link.comments()), (0, 1, 1));
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
    assert_eq!((link.answer(), link.subscription()), (Some(ACCEPTED), Some("sub_1")));
    for expected in ["\"early\"", "\"late\""] {
        assert_eq!(link.next().await.unwrap().unwrap().text, expected);
    }
    let sent = link.send(r#"{"type":"confirmation.reply"}"#).await.unwrap();
    assert!(sent.status.is_none() && sent.body.is_empty());
    link.close().await;
    for expected in [REQUEST, r#"{"type":"confirmation.reply"}"#, "4000"] {
        assert_eq!(tokio::time::timeout(SOON, receiver.recv()).await.unwrap().as_deref(), Some(expected));
    }
}

/// What a producer that does one thing makes of a link: what was heard, how it ended, what the producer was told.
async fn after(message: Message) -> (usize, Option<LinkError>, Option<u16>) {
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
    let (heard, ended) = all(&mut link).await;
    // Who is still sending does not listen.
    let code = match ended {
        Some(LinkError::Binary { .. }) => tokio::time::timeout(SOON, code_receiver.recv()).await.unwrap(),
        _ => None,
    };
    assert!(link.next().await.unwrap().is_none(), "the error is told once");
    (heard.len(), ended, code)
}

#[tokio::test]
async fn binary_frames_are_refused() {
    let (heard, ended, code) = after(Message::binary(b"{}".to_vec())).await;
    assert!(heard == 1 && matches!(ended, Some(LinkError::Binary { bytes: 2 })), "{ended:?}");
    assert_eq!(code, Some(1003));
}

#[tokio::test]
async fn what_is_too_long_is_refused_and_a_mebibyte_is_not() {
    // R-148
    let (heard, ended, _) = after(Message::text("x".repeat(limits::MESSAGE_BYTES_MAX + 1))).await;
    assert!(heard == 1 && matches!(ended, Some(LinkError::TooLong { .. })), "{ended:?}");

    let world = World::real();
    let server = Server::start(&world, |request, socket| async move {
        let mut socket = switch(&request, socket, "").await;
        socket.send(Message::text("x".repeat(1024 * 1024))).await.unwrap();
        socket.close(Some(CloseFrame { code: 4004.into(), reason: "enough".into() })).await.unwrap();
    })
    .await;
    let mut link = Link::open(&world, &dial(&address(&server))).await.unwrap();
    let (heard, ended) = all(&mut link).await;
    assert!(ended.is_none() && heard[0].text.len() == 1024 * 1024);
    assert_eq!(link.closed(), Some((4004, "enough")));
}

#[tokio::test]
async fn a_socket_that_just_goes_away_is_broken() {
    let world = World::real();
    let server = Server::start(&world, |request, socket| async move {
        let mut socket = switch(&request, socket, "").await;
        socket.send(Message::text("1")).await.unwrap();
    })
    .await;
    let mut link = Link::open(&world, &dial(&address(&server))).await.unwrap();
    let (heard, ended) = all(&mut link).await;
    assert_eq!(heard.len(), 1);
    assert!(matches!(&ended, Some(why @ LinkError::Broken { .. }) if why.may_pass()), "{ended:?}");
}

#[tokio::test]
async fn a_failed_protocol_switch_is_reported() {
    let world = World::real();
    for (status, code) in [("401 Unauthorized", 401), ("200 OK", 200), ("426 Upgrade Required", 426)] {
        let server = Server::responding(&world, whole(status, "", "no sockets here")).await;
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
