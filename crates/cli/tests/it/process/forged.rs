//! What clients send cannot write lines of the server's log, nor headers of its answers.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use crate::server::{PATIENCE, recount};

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended, which is just as well.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn no_line_of_the_log_is_a_client_s() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = recount();
    command
        .args(["serve", "--bind", "127.0.0.1:0", "--log", "trace", "--data"])
        .arg(folder.path().join("data"));
    command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let server = Ended(command.spawn().unwrap());
    let began = recount_world::moment();
    let address = loop {
        let logged = std::fs::read_to_string(&log).unwrap();
        let listening = logged.lines().find_map(|line| line.strip_prefix("listening on http://"));
        if let Some(address) = listening.filter(|_| logged.ends_with('\n')) {
            break address.to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "the server does not listen; it said: {logged}");
        crate::server::wait_to_look();
    };
    let escape = "\x1b[2K";
    for head in [
        "GET /v1/runs/%0d%0aFORGED%20line HTTP/1.1".to_owned(),
        "GET /v1/runs?status=%0aFORGED%1b[2K HTTP/1.1".to_owned(),
        "GET /FORGED%0aFORGED HTTP/1.1".to_owned(),
        format!("GET /v1/runs HTTP/1.1\r\nx-request-id: a{escape}FORGED"),
        "GET /v1/runs HTTP/1.1\r\nx-request-id: a\r\n FORGED: folded".to_owned(),
        format!("GET /v1/runs HTTP/1.1\r\ntraceparent: \t{escape}"),
        format!("POST /v1/runs HTTP/1.1\r\nidempotency-key: {escape}FORGED\r\ncontent-length: 0"),
        "GET /v1/events?type=a%0d%0aFORGED:%201 HTTP/1.1".to_owned(),
        "GET /v1/events/stream HTTP/1.1\r\nlast-event-id: 1%0aFORGED".to_owned(),
        format!("{escape}FORGED / HTTP/1.1"),
        "FORGED\nFORGED".to_owned(),
    ] {
        let mut socket = TcpStream::connect(&address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("{head}\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A connection that is cut is an answer, too.
        drop(socket.read_to_end(&mut answer));
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let head_of_answer = answer.split("\r\n\r\n").next().unwrap_or_default();
        assert!(!head_of_answer.contains('\x1b'), "{head:?}: {head_of_answer:?}");
        assert!(
            !head_of_answer.lines().any(|line| line.starts_with("FORGED")),
            "{head:?}: {head_of_answer:?}"
        );
    }
    drop(server);
    let logged = std::fs::read(&log).unwrap();
    let logged = String::from_utf8(logged).expect("the log is text");
    assert!(logged.lines().count() > 3, "it says something at this level: {logged}");
    for line in logged.lines() {
        assert!(!line.starts_with("FORGED"), "{line}");
        assert!(!line.chars().any(|c| c.is_control()), "{line:?}");
    }
}
