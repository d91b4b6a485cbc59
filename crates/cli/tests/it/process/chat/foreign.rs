//! A server of another make: it speaks the agent application protocol, as a test scripts it, and nothing of ours.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What came in.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Value,
}

/// What goes out, piece by piece.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// Nothing more until the other side has closed the connection.
    UntilClosed,
}

pub(super) type Reply = Vec<Piece>;

pub(super) struct Foreign {
    pub(super) address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Foreign {
    /// Answers each request with the result of `script`; `None` is 404 in plain text.
    pub(super) fn start(script: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(script);
        let kept = requests.clone();
        // It ends with the tests: connections that nobody makes cost nothing.
        recount_world::thread("foreign", move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, kept) = (script.clone(), kept.clone());
                recount_world::thread("foreign connection", move || {
                    // Where the other side leaves early there is nobody to answer.
                    drop(answer(stream, &*script, &kept));
                });
            }
        });
        Foreign { address, requests }
    }

    /// With a path that is not the one of our servers.
    pub(super) fn url(&self) -> String {
        format!("http://{}/agents/v3", self.address)
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The bodies of the turns so far.
    pub(super) fn turns(&self) -> Vec<Value> {
        let turns = self.requests().into_iter().filter(|request| request.path.ends_with("/turns"));
        turns.map(|request| request.body).collect()
    }
}

fn answer(
    mut stream: TcpStream,
    script: &dyn Fn(&Request) -> Option<Reply>,
    kept: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(()) };
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let path = path.strip_prefix("/agents/v3").unwrap_or("/elsewhere").to_owned();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let request = Request { method, path, headers, body };
    let reply = script(&request);
    kept.lock().unwrap().push(request);
    for piece in reply.unwrap_or_else(|| plain(404, "404 Not Found")) {
        match piece {
            Piece::Bytes(bytes) => {
                stream.write_all(&bytes)?;
                stream.flush()?;
            }
            Piece::UntilClosed => while reader.read(&mut [0; 64])? > 0 {},
        }
    }
    Ok(())
}

pub(super) fn plain(status: u16, text: &str) -> Reply {
    let head =
        format!("HTTP/1.1 {status} Any\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n{text}");
    vec![Piece::Bytes(head.into_bytes())]
}

pub(super) fn reply(status: u16, body: &Value) -> Reply {
    let head = "content-type: application/json\r\nconnection: close";
    vec![Piece::Bytes(format!("HTTP/1.1 {status} Any\r\n{head}\r\n\r\n{body}").into_bytes())]
}

/// The head of a stream, with these headers more; the pieces follow.
pub(super) fn stream(headers: &str, pieces: &[&[u8]]) -> Reply {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n{headers}\r\n"
    );
    let chunk =
        |piece: &&[u8]| Piece::Bytes([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
    std::iter::once(Piece::Bytes(head.into_bytes())).chain(pieces.iter().map(chunk)).collect()
}

/// The same, ended as it should be.
pub(super) fn whole_stream(events: &str) -> Reply {
    let mut reply = stream("", &[events.as_bytes()]);
    reply.push(Piece::Bytes(b"0\r\n\r\n".to_vec()));
    reply
}

pub(super) fn frame(event: &str, data: &Value) -> String {
    format!("event: {event}\ndata: {data}\n\n")
}

/// A turn with this text that ends.
pub(super) fn reply_with(text: &str) -> Reply {
    let delta = frame("text_delta", &json!({"delta": text}));
    let stop = frame("turn_stop", &json!({"stopReason": "end_turn"}));
    whole_stream(&format!("{}{delta}{stop}", frame("turn_start", &json!({}))))
}

/// The `/meta` of a server with one agent.
pub(super) fn meta(agent: &Value) -> Reply {
    reply(200, &json!({"version": 3, "agents": [agent]}))
}

/// An agent that streams turns in pieces, has a history and two tools.
pub(super) fn agent() -> Value {
    json!({
        "name": "clerk", "version": "1.0.0",
        "tools": [
            {"name": "look", "description": "Looks something up.", "parameters": {"type": "object"}},
            {"name": "keep", "description": "Keeps a note.", "parameters": {"type": "object"}},
        ],
        "capabilities": {"stream": {"delta": {}}, "history": {"full": {}}},
    })
}

/// The usual answers around the turns.
pub(super) fn around(request: &Request, agent: &Value) -> Option<Reply> {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/meta") => Some(meta(agent)),
        ("POST", "/sessions") => Some(reply(201, &json!({"sessionId": "s-1"}))),
        _ => None,
    }
}
