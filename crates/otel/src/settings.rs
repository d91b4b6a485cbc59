//! The settings of the export, checked: the endpoint, its headers and the attributes of the resource.
//!
//! It must not know where settings come from. Start with [`ExportSettings`].

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Where and what to export.
#[derive(Debug, Clone)]
pub struct ExportSettings {
    /// The address that takes traces, and beside it that for metrics.
    pub traces: Option<Endpoint>,
    /// The address that takes logs.
    pub logs: Option<Endpoint>,
    /// Headers of requests with traces and metrics.
    pub headers: Headers,
    pub logs_headers: Headers,
    pub service_name: String,
    /// Further attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// Whether prompts, arguments, outputs and messages are exported.
    pub contents: bool,
    /// Whether the first start also exports what was before it.
    pub history: bool,
}

/// What is exported of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ended runs, as spans.
    Traces,
    /// Events, as log records.
    Logs,
}

impl Signal {
    pub const ALL: [Signal; 2] = [Signal::Traces, Signal::Logs];

    pub fn as_str(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
            Signal::Logs => "logs",
        }
    }
}

impl ExportSettings {
    /// Where a signal is sent, if it is exported.
    pub fn endpoint(&self, signal: Signal) -> Option<&Endpoint> {
        match signal {
            Signal::Traces => self.traces.as_ref(),
            Signal::Logs => self.logs.as_ref(),
        }
    }

    pub(crate) fn headers(&self, signal: Signal) -> &Headers {
        match signal {
            Signal::Traces => &self.headers,
            Signal::Logs => &self.logs_headers,
        }
    }
}

/// An address that takes a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(Url);

/// The path below an endpoint that takes traces.
const TRACES: &str = "/v1/traces";

impl Endpoint {
    /// Reads the base URL of an endpoint, as in `OTEL_EXPORTER_OTLP_ENDPOINT`; the path for traces may be in it.
    pub fn parse(text: &str) -> Option<Endpoint> {
        let Endpoint(mut url) = Endpoint::parse_whole(text)?;
        let path = url.path().trim_end_matches('/').to_owned();
        if !path.ends_with(TRACES) {
            url.set_path(&format!("{path}{TRACES}"));
        }
        Some(Endpoint(url))
    }

    /// Reads the whole URL of an address for one signal, as in `OTEL_EXPORTER_OTLP_LOGS_ENDPOINT`.
    pub fn parse_whole(text: &str) -> Option<Endpoint> {
        let mut url = Url::parse(text).ok()?;
        let has_login = !url.username().is_empty() || url.password().is_some();
        if !matches!(url.scheme(), "http" | "https") || has_login || url.host_str().is_none() {
            return None;
        }
        url.set_fragment(None);
        Some(Endpoint(url))
    }

    /// The address that takes metrics, beside that for traces.
    #[must_use]
    pub fn for_metrics(&self) -> Endpoint {
        self.beside("/v1/metrics")
    }

    /// The address that takes logs, beside that for traces.
    #[must_use]
    pub fn for_logs(&self) -> Endpoint {
        self.beside("/v1/logs")
    }

    fn beside(&self, path: &str) -> Endpoint {
        let mut url = self.0.clone();
        let base = url.path().strip_suffix(TRACES).unwrap_or_default().to_owned();
        url.set_path(&format!("{base}{path}"));
        Endpoint(url)
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// Whether both are of one server: scheme, host and port are equal.
    pub fn has_origin_of(&self, other: &Endpoint) -> bool {
        self.0.origin() == other.0.origin()
    }

    /// The whole URL, with keys in its query.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// Without the query, which may have a key.
    pub fn shown(&self) -> String {
        let mut url = self.0.clone();
        url.set_query(None);
        url.to_string()
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.0.scheme() == "http"
    }

    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// Headers of each request; their values are secrets.
#[derive(Debug, Clone, Default)]
pub struct Headers(pub(crate) HeaderMap);

impl Headers {
    /// Reads headers as in `OTEL_EXPORTER_OTLP_HEADERS`: `name=value` pairs with commas between them, and percent-encoded
    /// values. The error does not contain a value.
    pub fn parse(text: &str) -> Result<Headers, String> {
        let mut headers = Headers::default();
        for (name, value) in pairs(text)? {
            let invalid = || format!("the header {name:?} cannot be sent");
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.0.insert(key, value);
        }
        Ok(headers)
    }

    /// The secrets of the values. Of a value such as `Bearer TOKEN` only the token.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let values = self.0.values().filter_map(|value| value.to_str().ok());
        values.map(|value| value.rsplit(' ').next().unwrap_or_default())
    }
}

/// Reads `name=value` pairs with commas between them. Values are percent-encoded.
pub fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    for (at, pair) in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()).enumerate() {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| format!("pair {} has no equals sign", at + 1))?;
        let value = percent_decoded(value.trim())
            .ok_or_else(|| format!("the value of {:?} is not valid percent-encoding", name.trim()))?;
        pairs.push((name.trim().to_owned(), value));
    }
    Ok(pairs)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_base_url_or_the_address_for_traces() {
        for (text, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318/v1/traces"),
            (
                "https://cloud.langfuse.com/api/public/otel",
                "https://cloud.langfuse.com/api/public/otel/v1/traces",
            ),
        ] {
            assert_eq!(
                Endpoint::parse(text).map(|endpoint| endpoint.shown()).as_deref(),
                Some(url),
                "{text}"
            );
        }
        let keyed = Endpoint::parse("https://example.com/otlp?key=abc").unwrap();
        assert_eq!(keyed.url().as_str(), "https://example.com/otlp/v1/traces?key=abc");
        assert_eq!(keyed.shown(), "https://example.com/otlp/v1/traces");
        assert_eq!(keyed.for_metrics().url().as_str(), "https://example.com/otlp/v1/metrics?key=abc");
        assert_eq!(keyed.for_logs().url().as_str(), "https://example.com/otlp/v1/logs?key=abc");
        let whole = Endpoint::parse_whole("http://loki:3100/otlp/v1/logs").unwrap();
        assert_eq!(whole.shown(), "http://loki:3100/otlp/v1/logs");
        for text in ["", "localhost:4318", "grpc://a:4317", "https://user:word@example.com", "ftp://a"] {
            assert_eq!((Endpoint::parse(text), Endpoint::parse_whole(text)), (None, None), "{text}");
        }
    }

    #[test]
    fn headers_are_pairs_with_percent_encoded_values() {
        let headers = Headers::parse("Authorization=Basic%20cGs6c2s=, x-scope=a").unwrap();
        assert_eq!(headers.0["authorization"], "Basic cGs6c2s=");
        assert_eq!(headers.secrets().collect::<Vec<_>>(), ["cGs6c2s=", "a"]);
        assert!(!format!("{headers:?}").contains("cGs6"));
        for (text, why) in [
            ("secret-value", "pair 1 has no equals sign"),
            ("a=b,c=%zz", "the value of \"c\" is not valid percent-encoding"),
            ("a b=c", "the header \"a b\" cannot be sent"),
            ("a=%0A", "the header \"a\" cannot be sent"),
        ] {
            assert_eq!(Headers::parse(text).unwrap_err(), why);
        }
        assert!(Headers::parse("").unwrap().0.is_empty());
    }
}
