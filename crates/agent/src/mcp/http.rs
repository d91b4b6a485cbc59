//! A server at an address: each message is a POST, and the answer is JSON or a stream of events.
//!
//! Look at [`Http`]. It must not know what messages are for.

use std::sync::Arc;

use futures_util::StreamExt as _;
use recount_transport::sse::Decoder;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;

use super::fault::{Fault, code};
use super::headers;
use super::message::{self, Incoming};
use super::pipes::ReadQuota;
use crate::headers::SecretHeaders;
use crate::limits::MODEL_ERROR_BODY_BYTES_MAX;
use crate::mcp::limits;
use crate::model::{http_client, innermost};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Where a server is, and what goes with every request. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HttpEndpoint {
    client: Client,
    url: Url,
    headers: Arc<SecretHeaders>,
}

impl HttpEndpoint {
    pub(crate) fn new(url: &str, headers: SecretHeaders) -> Result<HttpEndpoint, String> {
        // An address may hold a password, so a wrong one is not repeated.
        let parsed = Url::parse(url).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
        });
        let Some(url) = parsed else {
            return Err("it is no address of a server; use one such as https://mcp.example.com/mcp, without a password".to_owned());
        };
        let client = http_client(&url, url.scheme() == "http").map_err(|why| why.to_string())?;
        Ok(HttpEndpoint { client, url, headers: Arc::new(headers) })
    }

    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }
}

/// What a request is, for the headers that say so.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) method: &'a str,
    pub(crate) name: Option<&'a str>,
}

/// A server that is spoken with.
pub(crate) struct Http {
    endpoint: HttpEndpoint,
    session: Option<HeaderValue>,
    /// The version that every request names.
    pub(crate) version: Option<&'static str>,
    /// Whether requests name their methods in headers.
    pub(crate) names_methods: bool,
}

impl Http {
    pub(crate) fn new(endpoint: HttpEndpoint) -> Self {
        Http { endpoint, session: None, version: None, names_methods: false }
    }

    /// Sends a request and reads up to its answer. `heard` is given every notification.
    pub(crate) async fn exchange(
        &mut self,
        wanted: u64,
        subject: Subject<'_>,
        body: Vec<u8>,
        quota: &mut ReadQuota,
        heard: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Result<Value, Fault>, Fault> {
        let response = self.post(subject, body).await?;
        if let Some(session) = response.headers().get(SESSION).filter(|_| subject.method == "initialize") {
            self.session = Some(session.clone());
        }
        let status = response.status();
        let streams = is_kind(&response, "text/event-stream");
        if status.is_success() && streams {
            return self.streamed(wanted, response, quota, heard).await;
        }
        let is_json = is_kind(&response, "application/json");
        let body = whole(response, quota, !status.is_success()).await?;
        let incoming = Incoming::read(&body).filter(|_| is_json);
        match incoming.map(|incoming| incoming.into_answer_to(wanted)) {
            Some(Ok(answer)) if status.is_success() || answer.is_err() => Ok(answer),
            _ if status.is_success() => {
                let why = "the server answered with something that is no message of the protocol";
                Err(Fault::new(code::GARBLED, why))
            }
            _ if status == StatusCode::NOT_FOUND && self.session.is_some() => {
                let why = "the server has forgotten the session; nothing was done";
                Err(Fault::new(code::SESSION_OVER, why))
            }
            _ => Err(refused_status(status, &body)),
        }
    }

    /// Sends what has no answer.
    pub(crate) async fn send(&mut self, method: &str, body: Vec<u8>) -> Result<(), Fault> {
        let response = self.post(Subject { method, name: None }, body).await?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(refused_status(status, b"")) }
    }

    /// Says that the session is over, where there is one.
    pub(crate) async fn close(self) {
        let Some(session) = &self.session else { return };
        let mut request = self.endpoint.client.delete(self.endpoint.url.clone());
        request = request.headers(self.endpoint.headers.0.clone()).header(SESSION, session);
        if let Some(version) = self.version {
            request = request.header(VERSION, version);
        }
        // A server that keeps it forgets it when it wants.
        request.send().await.ok();
    }

