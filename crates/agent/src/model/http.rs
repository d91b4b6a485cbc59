//! Where a provider is, what it is sent with every request, and how an answer begins.
//!
//! Look at [`Endpoint`]. Keys go into headers here and nowhere else: what is told of a failure is searched for
//! them first. It must never know what requests and answers say.

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

/// Something that must not be shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(secret: impl Into<String>) -> Self {
        Secret(secret.into())
    }

    /// The token of a header such as `Bearer TOKEN`; else the whole.
    pub(super) fn token(&self) -> Secret {
        Secret::new(self.0.rsplit(' ').next().unwrap_or_default())
    }

    /// What finds it in texts; `None` of one that is too short to be told from innocent text.
    pub(crate) fn searched(&self) -> Option<Arc<Redactor>> {
        let known = recount_redact::Secret::new(&self.0).ok()?;
        Some(Arc::new(Redactor::new(vec![known], false)))
    }

    /// For a header, or for who masks it elsewhere.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Why a provider cannot be asked as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("{address:?} is no address of a provider; give one such as {example}")]
    Address { address: String, example: &'static str },
    #[error(
        "the header {name:?} cannot be sent; its name or value holds characters that no header can carry"
    )]
    Header { name: String },
    #[error("cannot prepare to ask the provider: {why}")]
    Client { why: String },
}

/// A provider's address, with all that goes with every request. Cheap to clone.
#[derive(Clone)]
pub struct Endpoint {
    /// As the configuration calls the provider.
    name: Arc<str>,
    http: Client,
    base: Url,
    headers: Arc<HeaderMap>,
    secrets: Arc<[Secret]>,
    pub(super) patience: Patience,
    clock: Arc<dyn Clock>,
}

/// The body of an answer, as it comes.
pub(super) type Chunks = BoxStream<'static, Result<Bytes, Failure>>;

