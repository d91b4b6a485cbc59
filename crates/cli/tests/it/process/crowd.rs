//! More clients than the limits allow: each is rejected with a message, and admitted clients are not affected.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use serde_json::Value;
use tokio::net::TcpSocket;

use crate::process::story;
use crate::server::{PATIENCE, Server, recount};

/// Starts a server that may have `soft` files open, and no more than `hard` whatever it asks for.
fn with_files(data: &std::path::Path, soft: u32, hard: u32) -> Server {
    let mut command = Command::new("sh");
    let limits = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
    let ours = recount();
    command.arg("-c").arg(limits).arg(ours.get_program()).args([
        "serve",
        "--bind",
        "127.0.0.1:0",
        "--log",
        "info",
        "--data",
    ]);
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Server::of(command.arg(data)).listening()
}

fn connect(server: &Server) -> TcpStream {
    let socket = TcpStream::connect(&server.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// What one address may have of 100 places: all but an eighth, and of that its share.
const FOR_ONE_OF_100: usize = 100 - 12 + 2;

/// Connects from another address of this machine.
fn connect_from(from: [u8; 4], server: &Server) -> TcpStream {
    let to: SocketAddr = server.address.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let socket = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Asks on a connection that stays, and answers the status, the head and the body.
fn ask(server: &Server, socket: &mut TcpStream) -> (u16, String, String) {
    let request = format!("GET /v1/runs HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    socket.write_all(request.as_bytes()).unwrap();
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = socket.read(&mut piece).unwrap();
        got.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&got).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(count > 0, "the connection ended within a head: {text}");
            continue;
        };
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.expect("answers have a length").parse().unwrap();
        if body.len() >= length {
            return (head[9..12].parse().unwrap(), head, body.to_owned());
        }
        assert!(count > 0, "the connection ended within a body: {text}");
    }
}

/// The memory that the server reports as its own.
fn anonymous_bytes(server: &Server) -> f64 {
    let mut socket = connect(server);
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address);
    socket.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("process_anonymous_memory_bytes "));
    line.unwrap_or_else(|| panic!("no memory is told: {text}")).parse().unwrap()
}

#[test]
fn ten_thousand_readers_each_hear_the_same_event() {
    const READERS: usize = 10_000;
    let data = tempfile::tempdir().unwrap();
    let ours = recount_server::Files::raise();
    let server = Server::start(data.path());
    let client = recount_client::Client::new(&server.url(), None).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = runtime.block_on(story::create(&client, "crowded"));
    let before = anonymous_bytes(&server);
    let request = format!(
        "GET /v1/runs/{run}/events HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n\r\n",
        server.address
    );
    let mut readers: Vec<TcpStream> = Vec::with_capacity(READERS);
    for at in 0..READERS {
        let connected = TcpStream::connect(&server.address);
        let mut socket = connected.unwrap_or_else(|why| panic!("reader {at} with {ours:?}: {why}"));
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        readers.push(socket);
    }
    // All of them are level before it happens.
    for reader in &mut readers {
        until(reader, "caught_up");
    }
    let each = (anonymous_bytes(&server) - before) / READERS as f64;
    assert!(each < 32.0 * 1024.0, "a reader at rest costs {each} bytes");
    runtime.block_on(story::append(&client, &run, 0, &[("run.started", "{}")]));
    for reader in &mut readers {
        until(reader, "\"type\":\"run.started\"");
    }
    assert_eq!(ask(&server, &mut connect(&server)).0, 200, "and others are served");
}

/// Reads until a text comes.
fn until(socket: &mut TcpStream, wanted: &str) {
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&got).contains(wanted) {
        let count = socket.read(&mut piece).unwrap();
        assert!(count > 0, "the stream ended: {}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&piece[..count]);
    }
}

#[test]
fn a_client_over_the_limit_receives_a_retry_time() {
    let data = tempfile::tempdir().unwrap();
    // The hard limit leaves 100 places; the soft one would leave none.
    let server = with_files(data.path(), 64, 228);
    let mut inside: Vec<TcpStream> = (0..FOR_ONE_OF_100).map(|_| connect(&server)).collect();
    for socket in &mut inside {
        assert_eq!(ask(&server, socket).0, 200);
    }
    for _ in 0..200 {
        let mut socket = connect(&server);
        let (status, head, body) = ask(&server, &mut socket);
        assert_eq!(status, 503, "{body}");
        assert!(head.contains("retry-after: 5") && head.contains("connection: close"), "{head}");
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        let problem: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(problem["code"], "too_many_streams", "{body}");
        assert_eq!(problem["retryable"], true, "{body}");
        assert!(
            problem["detail"].as_str().unwrap().contains("limit of 100 connections is reached"),
            "{body}"
        );
        assert!(head.contains(&problem["request_id"].as_str().unwrap().to_lowercase()), "{head} {body}");
        assert_eq!(socket.read(&mut [0; 16]).unwrap(), 0, "it is closed then");
    }
    for socket in &mut inside {
        assert_eq!(ask(&server, socket).0, 200, "those inside are served on");
    }
    // A client from elsewhere is served, too.
    let mut elsewhere = [(); 2].map(|()| connect_from([127, 0, 0, 2], &server));
    for _ in 0..20 {
        for socket in &mut elsewhere {
            assert_eq!(ask(&server, socket).0, 200, "another address");
        }
    }
    // A place that becomes free is given to the next one.
    inside.pop();
    let began = recount_world::moment();
    while ask(&server, &mut connect(&server)).0 != 200 {
        assert!(began.elapsed() < PATIENCE, "the place is never given again");
    }
}

#[test]
fn a_silent_connection_over_the_limit_is_closed_soon() {
    let data = tempfile::tempdir().unwrap();
    let server = with_files(data.path(), 228, 228);
    let inside: Vec<TcpStream> = (0..FOR_ONE_OF_100).map(|_| connect(&server)).collect();
    // More than are told at a time, and none of them says a word.
    let silent: Vec<TcpStream> = (0..100).map(|_| connect(&server)).collect();
    for mut socket in silent {
        let ended = socket.read(&mut [0; 16]);
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }
    assert_eq!(ask(&server, &mut connect(&server)).0, 503);
    drop(inside);
    let began = recount_world::moment();
    while ask(&server, &mut connect(&server)).0 != 200 {
        assert!(began.elapsed() < PATIENCE, "no place becomes free");
    }
}
