//! A raw HTTP client: writes the given bytes and reads the response bytes.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long a test waits for expected bytes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) struct Wire {
    pub(crate) socket: TcpStream,
    held: BytesMut,
}

/// One response. `body` is unframed.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case, in the order of arrival.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(there, _)| there == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is repeated: {:?}", self.headers);
        value
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("bodies are UTF-8")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|why| panic!("{why}: {} {:?}", self.status, String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn data(&self) -> Value {
        self.json()["data"].clone()
    }
}

impl Wire {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Wire::over(TcpStream::connect(address).await.expect("the server listens"))
    }

    pub(crate) fn over(socket: TcpStream) -> Self {
        Wire { socket, held: BytesMut::new() }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.expect("the server reads");
    }

    /// Sends although the server may have stopped listening.
    pub(crate) async fn send_anyway(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).await.is_ok()
    }

    /// Reads more bytes; returns false at the end.
    pub(crate) async fn fill(&mut self) -> bool {
        let read = tokio::time::timeout(PATIENCE, self.socket.read_buf(&mut self.held)).await;
        match read {
            Ok(Ok(count)) => count > 0,
            // The server closed before it read everything: this is the end as well.
            Ok(Err(_)) => false,
            Err(_) => panic!("nothing came within {PATIENCE:?}; held: {:?}", self.held),
        }
    }

    /// Everything up to the end of the connection.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.fill().await {}
        self.held.split().to_vec()
    }

    pub(crate) async fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.held.len() < count {
            if !self.fill().await {
                return None;
            }
        }
        Some(self.held.split_to(count).to_vec())
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.held.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8(self.held.split_to(end).to_vec()).expect("heads are text");
                self.held.advance(2);
                return Some(line);
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// The head of a response; `None` when the connection ended instead.
    pub(crate) async fn head(&mut self) -> Option<Reply> {
        let status_line = self.line().await?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status in {status_line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Some(Reply { status, headers, body: Vec::new() });
            }
            let (name, value) = line.split_once(':').expect("a header has a colon");
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// Reads a whole response to a request with this method.
    pub(crate) async fn reply(&mut self, method: &str) -> Option<Reply> {
        let mut reply = self.head().await?;
        let bodiless = method == "HEAD" || matches!(reply.status, 100 | 204 | 304);
        if bodiless {
            return Some(reply);
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await? {
                reply.body.extend_from_slice(&chunk);
            }
        } else if let Some(length) = reply.header("content-length") {
            let length = length.parse().expect("a length is a number");
            reply.body = self.take(length).await?;
        } else {
            reply.body = self.rest().await;
        }
        Some(reply)
    }

    /// The next chunk of a body. The inner `None` is the regular end, the outer one a broken connection.
    pub(crate) async fn chunk(&mut self) -> Option<Option<Vec<u8>>> {
        let size = self.line().await?;
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("no chunk size: {size:?}"));
        let chunk = self.take(size).await?;
        let end = self.line().await?;
        assert_eq!(end, "", "a chunk ends with a line end");
        Some((size > 0).then_some(chunk))
    }
}

/// A request as bytes. A body adds its length and the JSON media type, unless `headers` has them.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Vec<u8> {
    let mut out = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    let given = |name: &str| headers.iter().any(|(there, _)| there.eq_ignore_ascii_case(name));
    if !given("host") {
        out.extend_from_slice(format!("host: {address}\r\n").as_bytes());
    }
    if let Some(body) = body {
        if !given("content-type") {
            out.extend_from_slice(b"content-type: application/json\r\n");
        }
        if !given("content-length") && !given("transfer-encoding") {
            out.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
        }
    }
    for (name, value) in headers {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body.unwrap_or_default());
    out
}

/// One frame of an event stream in a known shape. Any other shape fails the test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Retry(u64),
    Comment(String),
    Event {
        id: u64,
        data: String,
    },
    Named {
        event: String,
        data: String,
    },
    /// Moves the reader's cursor without an event.
    Mark {
        event: String,
        id: u64,
        data: String,
    },
}

