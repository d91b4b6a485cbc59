//! Requests as applications send them, and answers as they come, byte for byte over a socket of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::server::{PATIENCE, Server};

/// A client of a server, with what it sends every time.
#[derive(Clone)]
pub(super) struct Application {
    address: String,
    base: String,
    /// As browsers send them with everything.
    headers: Vec<(String, String)>,
}

pub(super) struct Reply {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

/// An answer on its way.
pub(super) struct Opened {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    body: Box<dyn BufRead>,
}

/// One frame of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Frame {
    pub(super) id: Option<String>,
    pub(super) event: String,
    pub(super) data: Value,
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {:?}", self.body))
    }

    /// A refusal in this protocol's form.
    pub(super) fn refused(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/json"));
        let json = self.json();
        assert_eq!(json["code"], code, "{json}");
        assert!(json["error"].as_str().is_some_and(|words| !words.is_empty()), "{json}");
        assert_eq!(json["requestId"].as_str(), self.header("x-request-id"), "{json}");
    }
}

impl Opened {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The next frame; comments are passed over. `None`: the stream ended.
    pub(super) fn frame(&mut self) -> Option<Frame> {
        let (mut id, mut event, mut data) = (None, None, None);
        loop {
            let mut line = String::new();
            if self.body.read_line(&mut line).expect("the stream can be read") == 0 {
                assert!(event.is_none() && data.is_none(), "the stream ends within a frame");
                return None;
            }
            let line = line.trim_end_matches('\n');
            if line.is_empty() {
                let (Some(event), Some(data)) = (event.take(), data.take()) else { continue };
                return Some(Frame { id, event, data });
            }
            match line.split_once(": ") {
                Some(("", _)) => {}
                Some(("id", value)) => id = Some(value.to_owned()),
                Some(("event", value)) => event = Some(value.to_owned()),
                Some(("data", value)) => data = Some(serde_json::from_str(value).expect("data is JSON")),
                _ => assert!(line.starts_with(':'), "{line:?} is no line of a frame"),
            }
        }
    }

    /// All that is left.
    pub(super) fn frames(mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.frame()).collect()
    }

    fn whole(mut self) -> Reply {
        let mut body = String::new();
        self.body.read_to_string(&mut body).expect("the body can be read");
        Reply { status: self.status, headers: self.headers, body }
    }
}

impl Application {
    pub(super) fn of(server: &Server) -> Self {
        Application { address: server.address.clone(), base: "/aap".into(), headers: Vec::new() }
    }

    pub(super) fn at(self, base: &str) -> Self {
        Application { base: base.into(), ..self }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(super) fn open(&self, method: &str, path: &str, body: Option<&Value>) -> Opened {
        let stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut head = format!("{method} {}{path} HTTP/1.1\r\nhost: {}\r\n", self.base, self.address);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("content-type: application/json\r\nconnection: close\r\n\r\n");
        let mut writer = stream.try_clone().unwrap();
        writer.write_all(head.as_bytes()).unwrap();
        writer.write_all(body.as_bytes()).unwrap();
        Opened::read(BufReader::new(stream))
    }

    pub(super) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.open(method, path, body).whole()
    }

    pub(super) fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, None)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask("POST", path, Some(body))
    }

    /// A new session.
    pub(super) fn session(&self, body: &Value) -> String {
        let made = self.post("/sessions", body);
        assert_eq!(made.status, 201, "{}", made.body);
        made.json()["sessionId"].as_str().expect("it has an id").to_owned()
    }

    /// A turn's stream.
    pub(super) fn turn(&self, session: &str, body: &Value) -> Opened {
        let opened = self.open("POST", &format!("/sessions/{session}/turns"), Some(body));
        if opened.status != 200 {
            panic!("{}", opened.whole().body);
        }
        opened
    }

    pub(super) fn history(&self, session: &str) -> Vec<Value> {
        let read_history = self.get(&format!("/sessions/{session}/history?type=full"));
        assert_eq!(read_history.status, 200, "{}", read_history.body);
        read_history.json()["history"]["full"].as_array().expect("a list").clone()
    }
}

impl Opened {
    fn read(mut from: BufReader<TcpStream>) -> Opened {
        let mut line = String::new();
        from.read_line(&mut line).expect("an answer comes");
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("{line:?} is no status"));
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            from.read_line(&mut line).expect("a head comes");
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        let body: Box<dyn BufRead> = match header(&headers, "transfer-encoding") {
            Some("chunked") => Box::new(BufReader::new(Chunked { from, left: 0, is_over: false })),
            _ => {
                let length = header(&headers, "content-length").map_or(0, |length| length.parse().unwrap());
                Box::new(from.take(length))
            }
        };
        Opened { status, headers, body }
    }
}

/// A body in chunks, without what is between them.
struct Chunked {
    from: BufReader<TcpStream>,
    left: usize,
    is_over: bool,
}

impl Read for Chunked {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.is_over || into.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            let mut line = String::new();
            self.from.read_line(&mut line)?;
            self.left = usize::from_str_radix(line.trim_end(), 16)
                .unwrap_or_else(|_| panic!("{line:?} is no size of a chunk"));
            if self.left == 0 {
                self.is_over = true;
                return Ok(0);
            }
        }
        let most = into.len().min(self.left);
        let read = self.from.read(&mut into[..most])?;
        assert!(read > 0, "the connection ends within a chunk");
        self.left -= read;
        if self.left == 0 {
            let mut end = [0; 2];
            self.from.read_exact(&mut end)?;
        }
        Ok(read)
    }
}
