//! HTTP access to a provider: its URL, headers and API keys, sending a request, and errors before the stream.
//!
//! Keys are added to headers only here, and failure messages are searched for them. It must not know the content of
//! requests and responses. Start with [`Endpoint`].

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use recount_redact::Redactor;
use recount_world::Clock;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, Url};
use serde::Deserialize;
use serde_json::Value;

use super::{Failure, Patience, failure};
use crate::limits::MODEL_ERROR_BODY_BYTES_MAX;
use crate::model::limits;

/// A secret value. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(secret: impl Into<String>) -> Self {
        Secret(secret.into())
    }

    /// The token of a header value such as `Bearer TOKEN`, or the whole value.
    pub(super) fn token(&self) -> Secret {
        Secret::new(self.0.rsplit(' ').next().unwrap_or_default())
    }

    /// A redactor for the secret; `None` if it is too short to tell from ordinary text.
    pub(crate) fn redactor(&self) -> Option<Arc<Redactor>> {
        let known = recount_redact::Secret::new(&self.0).ok()?;
        Some(Arc::new(Redactor::new(vec![known], false)))
    }

    /// The value, for a header or for masking.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// An invalid configuration of a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("{address:?} is not a valid provider URL; use one such as {example}")]
    Address { address: String, example: &'static str },
    #[error(
        "the header {name:?} cannot be sent; its name or value has characters that are not allowed in headers"
    )]
    Header { name: String },
    #[error("cannot prepare requests to the provider: {why}")]
    Client { why: String },
}

/// The URL of a provider, and the headers and timeouts of all requests. Cheap to clone.
#[derive(Clone)]
pub struct Endpoint {
    /// The name of the provider in the configuration.
    name: Arc<str>,
    http: Client,
    base: Url,
    headers: Arc<HeaderMap>,
    secrets: Arc<[Secret]>,
    pub(super) patience: Patience,
    clock: Arc<dyn Clock>,
}

/// The body of a streamed response.
pub(super) type Chunks = BoxStream<'static, Result<Bytes, Failure>>;

impl Endpoint {
    /// `base` is the URL before the paths of the protocol.
    pub fn new(name: &str, base: &str, clock: Arc<dyn Clock>) -> Result<Self, EndpointError> {
        let invalid = || EndpointError::Address {
            address: without_login(base),
            example: "https://api.example.com/v1 or http://127.0.0.1:11434/v1",
        };
        let url = Url::parse(base.trim_end_matches('/')).map_err(|_| invalid())?;
        let plain = url.scheme() == "http";
        let is_usable = url.query().is_none() && url.fragment().is_none() && url.has_host();
        if !is_usable || !(plain || url.scheme() == "https") {
            return Err(invalid());
        }
        Ok(Endpoint {
            name: name.into(),
            http: client(&url, plain)?,
            base: url,
            headers: Arc::default(),
            secrets: Arc::new([]),
            patience: Patience::default(),
            clock,
        })
    }

    pub fn with_patience(self, patience: Patience) -> Self {
        Endpoint { patience, ..self }
    }

    /// Sets a header of all requests, and replaces one with the same name. A secret value is never shown.
    pub fn with_header(mut self, name: &str, value: &Secret, secret: bool) -> Result<Self, EndpointError> {
        let invalid = || EndpointError::Header { name: name.to_owned() };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut header = HeaderValue::from_str(value.reveal()).map_err(|_| invalid())?;
        header.set_sensitive(secret);
        Arc::make_mut(&mut self.headers).insert(key, header);
        if secret {
            self.secrets = self.secrets.iter().cloned().chain([value.token()]).collect();
        }
        Ok(self)
    }

    pub(super) fn has_header(&self, name: &str) -> bool {
        self.headers.contains_key(name)
    }

