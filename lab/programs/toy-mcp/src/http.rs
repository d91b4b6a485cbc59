//! The toy server over HTTP: one request at a time, each on its own connection.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::toy::{ToyEra, ToyServer};

/// Prints the port and serves until the process is killed. Tool behaviour that needs pipes is not available.
pub(crate) fn serve(era: ToyEra) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    println!("{}", listener.local_addr().expect("it is bound").port());
    std::io::stdout().flush().expect("the test reads it");
    let mut toy = ToyServer::new(era);
    let mut session = 1;
    for stream in listener.incoming().flatten() {
        // A client that disconnects does not end the server.
        if let Err(why) = answer(&mut toy, era, &mut session, stream) {
            eprintln!("a request broke off: {why}");
        }
    }
}

fn answer(toy: &mut ToyServer, era: ToyEra, session: &mut u32, mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => head.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let header = |wanted: &str| head.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    if header("authorization") != Some("Bearer toy") {
        return write(&mut stream, "401 Unauthorized", "text/plain", "who are you?", "");
    }
    if first.starts_with("DELETE ") {
        std::fs::write(
            std::env::var("TOY_DELETED").unwrap_or_default(),
            header("mcp-session-id").unwrap_or_default(),
        )
        .ok();
        return write(&mut stream, "200 OK", "text/plain", "", "");
    }
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default();
    let is_first = method == "initialize";
    if era == ToyEra::Old && message["params"]["name"] == "whoami" && *session == 1 {
        // The server forgets the session once.
        *session = 2;
        return write(&mut stream, "404 Not Found", "text/plain", "no such session", "");
    }
    let name = format!("session-{session}");
    let wrong = match era {
        ToyEra::New => {
            header("mcp-protocol-version") != Some("2026-07-28") || header("mcp-method") != Some(method)
        }
        _ => {
            !is_first
                && (header("mcp-session-id") != Some(&name)
                    || header("mcp-protocol-version") != Some("2025-06-18"))
        }
    };
    if wrong {
        return write(&mut stream, "400 Bad Request", "text/plain", "a header is missing or wrong", "");
    }
    if message["params"]["name"] == "hang" {
        // Wait until the client disconnects.
        reader.read_exact(&mut [0]).ok();
        return Ok(());
    }
    if message["params"]["name"] == "fail" {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")?;
        return stream
            .write_all(b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\ndata: cut ");
    }
    let answers = toy.answers(&message);
    let session = if is_first { format!("mcp-session-id: {name}\r\n") } else { String::new() };
    match answers.as_slice() {
        [] => write(&mut stream, "202 Accepted", "text/plain", "", ""),
        // Responses to calls are event streams, all others are one value.
        [only] if method != "tools/call" => {
            write(&mut stream, "200 OK", "application/json", &only.to_string(), &session)
        }
        several => {
            let frames: String =
                several.iter().map(|answer| format!("event: message\ndata: {answer}\n\n")).collect();
            let frames = format!(": alive\n\n{frames}");
            write(&mut stream, "200 OK", "text/event-stream; charset=utf-8", &frames, "")
        }
    }
}

fn write(stream: &mut TcpStream, status: &str, kind: &str, body: &str, more: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n{more}\r\n{body}"
    )
}
