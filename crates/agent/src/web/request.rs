//! A web request, and how a redirect changes it.
//!
//! Pure. Start at [`WebRequest`]. The module must not depend on which hosts may be reached.

use bytes::Bytes;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Method, StatusCode};

use super::guard::WebUrl;
use crate::limits;

/// Headers that the client sets itself, or that would change the framing of a request.
pub(crate) const RESERVED: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The request to send.
#[derive(Debug, Clone)]
pub(crate) struct WebRequest {
    pub(crate) method: Method,
    pub(crate) url: WebUrl,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

/// Why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFollowed {
    /// A request that changes something would be repeated at another server.
    ChangesThings,
    /// It would change from HTTPS to HTTP.
    Downgrade,
}

impl WebRequest {
    /// Creates a request with the default headers. It requests an uncompressed response, because compressed bodies are
    /// not read.
    pub(crate) fn new(method: Method, url: WebUrl, accept: &'static str) -> Self {
        WebRequest { method, url, headers: own_headers(accept), body: None }
    }

    /// Adds a header of the call. `Err`: what is invalid; the value is not quoted.
    pub(crate) fn add_header(&mut self, name: &str, value: &str) -> Result<(), String> {
        let shown: String = name.chars().take(limits::NAMED_CHARS_MAX).collect();
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{shown:?} is not a valid header name"))?;
        if RESERVED.contains(&key.as_str()) {
            return Err(format!("the header {shown} is set automatically; remove it"));
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            format!("the value of the header {shown} has characters that are not allowed in headers")
        })?;
        value.set_sensitive(true);
        self.headers.insert(key, value);
        Ok(())
    }

    /// The names of all headers, in alphabetical order.
    pub(crate) fn header_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.headers.keys().map(|key| key.as_str().to_owned()).collect();
        keys.push("host".to_owned());
        if self.body.is_some() {
            keys.push("content-length".to_owned());
        }
        keys.sort_unstable();
        keys
    }

    /// Builds the request that follows a redirect: the method changes as in browsers, and headers of the call are not
    /// sent to another server.
    pub(crate) fn redirected(&self, status: StatusCode, to: WebUrl) -> Result<WebRequest, NotFollowed> {
        if self.url.is_secure() && !to.is_secure() {
            return Err(NotFollowed::Downgrade);
        }
        let becomes_get = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        let mut next = WebRequest { url: to, ..self.clone() };
        if becomes_get {
            (next.method, next.body) = (Method::GET, None);
            let about_body = next.headers.keys().filter(|key| key.as_str().starts_with("content-"));
            for key in about_body.cloned().collect::<Vec<_>>() {
                next.headers.remove(key);
            }
        }
        if !next.url.is_same_origin(&self.url) {
            if !next.method.is_safe() || next.body.is_some() {
                return Err(NotFollowed::ChangesThings);
            }
            next.headers = own_headers("");
            // `Accept` is sent again unless the call itself set it.
            if let Some(accept) = self.headers.get(ACCEPT).filter(|accept| !accept.is_sensitive()) {
                next.headers.insert(ACCEPT, accept.clone());
            }
        }
        Ok(next)
    }
}

fn own_headers(accept: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let accept = if accept.is_empty() { "*/*" } else { accept };
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("recount/", env!("CARGO_PKG_VERSION"))));
    headers
}

/// Whether a status is a redirect.
pub(crate) fn is_redirect(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> WebUrl {
        WebUrl::read(text).unwrap()
    }

    /// The method, the headers, and whether there is a body.
    fn after(method: Method, from: &str, status: u16, to: &str) -> Result<String, NotFollowed> {
        let mut request = WebRequest::new(method, url(from), "text/html");
        request.add_header("Authorization", "Bearer canary").unwrap();
        request.add_header("Content-Type", "text/plain").unwrap();
        if !request.method.is_safe() {
            request.body = Some(Bytes::from_static(b"canary"));
        }
        let next = request.redirected(StatusCode::from_u16(status).unwrap(), url(to))?;
        let keys: Vec<&str> = next.headers.keys().map(HeaderName::as_str).collect();
        let own = keys.iter().filter(|key| !matches!(**key, "accept" | "accept-encoding" | "user-agent"));
        let own: Vec<&str> = own.copied().collect();
        let body = if next.body.is_some() { " body" } else { "" };
        Ok(format!("{} {}{body}", next.method, own.join(",")))
    }

    #[test]
    fn a_redirect_keeps_allowed_parts() {
        let (a, b, plain) = ("https://a.example/", "https://b.example/", "http://a.example/");
        let names = "authorization,content-type";
        for (method, status, from, to, expected) in [
            (Method::GET, 301, a, "https://a.example/x", Ok(format!("GET {names}"))),
            (Method::GET, 302, a, b, Ok("GET ".to_owned())),
            (Method::GET, 307, a, "https://a.example:444/", Ok("GET ".to_owned())),
            (Method::GET, 301, plain, a, Ok("GET ".to_owned())),
            (Method::GET, 301, a, plain, Err(NotFollowed::Downgrade)),
            (Method::HEAD, 303, a, a, Ok(format!("HEAD {names}"))),
            (Method::POST, 301, a, a, Ok("GET authorization".to_owned())),
            (Method::POST, 302, a, b, Ok("GET ".to_owned())),
            (Method::POST, 303, a, b, Ok("GET ".to_owned())),
            (Method::PUT, 303, a, a, Ok("GET authorization".to_owned())),
            (Method::PUT, 302, a, a, Ok(format!("PUT {names} body"))),
            (Method::PUT, 302, a, b, Err(NotFollowed::ChangesThings)),
            (Method::POST, 307, a, a, Ok(format!("POST {names} body"))),
            (Method::POST, 308, a, b, Err(NotFollowed::ChangesThings)),
            (Method::DELETE, 307, a, b, Err(NotFollowed::ChangesThings)),
        ] {
            assert_eq!(after(method.clone(), from, status, to), expected, "{method} {status} {from} {to}");
        }
    }

    #[test]
    fn headers_of_the_connection_are_not_the_calls() {
        let mut request = WebRequest::new(Method::GET, url("http://a.example/"), "text/html");
        for (name, value) in [
            ("Host", "b"),
            ("content-LENGTH", "1"),
            ("Transfer-Encoding", "chunked"),
            ("a b", "x"),
            ("", "x"),
            ("x", "a\r\nb: canary"),
        ] {
            let why = request.add_header(name, value).unwrap_err();
            assert!(!why.contains("canary"), "{why}");
        }
        request.add_header("X-Key", "canary").unwrap();
        request.body = Some(Bytes::new());
        assert_eq!(
            request.header_keys(),
            ["accept", "accept-encoding", "content-length", "host", "user-agent", "x-key"]
        );
        assert!(!format!("{request:?}").contains("canary"));
    }
}
