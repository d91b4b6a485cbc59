//! The HTTP server: accepts requests, records them, and plays the matching recording.
//!
//! Start at [`Player`]. The module must not check a request beyond its path: tests do that with the [`Seen`] requests.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use recount_world::{Kind, World};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::body::{CutOff, Playing};
use crate::limits;
use crate::recording::{Api, Shelf};

/// A server that plays recordings. It ends with the world's tasks.
#[derive(Clone)]
pub struct Player {
    address: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    shelf: Shelf,
    memory: Mutex<Memory>,
    seen: watch::Sender<usize>,
    abandoned: watch::Sender<usize>,
    connections: watch::Sender<usize>,
}

#[derive(Default)]
struct Memory {
    seen: VecDeque<Seen>,
    /// The number of responses by name of the recording.
    given: BTreeMap<String, usize>,
}

/// A received request.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub method: String,
    pub path: String,
    /// The header names are in lower case.
    pub headers: BTreeMap<String, String>,
    /// `null` if the body is not JSON.
    pub body: Value,
}

type HttpResponse = Response<BoxBody<Bytes, CutOff>>;

impl Player {
    /// Listens on this machine only; port 0 chooses a free one.
    pub async fn start(world: &World, port: u16, shelf: Shelf) -> std::io::Result<Player> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).await?;
        let inner = Inner {
            shelf,
            memory: Mutex::default(),
            seen: watch::Sender::new(0),
            abandoned: watch::Sender::new(0),
            connections: watch::Sender::new(0),
        };
        let player = Player { address: listener.local_addr()?, inner: Arc::new(inner) };
        let (inner, tasks) = (player.inner.clone(), world.tasks.clone());
        world.tasks.spawn(Kind::Service, |mut shutdown| async move {
            loop {
                let peer = tokio::select! {
                    () = shutdown.requested() => return,
                    accepted = listener.accept() => accepted,
                };
                // A connection that closed before it was accepted does not affect the next.
                let Ok((peer, _)) = peer else { continue };
                let inner = inner.clone();
                tasks.spawn(Kind::Connection, |mut shutdown| async move {
                    tokio::select! {
                        () = shutdown.requested() => {}
                        () = inner.serve(peer) => {}
                    }
                });
            }
        });
        Ok(player)
    }

    /// Such as `http://127.0.0.1:40123`; the paths of the protocols start at `/v1`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far, oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        let memory = self.inner.memory.lock().expect("nothing panics while it remembers");
        memory.seen.iter().cloned().collect()
    }

    /// Waits until this many requests were received.
    pub async fn wait_seen(&self, count: usize) {
        wait(&self.inner.seen, count).await;
    }

    /// Waits until clients have abandoned this many responses.
    pub async fn wait_abandoned(&self, count: usize) {
        wait(&self.inner.abandoned, count).await;
    }

    /// The number of accepted connections so far.
    pub fn connections(&self) -> usize {
        *self.inner.connections.borrow()
    }
}

async fn wait(count: &watch::Sender<usize>, minimum: usize) {
    let waited = count.subscribe().wait_for(|count| *count >= minimum).await.map(|_| ());
    waited.expect("the player holds the sender");
}

impl Inner {
    async fn serve(self: &Arc<Self>, peer: TcpStream) {
        self.connections.send_modify(|count| *count += 1);
        let service = service_fn(|request| async move { Ok::<_, Infallible>(self.answer(request).await) });
        // Clients that disconnect, and recordings that are cut off, end a connection with an error; both are expected.
        http1::Builder::new().serve_connection(TokioIo::new(peer), service).await.ok();
    }

    async fn answer(&self, request: Request<Incoming>) -> HttpResponse {
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, limits::REQUEST_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(why) if why.is::<LengthLimitError>() => {
                return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
            }
            Err(_) => return refuse(StatusCode::BAD_REQUEST, "the request was cut off"),
        };
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let model = body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (method, path) = (head.method.to_string(), head.uri.path().to_owned());
        let found = self.shelf.find(&model);
        let number = self.remember(
            Seen { method: method.clone(), path: path.clone(), headers: plain(&head.headers), body },
            found.map(|(name, _)| name),
        );
        let Some((_, recording)) = found else {
            return refuse(StatusCode::NOT_FOUND, &format!("there is no recording {model:?}"));
        };
        let expected_path = match recording.api {
            Api::Anthropic => "/v1/messages",
            Api::OpenAi => "/v1/chat/completions",
        };
        if method != "POST" || path != expected_path {
            return refuse(
                StatusCode::NOT_FOUND,
                &format!("this recording needs POST {expected_path}, not {method} {path}"),
            );
        }
        let answer = recording.answer(number);
        let mut response = Response::builder().status(answer.status);
        if !answer.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type")) {
            let kind = if answer.status < 300 { "text/event-stream" } else { "application/json" };
            response = response.header(CONTENT_TYPE, kind);
        }
        for (name, value) in &answer.headers {
            response = response.header(name, value);
        }
        let body = Playing::new(answer, self.abandoned.clone());
        response.body(body.boxed()).unwrap_or_else(|why| {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, &format!("the recording has a wrong header: {why}"))
        })
    }

    /// Records the request. Returns its number for the recording, from 0.
    fn remember(&self, request: Seen, recording: Option<&str>) -> usize {
        let mut memory = self.memory.lock().expect("nothing panics while it remembers");
        if memory.seen.len() == limits::REQUESTS_REMEMBERED_MAX {
            memory.seen.pop_front();
        }
        memory.seen.push_back(request);
        let given = memory.given.entry(recording.unwrap_or_default().to_owned()).or_default();
        let number = *given;
        *given += 1;
        self.seen.send_modify(|count| *count += 1);
        number
    }
}

fn plain(headers: &HeaderMap) -> BTreeMap<String, String> {
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// An error in a form that both protocols understand.
fn refuse(status: StatusCode, why: &str) -> HttpResponse {
    let body = json!({ "type": "error", "error": { "type": "playback", "message": why } });
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    response
}