impl Frame {
    fn parse(block: &str) -> Frame {
        let lines: Vec<&str> = block.split('\n').collect();
        let broken = || panic!("unknown frame: {block:?}");
        match lines.as_slice() {
            [one] if one.starts_with("retry: ") => Frame::Retry(one[7..].parse().expect("a number")),
            [one] if one.starts_with(':') => Frame::Comment(one[1..].trim_start().to_owned()),
            [id, data] if id.starts_with("id: ") && data.starts_with("data: ") => {
                Frame::Event { id: id[4..].parse().expect("a number"), data: data[6..].to_owned() }
            }
            [event, data] if event.starts_with("event: ") && data.starts_with("data: ") => {
                Frame::Named { event: event[7..].to_owned(), data: data[6..].to_owned() }
            }
            [id, event, data]
                if id.starts_with("id: ") && event.starts_with("event: ") && data.starts_with("data: ") =>
            {
                let id = id[4..].parse().expect("a number");
                Frame::Mark { event: event[7..].to_owned(), id, data: data[6..].to_owned() }
            }
            _ => broken(),
        }
    }

    pub(crate) fn caught_up(name: &str, at: i64) -> Frame {
        Frame::Named { event: "caught_up".into(), data: format!("{{\"{name}\":{at}}}") }
    }
}

/// An event stream that is being read.
pub(crate) struct Listener {
    pub(crate) wire: Wire,
    pub(crate) head: Reply,
    text: BytesMut,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With the last chunk.
    Good,
    /// The connection broke.
    Cut,
}

impl Listener {
    pub(crate) async fn open(address: SocketAddr, target: &str, headers: &[(&str, &str)]) -> Listener {
        let mut wire = Wire::connect(address).await;
        let mut all = vec![("accept", "text/event-stream")];
        all.extend_from_slice(headers);
        wire.send(&request(address, "GET", target, &all, None)).await;
        let head = wire.head().await.expect("a response head");
        assert_eq!(head.status, 200, "{target}: {head:?}");
        assert_eq!(head.header("transfer-encoding"), Some("chunked"));
        Listener { wire, head, text: BytesMut::new() }
    }

    pub(crate) async fn next(&mut self) -> Result<Frame, End> {
        loop {
            if let Some(end) = self.text.windows(2).position(|two| two == b"\n\n") {
                let block = self.text.split_to(end);
                self.text.advance(2);
                return Ok(Frame::parse(std::str::from_utf8(&block).expect("streams are UTF-8")));
            }
            match self.wire.chunk().await {
                Some(Some(chunk)) => self.text.extend_from_slice(&chunk),
                Some(None) => {
                    assert!(self.text.is_empty(), "a stream ends between frames: {:?}", self.text);
                    return Err(End::Good);
                }
                None => return Err(End::Cut),
            }
        }
    }

    /// The next event; marks and comments before it are skipped.
    pub(crate) async fn event(&mut self) -> Result<(u64, String), End> {
        loop {
            if let Frame::Event { id, data } = self.next().await? {
                return Ok((id, data));
            }
        }
    }

    /// Every frame up to the mark, the mark included.
    pub(crate) async fn until_caught_up(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let frame =
                self.next().await.unwrap_or_else(|end| panic!("{end:?} before caught_up: {frames:?}"));
            let caught_up = matches!(&frame, Frame::Named { event, .. } if event == "caught_up");
            frames.push(frame);
            if caught_up {
                return frames;
            }
        }
    }

    /// Every frame up to the end.
    pub(crate) async fn all(&mut self) -> (Vec<Frame>, End) {
        let mut frames = Vec::new();
        loop {
            match self.next().await {
                Ok(frame) => frames.push(frame),
                Err(end) => return (frames, end),
            }
        }
    }
}

/// The events among frames.
pub(crate) fn events(frames: &[Frame]) -> Vec<(u64, String)> {
    let event = |frame: &Frame| match frame {
        Frame::Event { id, data } => Some((*id, data.clone())),
        _ => None,
    };
    frames.iter().filter_map(event).collect()
}