    /// The endpoint with another API key in the given header.
    pub(super) fn with_key(&self, name: &str, value: &Secret, key: &Secret) -> Result<Endpoint, Failure> {
        let endpoint = self.clone().with_header(name, value, true).map_err(|_| {
            let provider = self.label();
            let message =
                format!("the API key for {provider} has characters that are not allowed in headers");
            failure::plain("model_unauthorized", message)
        })?;
        let secrets = endpoint.secrets.iter().cloned().chain([key.clone()]).collect();
        Ok(Endpoint { secrets, ..endpoint })
    }

    pub(super) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// The name of the provider for messages.
    pub(super) fn label(&self) -> String {
        format!("the provider {:?}", self.name)
    }

    /// Sends a request and waits for the start of the response. `Err`: why there is no stream.
    pub(super) async fn send(&self, path: &str, body: Vec<u8>) -> Result<Chunks, Failure> {
        let url = format!("{}/{path}", self.base.as_str().trim_end_matches('/'));
        let request = self
            .http
            .post(url)
            .headers((*self.headers).clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(body);
        let response = request.send().await.map_err(|why| self.send_failure(why))?;
        if !response.status().is_success() {
            return Err(self.status_failure(response).await);
        }
        if !may_stream(&response) {
            return Err(self.content_type_failure(response).await);
        }
        let endpoint = self.clone();
        Ok(response
            .bytes_stream()
            .map(move |chunk| chunk.map_err(|why| endpoint.stream_failure(why)))
            .boxed())
    }

    fn send_failure(&self, why: reqwest::Error) -> Failure {
        let (provider, host) = (self.label(), self.host());
        let code = if why.is_connect() { "model_unreachable" } else { "model_cut" };
        let what = if why.is_connect() { "cannot be reached at" } else { "did not respond at" };
        self.scrub(failure::plain(code, format!("{provider} {what} {host}: {}", innermost(why))))
    }

    fn stream_failure(&self, why: reqwest::Error) -> Failure {
        let message = format!("the response of {} was cut off: {}", self.label(), innermost(why));
        self.scrub(failure::plain("model_cut", message))
    }

    async fn status_failure(&self, response: Response) -> Failure {
        let status = response.status().as_u16();
        let wait = self.retry_after(response.headers());
        let body = self.short_body(response).await;
        let (error_code, text) = error_in(&body);
        let (error_code, text) = (error_code.map(|code| self.without_keys(&code)), self.without_keys(&text));
        failure::of_status(&self.label(), status, error_code.as_deref(), &text, wait)
    }

    /// The failure for a success status without a stream: an error in the body, or a server that does not stream.
    async fn content_type_failure(&self, response: Response) -> Failure {
        let content_type =
            response.headers().get(CONTENT_TYPE).and_then(|content_type| content_type.to_str().ok());
        let content_type = failure::cut(content_type.unwrap_or_default());
        let body = self.short_body(response).await;
        if let Ok(Value::Object(body)) = serde_json::from_slice::<Value>(&body)
            && let Some(error) = body.get("error")
        {
            return self.scrub(failure_in(&self.label(), error));
        }
        let provider = self.label();
        let message = format!("{provider} returned {content_type} instead of an event stream");
        self.scrub(failure::plain("model_malformed", message))
    }

    /// The beginning of a body, within the limits of bytes and time.
    async fn short_body(&self, response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        let reading = async {
            while let Some(Ok(chunk)) = chunks.next().await {
                let remaining = MODEL_ERROR_BODY_BYTES_MAX - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(remaining)]);
                if body.len() == MODEL_ERROR_BODY_BYTES_MAX {
                    break;
                }
            }
        };
        // If the body does not arrive, the status is enough.
        tokio::time::timeout(self.patience.between, reading).await.ok();
        body
    }

    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let seconds = |value: &str, scale: f64| {
            let seconds = value.parse::<f64>().ok()? / scale;
            Duration::try_from_secs_f64(seconds).ok()
        };
        let by_ms = header("retry-after-ms").and_then(|value| seconds(value, 1000.0));
        let wait = by_ms.or_else(|| {
            let value = header(RETRY_AFTER.as_str())?;
            seconds(value, 1.0).or_else(|| {
                let now = UNIX_EPOCH + Duration::from_millis(self.clock.now_ms());
                let until: SystemTime = httpdate::parse_http_date(value).ok()?;
                Some(until.duration_since(now).unwrap_or_default())
            })
        });
        wait.map(|wait| wait.min(limits::MODEL_RETRY_AFTER_MAX))
    }

    /// Masks keys that the provider repeated in its message.
    pub(super) fn scrub(&self, mut failure: Failure) -> Failure {
        failure.message = self.without_keys(&failure.message);
        failure
    }

    /// Masks keys at their length, and the beginning of a key where the text was cut.
    fn without_keys(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let secrets = self.secrets.iter().map(Secret::reveal).filter(|secret| !secret.is_empty());
        let mut secrets: Vec<&str> = secrets.collect();
        // One key may contain another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in secrets {
            text = text.replace(secret, &"*".repeat(secret.len()));
            let ends = secret
                .char_indices()
                .map(|(at, _)| at)
                .rev()
                .filter(|at| *at >= limits::MODEL_KEY_PART_BYTES);
            for end in ends {
                text = text.replace(&format!("{}…", &secret[..end]), &format!("{}…", "*".repeat(end)));
            }
        }
        text
    }
}

