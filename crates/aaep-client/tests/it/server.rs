//! A minimal test server: each test decides the exact bytes of the responses and how they are split.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recount_aaep_client::link::{Dial, Link, LinkError, ReceivedMessage, Target};
use recount_world::{Kind, World};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// How long a test waits for something that must happen.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// As in `GET /events`.
    pub(crate) line: String,
    /// Lower-case names with their values.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

type ResponseFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Listens until its world ends.
pub(crate) struct Server {
    pub(crate) at: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Each connection has one request; `answer` gets the connection.
    pub(crate) async fn start<F>(
        world: &World,
        answer: impl Fn(Request, TcpStream) -> F + Send + Sync + 'static,
    ) -> Server
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (list, tasks) = (seen.clone(), world.tasks.clone());
        let answer = Arc::new(move |request, stream| -> ResponseFuture { Box::pin(answer(request, stream)) });
        world.tasks.spawn(Kind::Service, |_| async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (list, answer) = (list.clone(), answer.clone());
                tasks.spawn(Kind::Connection, |_| async move {
                    let Some(request) = read(&mut stream).await else { return };
                    list.lock().unwrap().push(request.clone());
                    answer(request, stream).await;
                });
            }
        });
        Server { at, seen }
    }

    /// A server that sends the same bytes for every request, and then closes the connection.
    pub(crate) async fn responding(world: &World, answer: impl Into<Vec<u8>>) -> Server {
        let answer: Arc<[u8]> = answer.into().into();
        Server::start(world, move |_, mut stream| {
            let answer = answer.clone();
            async move {
                stream.write_all(&answer).await.ok();
                stream.shutdown().await.ok();
            }
        })
        .await
    }

    pub(crate) fn http(&self) -> String {
        format!("http://{}", self.at)
    }

    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|request| request.line).collect()
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
    let mut lines = text.lines();
    let line = lines.next()?.rsplit_once(' ')?.0.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    while bytes.len() < head + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8(bytes[head..].to_vec()).ok()?;
    Some(Request { line, headers, body })
}

/// The head of an event stream that ends when its connection does.
pub(crate) const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// A complete HTTP response.
pub(crate) fn response(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}")
}

pub(crate) async fn write(stream: &mut TcpStream, text: impl AsRef<[u8]>) {
    stream.write_all(text.as_ref()).await.ok();
    stream.flush().await.ok();
}

pub(crate) fn dial(target: &str) -> Dial {
    Dial { patience: TEST_TIMEOUT, ..Dial::to(target.parse::<Target>().unwrap()) }
}

/// Receives all messages until the end; returns them and the error, if any.
pub(crate) async fn all(link: &mut Link) -> (Vec<ReceivedMessage>, Option<LinkError>) {
    let mut received = Vec::new();
    loop {
        match tokio::time::timeout(TEST_TIMEOUT, link.next()).await.expect("the link ends soon") {
            Ok(Some(message)) => received.push(message),
            Ok(None) => return (received, None),
            Err(why) => return (received, Some(why)),
        }
    }
}

pub(crate) fn texts(received: &[ReceivedMessage]) -> Vec<&str> {
    received.iter().map(|message| message.text.as_str()).collect()
}
