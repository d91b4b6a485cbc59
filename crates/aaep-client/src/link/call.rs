//! The HTTP client: [`Caller`]. It also opens event streams and WebSockets, so that TLS, tokens and timeouts are
//! handled in one module.
//!
//! `https://` uses the root certificates of the system and ring (docs/decisions/0015).

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Url};

use super::error::LinkError;
use crate::limits;

/// An HTTP client for one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller {
    http: reqwest::Client,
    token: Option<HeaderValue>,
    patience: Duration,
}

/// An HTTP response, whatever its status.
#[derive(Debug, Clone)]
pub struct HttpReply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// From the request to the last byte.
    pub took: Duration,
}

impl HttpReply {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// A header value, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(super) fn refused(self, url: &str) -> LinkError {
        LinkError::Refused { url: url.to_owned(), status: self.status, body: self.body }
    }
}

impl Caller {
    /// `address` is any URL of the server; it determines whether certificates and proxies are used.
    pub fn new(address: &str, token: Option<&str>, patience: Duration) -> Result<Caller, LinkError> {
        let url = Url::parse(address)
            .map_err(|why| LinkError::Unusable(format!("{address:?} is not a valid server URL ({why})")))?;
        let token = token.map(bearer).transpose()?;
        // The TLS provider is set once per process; an earlier choice is kept.
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut http = reqwest::Client::builder()
            .connect_timeout(patience)
            .pool_idle_timeout(limits::REST_MAX)
            .redirect(reqwest::redirect::Policy::limited(limits::REDIRECTS_MAX))
            // Detects a producer that disappeared, even if its stream is mostly idle.
            .tcp_keepalive(limits::KEEPALIVE_EVERY)
            .tcp_keepalive_interval(limits::KEEPALIVE_EVERY)
            .tcp_keepalive_retries(limits::KEEPALIVE_RETRIES)
            .tcp_nodelay(true);
        if matches!(url.scheme(), "http" | "ws") {
            // No certificate is checked, so none is loaded; a machine without root certificates works.
            http = http.tls_certs_only([]);
        }
        if is_loopback(&url) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|why| LinkError::unreachable(address, &why))?;
        Ok(Caller { http, token, patience })
    }

    pub async fn get(&self, url: &str) -> Result<HttpReply, LinkError> {
        let began = recount_world::moment();
        self.finish(url, self.request(Method::GET, url), began).await
    }

    /// Sends JSON.
    pub async fn post(&self, url: &str, body: &[u8]) -> Result<HttpReply, LinkError> {
        let began = recount_world::moment();
        let request =
            self.request(Method::POST, url).header(CONTENT_TYPE, "application/json").body(body.to_vec());
        self.finish(url, request, began).await
    }

    pub(super) fn request(&self, method: Method, url: &str) -> RequestBuilder {
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        }
    }

    /// Sends a request and waits for the head of the response.
    pub(super) async fn head(&self, url: &str, request: RequestBuilder) -> Result<Response, LinkError> {
        match tokio::time::timeout(self.patience, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(why)) => Err(LinkError::unreachable(url, &why)),
            Err(_) => Err(self.timeout_error(url)),
        }
    }

    /// Reads the body of a response.
    pub(super) async fn body(&self, url: &str, mut response: Response) -> Result<Vec<u8>, LinkError> {
        let whole = async {
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|why| LinkError::unreachable(url, &why))? {
                if body.len() + chunk.len() > limits::REPLY_BYTES_MAX {
                    return Err(LinkError::Protocol(format!(
                        "the response of {url} is longer than {} bytes (REPLY_BYTES_MAX)",
                        limits::REPLY_BYTES_MAX
                    )));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(body)
        };
        match tokio::time::timeout(self.patience, whole).await {
            Ok(body) => body,
            Err(_) => Err(self.timeout_error(url)),
        }
    }

    fn timeout_error(&self, url: &str) -> LinkError {
        let reason = format!("no response within {} ms", self.patience.as_millis());
        LinkError::Unreachable { at: url.to_owned(), reason }
    }

    async fn finish(
        &self,
        url: &str,
        request: RequestBuilder,
        began: tokio::time::Instant,
    ) -> Result<HttpReply, LinkError> {
        let response = self.head(url, request).await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = self.body(url, response).await?;
        Ok(HttpReply { status, headers, body, took: began.elapsed() })
    }
}

fn bearer(token: &str) -> Result<HeaderValue, LinkError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
        LinkError::Unusable("the token contains characters that are not allowed in a header".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