impl Endpoint {
    /// `base` is where the protocol's own paths begin.
    pub fn new(name: &str, base: &str, clock: Arc<dyn Clock>) -> Result<Self, EndpointError> {
        let wrong = || EndpointError::Address {
            address: without_login(base),
            example: "https://api.example.com/v1 or http://127.0.0.1:11434/v1",
        };
        let url = Url::parse(base.trim_end_matches('/')).map_err(|_| wrong())?;
        let plain = url.scheme() == "http";
        let usable = url.query().is_none() && url.fragment().is_none() && url.has_host();
        if !usable || !(plain || url.scheme() == "https") {
            return Err(wrong());
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

    /// A header of every request, in place of an earlier one of that name. A secret value is never shown.
    pub fn with_header(mut self, name: &str, value: &Secret, secret: bool) -> Result<Self, EndpointError> {
        let wrong = || EndpointError::Header { name: name.to_owned() };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut header = HeaderValue::from_str(value.reveal()).map_err(|_| wrong())?;
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

    /// The same with another key in the header that carries it.
    pub(super) fn under(&self, name: &str, value: &Secret, key: &Secret) -> Result<Endpoint, Failure> {
        let endpoint = self.clone().with_header(name, value, true).map_err(|_| {
            let who = self.who();
            let message = format!("the key for {who} holds characters that no header can carry");
            failure::plain("model_unauthorized", message)
        })?;
        let secrets = endpoint.secrets.iter().cloned().chain([key.clone()]).collect();
        Ok(Endpoint { secrets, ..endpoint })
    }

    pub(super) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// As people read it.
    pub(super) fn who(&self) -> String {
        format!("the provider {:?}", self.name)
    }

    /// Sends a request and waits for the beginning of its answer: a stream, or why there is none.
    pub(super) async fn ask(&self, path: &str, body: Vec<u8>) -> Result<Chunks, Failure> {
        let url = format!("{}/{path}", self.base.as_str().trim_end_matches('/'));
        let request = self
            .http
            .post(url)
            .headers((*self.headers).clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(body);
        let response = request.send().await.map_err(|why| self.unasked(why))?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        if !may_stream(&response) {
            return Err(self.no_stream(response).await);
        }
        let asked = self.clone();
        Ok(response.bytes_stream().map(move |chunk| chunk.map_err(|why| asked.broken(why))).boxed())
    }

    fn unasked(&self, why: reqwest::Error) -> Failure {
        let (who, host) = (self.who(), self.host());
        let code = if why.is_connect() { "model_unreachable" } else { "model_cut" };
        let what = if why.is_connect() { "cannot be reached at" } else { "did not answer from" };
        self.scrub(failure::plain(code, format!("{who} {what} {host}: {}", innermost(why))))
    }

    fn broken(&self, why: reqwest::Error) -> Failure {
        let message = format!("the answer of {} was cut off: {}", self.who(), innermost(why));
        self.scrub(failure::plain("model_cut", message))
    }

    async fn refused(&self, response: Response) -> Failure {
        let status = response.status().as_u16();
        let wait = self.retry_after(response.headers());
        let body = self.short_body(response).await;
        let (word, said) = error_in(&body);
        let (word, said) = (word.map(|word| self.without_keys(&word)), self.without_keys(&said));
        failure::of_status(&self.who(), status, word.as_deref(), &said, wait)
    }

    /// A good status, and yet no stream: an error in disguise, or a server that does not stream.
    async fn no_stream(&self, response: Response) -> Failure {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = failure::cut(kind.unwrap_or_default());
        let body = self.short_body(response).await;
        if let Ok(Value::Object(body)) = serde_json::from_slice::<Value>(&body)
            && let Some(error) = body.get("error")
        {
            return self.scrub(failure_in(&self.who(), error));
        }
        let who = self.who();
        let message = format!("{who} answered {kind} where a stream of events was asked for");
        self.scrub(failure::plain("model_malformed", message))
    }

    /// As much of a body as is worth reading, in as much time.
    async fn short_body(&self, response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        let reading = async {
            while let Some(Ok(chunk)) = chunks.next().await {
                let room = MODEL_ERROR_BODY_BYTES_MAX - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if body.len() == MODEL_ERROR_BODY_BYTES_MAX {
                    break;
                }
            }
        };
        // The status alone says enough when the rest does not come.
        tokio::time::timeout(self.patience.between, reading).await.ok();
        body
    }

    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let seconds = |said: &str, scale: f64| {
            let seconds = said.parse::<f64>().ok()? / scale;
            Duration::try_from_secs_f64(seconds).ok()
        };
        let by_ms = text("retry-after-ms").and_then(|said| seconds(said, 1000.0));
        let wait = by_ms.or_else(|| {
            let said = text(RETRY_AFTER.as_str())?;
            seconds(said, 1.0).or_else(|| {
                let now = UNIX_EPOCH + Duration::from_millis(self.clock.now_ms());
                let until: SystemTime = httpdate::parse_http_date(said).ok()?;
                Some(until.duration_since(now).unwrap_or_default())
            })
        });
        wait.map(|wait| wait.min(limits::MODEL_RETRY_AFTER_MAX))
    }

    /// Takes out keys that the other side said back.
    pub(super) fn scrub(&self, mut failure: Failure) -> Failure {
        failure.message = self.without_keys(&failure.message);
        failure
    }

    /// A key is masked at its length; and where a text was cut in the middle of one, what is left of it.
    fn without_keys(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let secrets = self.secrets.iter().map(Secret::reveal).filter(|secret| !secret.is_empty());
        let mut secrets: Vec<&str> = secrets.collect();
        // One may stand within another.
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
    // Whose cryptography TLS uses is for the process to say, once; a choice made earlier is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut client = Client::builder()
        .user_agent(concat!("recount/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(limits::MODEL_CONNECT_TIMEOUT)
        .pool_idle_timeout(limits::MODEL_CONNECTION_IDLE)
        // A redirect would carry the key to wherever it points.
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true);
    if plain {
        // No certificate is looked at, so none is read, and a machine without any will do.
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

/// An address may hold a password, and a wrong one is shown.
fn without_login(address: &str) -> String {
    match (address.find("://"), address.rfind('@')) {
        (Some(scheme), Some(login)) if login > scheme => {
            format!("{}***{}", &address[..scheme + 3], &address[login..])
        }
        _ => address.to_owned(),
    }
}

/// What is at the bottom of an error; the levels above repeat the address.
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

/// Servers that stream say so, or say nothing.
fn may_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.is_empty() || kind.eq_ignore_ascii_case("text/event-stream")
}

/// The word and the sentence of a body that is an error: `{"error": {"type", "code", "message"}}`, `{"error": "…"}`,
/// `{"message": "…"}`, or just a text.
fn error_in(body: &[u8]) -> (Option<String>, String) {
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(body)) => {
            word_and_sentence(body.get("error").unwrap_or(&Value::Object(body.clone())))
        }
        _ => (None, String::from_utf8_lossy(body).trim().to_owned()),
    }
}

fn word_and_sentence(error: &Value) -> (Option<String>, String) {
    let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
    let said = error.as_str().map(str::to_owned).or_else(|| text("message")).or_else(|| text("detail"));
    // `code` tells more than `type` where both are there.
    (text("code").or_else(|| text("type")), said.unwrap_or_default())
}

/// What an error object within a stream means.
pub(super) fn failure_in(who: &str, error: &Value) -> Failure {
    let (word, said) = word_and_sentence(error);
    let number = |key: &str| error.get(key).and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let status = number("code").or_else(|| number("status"));
    failure::in_stream(who, word.as_deref(), status, &said)
}