    async fn post(&self, subject: Subject<'_>, body: Vec<u8>) -> Result<Response, Fault> {
        let mut request = self
            .endpoint
            .client
            .post(self.endpoint.url.clone())
            .headers(self.endpoint.headers.0.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(body);
        if let Some(session) = &self.session {
            request = request.header(SESSION, session);
        }
        if let Some(version) = self.version {
            request = request.header(VERSION, version);
        }
        if self.names_methods {
            request = request.header(METHOD, subject.method);
            if let Some(name) = subject.name.and_then(headers::carried) {
                request = request.header(NAME, name);
            }
        }
        request.send().await.map_err(|why| {
            let host = self.endpoint.host();
            let what = if why.is_connect() { "cannot be reached at" } else { "did not answer from" };
            Fault::new(code::UNREACHABLE, format!("the server {what} {host}: {}", innermost(why)))
        })
    }

    async fn streamed(
        &mut self,
        wanted: u64,
        response: Response,
        quota: &mut ReadQuota,
        heard: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Result<Value, Fault>, Fault> {
        let most = limits::MCP_MESSAGE_BYTES_MAX;
        let mut decoder = Decoder::with_limits(most, most);
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|why| {
                Fault::new(code::ENDED, format!("the answer of the server was cut off: {}", innermost(why)))
            })?;
            quota.take(chunk.len())?;
            let fed = decoder.feed(&chunk);
            while let Some(frame) = decoder.next_frame() {
                quota.take_message()?;
                if frame.event.as_deref().is_some_and(|event| event != "message") || frame.data.is_empty() {
                    continue;
                }
                let Some(incoming) = Incoming::read(frame.data.as_bytes()) else {
                    let why = "the server sent an event that is no message of the protocol; the connection was ended";
                    return Err(Fault::new(code::GARBLED, why));
                };
                match incoming.into_answer_to(wanted) {
                    Ok(answer) => return Ok(answer),
                    Err(Incoming::Request { id, method }) => {
                        self.send(&method, message::answer(&id, &method)).await?;
                    }
                    Err(Incoming::Notification { method }) => heard(&method),
                    Err(Incoming::Answer { .. }) => {}
                }
            }
            fed.map_err(|why| Fault::new(code::FLOODED, format!("{why}; the connection was ended")))?;
        }
        Err(Fault::new(code::ENDED, "the server ended its answer before the result"))
    }
}

/// A body of bounded length; of an error the beginning is enough.
async fn whole(response: Response, quota: &mut ReadQuota, is_error: bool) -> Result<Vec<u8>, Fault> {
    let most = if is_error { MODEL_ERROR_BODY_BYTES_MAX } else { limits::MCP_MESSAGE_BYTES_MAX };
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(_) if is_error => break,
            Err(why) => {
                let why = format!("the answer of the server was cut off: {}", innermost(why));
                return Err(Fault::new(code::ENDED, why));
            }
        };
        quota.take(chunk.len())?;
        body.extend_from_slice(&chunk);
        if body.len() > most {
            if is_error {
                break;
            }
            let why = format!("an answer of the server is longer than {most} bytes, and was not read on");
            return Err(Fault::new(code::FLOODED, why));
        }
    }
    Ok(body)
}

/// An answer that is an error of HTTP, by its number.
fn refused_status(status: StatusCode, body: &[u8]) -> Fault {
    let number = status.as_u16();
    let said = match Incoming::read(body) {
        Some(Incoming::Answer { answer: Err(fault), .. }) => fault.message,
        _ => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    let mut fault = Fault::new(code::UNREACHABLE, format!("the server answered with status {number}{said}"));
    fault.refusal = Some((i64::from(number), Value::Null));
    fault
}

fn is_kind(response: &Response, wanted: &str) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
}
