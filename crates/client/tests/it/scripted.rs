//! A server with scripted responses, for tests of the client.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use recount_world::{Kind, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What one request is answered with.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// A whole response.
    Full { status: u16, media_type: &'static str, body: String },
    /// A stream that ends in good order.
    Stream(String),
    /// A stream that breaks.
    Broken(String),
    /// The connection breaks before a head was sent.
    Nothing,
}

impl Answer {
    pub(crate) fn json(body: impl Into<String>) -> Self {
        Answer::Full { status: 200, media_type: "application/json", body: body.into() }
    }

    pub(crate) fn problem(status: u16, code: &str, retryable: bool) -> Self {
        let body = format!(
            r#"{{"type":"about:blank","title":"t","status":{status},"detail":"d","code":"{code}","retryable":{retryable},"request_id":"req_1"}}"#
        );
        Answer::Full { status, media_type: "application/problem+json", body }
    }
}

/// One request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) struct Scripted {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Scripted {
    /// Answers request after request; the last answer is repeated.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let answers: Arc<Mutex<VecDeque<Answer>>> = Arc::new(Mutex::new(answers.into_iter().collect()));
        let keep = requests.clone();
        World::real().tasks.spawn(Kind::Service, |_| async move {
            while let Ok((stream, _)) = listener.accept().await {
                let request = read_request(stream).await;
                let Some((mut stream, received)) = request else { continue };
                keep.lock().expect("no test panics here").push(received);
                let answer = {
                    let mut answers = answers.lock().expect("no test panics here");
                    if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
                };
                answer_with(&mut stream, answer.expect("a script has an answer")).await;
            }
        });
        Scripted { url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().expect("no test panics here").clone()
    }
}

async fn read_request(mut stream: TcpStream) -> Option<(TcpStream, ReceivedRequest)> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).expect("a head is text");
    let mut lines = head.lines();
    let mut request = lines.next()?.split(' ');
    let (method, target) = (request.next()?.to_owned(), request.next()?.to_owned());
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().expect("a length is a number"));
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(bytes[head_end..].to_vec()).expect("a body is text");
    Some((stream, ReceivedRequest { method, target, headers, body }))
}

async fn answer_with(stream: &mut TcpStream, answer: Answer) {
    const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let text = match answer {
        Answer::Nothing => String::new(),
        Answer::Full { status: 204, .. } => "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_owned(),
        Answer::Full { status, media_type, body } => format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
        Answer::Stream(body) => format!("{STREAM_HEAD}{}0\r\n\r\n", chunk(&body)),
        Answer::Broken(body) => format!("{STREAM_HEAD}{}", chunk(&body)),
    };
    // The client may have closed the connection, which its test then checks.
    stream.write_all(text.as_bytes()).await.ok();
    stream.shutdown().await.ok();
}
