//! Connects to a server over HTTP: each message is a POST, and the response is JSON or an event stream.
//!
//! Start at [`Http`]. The module must not depend on the meaning of messages.

use std::sync::Arc;

use futures_util::StreamExt as _;
use recount_transport::sse::Decoder;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::Value;

use super::fault::{Fault, code};
use super::headers;
use super::message::{self, Incoming};
use super::quota::ReadQuota;
use crate::headers::SecretHeaders;
use crate::limits::MODEL_ERROR_BODY_BYTES_MAX;
use crate::mcp::limits;
use crate::model::{http_client, innermost};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// The URL of a server and the headers of every request. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HttpEndpoint {
    client: Client,
    url: Url,
    headers: Arc<SecretHeaders>,
}

impl HttpEndpoint {
    pub(crate) fn new(url: &str, headers: SecretHeaders) -> Result<HttpEndpoint, String> {
        // A URL may contain a password, so an invalid one is not quoted.
        let parsed = Url::parse(url).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
        });
        let Some(url) = parsed else {
            return Err(
                "it is not a valid server URL; use one such as https://mcp.example.com/mcp, without a \
                        password"
                    .to_owned(),
            );
        };
        let client = http_client(&url, url.scheme() == "http").map_err(|why| why.to_string())?;
        Ok(HttpEndpoint { client, url, headers: Arc::new(headers) })
    }

    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }
}

/// The method and the tool of a request, for its headers.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) method: &'a str,
    pub(crate) name: Option<&'a str>,
}

/// A connection to one server.
pub(crate) struct Http {
    endpoint: HttpEndpoint,
    session: Option<HeaderValue>,
    /// The protocol version in the header of every request.
    pub(crate) version: Option<&'static str>,
    /// Whether requests have their method in a header.
    pub(crate) names_methods: bool,
}

impl Http {
    pub(crate) fn new(endpoint: HttpEndpoint) -> Self {
        Http { endpoint, session: None, version: None, names_methods: false }
    }

    /// Sends a request and reads up to its response. `on_notification` receives each notification.
    pub(crate) async fn exchange(
        &mut self,
        id: u64,
        subject: Subject<'_>,
        body: Vec<u8>,
        quota: &mut ReadQuota,
        on_notification: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Result<Value, Fault>, Fault> {
        let response = self.post(subject, body).await?;
        if let Some(session) = response.headers().get(SESSION).filter(|_| subject.method == "initialize") {
            self.session = Some(session.clone());
        }
        let status = response.status();
        let streams = is_kind(&response, "text/event-stream");
        if status.is_success() && streams {
            return self.streamed(id, response, quota, on_notification).await;
        }
        let is_json = is_kind(&response, "application/json");
        let body = whole(response, quota, !status.is_success()).await?;
        let incoming = Incoming::read(&body).filter(|_| is_json);
        match incoming.map(|incoming| incoming.into_response_to(id)) {
            Some(Ok(result)) if status.is_success() || result.is_err() => Ok(result),
            _ if status.is_success() => {
                let why = "the server's response is not a protocol message";
                Err(Fault::new(code::GARBLED, why))
            }
            _ if status == StatusCode::NOT_FOUND && self.session.is_some() => {
                let why = "the server no longer knows the session; nothing was done";
                Err(Fault::new(code::SESSION_OVER, why))
            }
            _ => Err(refused_status(status, &body)),
        }
    }

    /// Sends a message that has no response.
    pub(crate) async fn send(&mut self, method: &str, body: Vec<u8>) -> Result<(), Fault> {
        let response = self.post(Subject { method, name: None }, body).await?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(refused_status(status, b"")) }
    }

    /// Ends the session, if there is one.
    pub(crate) async fn close(self) {
        let Some(session) = &self.session else { return };
        let mut request = self.endpoint.client.delete(self.endpoint.url.clone());
        request = request.headers(self.endpoint.headers.0.clone()).header(SESSION, session);
        if let Some(version) = self.version {
            request = request.header(VERSION, version);
        }
        // Errors are ignored: the server will expire the session.
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
            if let Some(name) = subject.name.and_then(headers::encode) {
                request = request.header(NAME, name);
            }
        }
        request.send().await.map_err(|why| {
            let host = self.endpoint.host();
            let what = if why.is_connect() { "cannot be reached at" } else { "did not respond at" };
            Fault::new(code::UNREACHABLE, format!("the server {what} {host}: {}", innermost(why)))
        })
    }

    async fn streamed(
        &mut self,
        id: u64,
        response: Response,
        quota: &mut ReadQuota,
        on_notification: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Result<Value, Fault>, Fault> {
        let most = limits::MCP_MESSAGE_BYTES_MAX;
        let mut decoder = Decoder::with_limits(most, most);
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|why| {
                Fault::new(code::ENDED, format!("the server's response was cut off: {}", innermost(why)))
            })?;
            quota.take(chunk.len())?;
            let fed = decoder.feed(&chunk);
            while let Some(frame) = decoder.next_frame() {
                quota.take_message()?;
                if frame.event.as_deref().is_some_and(|event| event != "message") || frame.data.is_empty() {
                    continue;
                }
                let Some(incoming) = Incoming::read(frame.data.as_bytes()) else {
                    let why = "the server sent an event that is not a protocol message; the connection was \
                               closed";
                    return Err(Fault::new(code::GARBLED, why));
                };
                match incoming.into_response_to(id) {
                    Ok(result) => return Ok(result),
                    Err(Incoming::Request { id, method }) => {
                        self.send(&method, message::respond(&id, &method)).await?;
                    }
                    Err(Incoming::Notification { method }) => on_notification(&method),
                    Err(Incoming::Response { .. }) => {}
                }
            }
            fed.map_err(|why| Fault::new(code::FLOODED, format!("{why}; the connection was closed")))?;
        }
        Err(Fault::new(code::ENDED, "the server's response ended before the result"))
    }
}

/// Reads a body of limited length; the body of an error may be cut.
async fn whole(response: Response, quota: &mut ReadQuota, is_error: bool) -> Result<Vec<u8>, Fault> {
    let most = if is_error { MODEL_ERROR_BODY_BYTES_MAX } else { limits::MCP_MESSAGE_BYTES_MAX };
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(_) if is_error => break,
            Err(why) => {
                let why = format!("the server's response was cut off: {}", innermost(why));
                return Err(Fault::new(code::ENDED, why));
            }
        };
        quota.take(chunk.len())?;
        body.extend_from_slice(&chunk);
        if body.len() > most {
            if is_error {
                break;
            }
            let why = format!("the server's response is larger than {most} bytes; the rest was not read");
            return Err(Fault::new(code::FLOODED, why));
        }
    }
    Ok(body)
}

/// Builds the fault for a response with an HTTP error status.
fn refused_status(status: StatusCode, body: &[u8]) -> Fault {
    let number = status.as_u16();
    let detail = match Incoming::read(body) {
        Some(Incoming::Response { result: Err(fault), .. }) => fault.message,
        _ => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    let mut fault = Fault::new(code::UNREACHABLE, format!("the server returned status {number}{detail}"));
    fault.refusal = Some((i64::from(number), Value::Null));
    fault
}

fn is_kind(response: &Response, expected: &str) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(expected)
}