pub(crate) fn client(base: &Url, plain: bool) -> Result<Client, EndpointError> {
    // The cryptography provider of TLS is set once per process. An earlier choice is kept.
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut client = Client::builder()
        .user_agent(concat!("recount/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(limits::MODEL_CONNECT_TIMEOUT)
        .pool_idle_timeout(limits::MODEL_CONNECTION_IDLE)
        // A redirect would send the key to another host.
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true);
    if plain {
        // Without TLS no certificates are loaded, so the client also works on a machine without any.
        client = client.tls_certs_only([]);
    }
    if is_loopback(base) {
        client = client.no_proxy();
    }
    client.build().map_err(|why| EndpointError::Client { why: innermost(why) })
}

fn is_loopback(base: &Url) -> bool {
    let host = base.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The address without a login, because messages show invalid addresses.
fn without_login(address: &str) -> String {
    match (address.find("://"), address.rfind('@')) {
        (Some(scheme), Some(login)) if login > scheme => {
            format!("{}***{}", &address[..scheme + 3], &address[login..])
        }
        _ => address.to_owned(),
    }
}

/// The innermost source of an error; the outer levels repeat the URL.
pub(crate) fn innermost(why: reqwest::Error) -> String {
    let why = why.without_url();
    let mut deepest = why.to_string();
    let mut source = why.source();
    while let Some(error) = source {
        deepest = error.to_string();
        source = error.source();
    }
    failure::cut(&deepest)
}

/// Whether the content type allows an event stream. A missing one does, too.
fn may_stream(response: &Response) -> bool {
    let content_type = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|content_type| content_type.to_str().ok())
        .unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    content_type.is_empty() || content_type.eq_ignore_ascii_case("text/event-stream")
}

/// The error code and the message of an error body: `{"error": {"type", "code", "message"}}`, `{"error": "…"}`,
/// `{"message": "…"}`, or a plain text.
fn error_in(body: &[u8]) -> (Option<String>, String) {
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(body)) => {
            code_and_message(body.get("error").unwrap_or(&Value::Object(body.clone())))
        }
        _ => (None, String::from_utf8_lossy(body).trim().to_owned()),
    }
}

fn code_and_message(error: &Value) -> (Option<String>, String) {
    let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
    let message = error.as_str().map(str::to_owned).or_else(|| text("message")).or_else(|| text("detail"));
    // `code` is more specific than `type`.
    (text("code").or_else(|| text("type")), message.unwrap_or_default())
}

/// The failure for an error object within a stream.
pub(super) fn failure_in(provider: &str, error: &Value) -> Failure {
    let (error_code, text) = code_and_message(error);
    let number = |key: &str| error.get(key).and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let status = number("code").or_else(|| number("status"));
    failure::in_stream(provider, error_code.as_deref(), status, &text)
}
