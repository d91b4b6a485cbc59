//! Sends one request of OTLP over HTTP and reads what the endpoint made of it. It must not know runs, and repeats
//! nothing. Start with [`Sender::send`].

use std::error::Error as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};

use crate::limits;
use crate::proto::ExportResponse;
use crate::settings::{Endpoint, Headers};

const PROTOBUF: &str = "application/x-protobuf";

pub(crate) struct Sender {
    http: Client,
    url: Url,
    headers: HeaderMap,
}

/// What an endpoint made of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Taken, except for so many items, and why.
    Taken { rejected: u64, why: String },
    /// Never taken in this form, because of its size or its content.
    Refused { why: String },
    /// Not taken now. `wait`: the pause that the endpoint demands.
    Later { why: String, wait: Option<Duration> },
}

impl Sender {
    pub(crate) fn new(endpoint: &Endpoint, headers: &Headers) -> Result<Sender, String> {
        // The cryptography provider of TLS is set once per process. An earlier choice is kept.
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut http = Client::builder()
            .user_agent(concat!("recount/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(limits::CONNECT_WAIT)
            .timeout(limits::SEND_WAIT)
            .pool_idle_timeout(limits::CONNECTION_IDLE)
            // A redirect would send the headers to another host.
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true);
        if endpoint.is_plain() {
            // Without TLS no certificates are loaded, so the client also works on a machine without any.
            http = http.tls_certs_only([]);
        }
        if endpoint.is_loopback() {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|why| innermost(&why))?;
        Ok(Sender { http, url: endpoint.url().clone(), headers: headers.0.clone() })
    }

    /// Sends a request of any signal; all have the same response.
    pub(crate) async fn send(&self, body: Vec<u8>) -> Reply {
        let body = Bytes::from(body);
        let sent = self.http.post(self.url.clone()).headers(self.headers.clone());
        let sent = sent.header(CONTENT_TYPE, PROTOBUF).body(body).send().await;
        let response = match sent {
            Ok(response) => response,
            Err(why) => return Reply::Later { why: innermost(&why), wait: None },
        };
        let (status, wait) = (response.status(), retry_after(response.headers()));
        let is_protobuf =
            response.headers().get(CONTENT_TYPE).is_some_and(|found| found.as_bytes() == PROTOBUF.as_bytes());
        let body = read(response).await;
        if status.is_success() {
            let partial = ExportResponse::decode(body).ok().filter(|_| is_protobuf);
            let partial = partial.and_then(|response| response.partial_success).unwrap_or_default();
            let rejected = u64::try_from(partial.rejected_spans).unwrap_or(0);
            return Reply::Taken { rejected, why: shown(&partial.error_message) };
        }
        let text = if is_protobuf { String::new() } else { shown(&String::from_utf8_lossy(&body)) };
        let why = if text.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {text}") };
        match status {
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
                Reply::Refused { why }
            }
            _ => Reply::Later { why, wait },
        }
    }
}

/// The beginning of a body. A connection that breaks ends it.
async fn read(mut response: Response) -> Bytes {
    let mut body = BytesMut::new();
    while body.len() < limits::RESPONSE_BYTES_MAX {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    body.truncate(limits::RESPONSE_BYTES_MAX);
    body.freeze()
}

/// In seconds. A date is not used, because clocks differ.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(limits::RETRY_AFTER_MAX))
}

/// The beginning of a text on one line.
fn shown(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(limits::RESPONSE_CHARS_SHOWN).collect()
}

/// The innermost source of an error; the outer ones repeat the URL.
fn innermost(why: &reqwest::Error) -> String {
    if why.is_timeout() {
        return "the endpoint did not answer in time".to_owned();
    }
    let mut deepest = why.source();
    while let Some(next) = deepest.and_then(|error| error.source()) {
        deepest = Some(next);
    }
    deepest.map_or_else(|| "the request failed".to_owned(), |error| shown(&error.to_string()))
}
