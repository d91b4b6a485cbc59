//! The configured search provider: builds the request and reads the results of the response.
//!
//! Pure. Start at [`SearchProvider`]. The module must not depend on how requests are sent.

use std::path::Path;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use serde_json::Value;

use super::guard::WebUrl;
use super::html;
use super::request::{RESERVED, WebRequest};
use super::settings::{SearchSettings, WebSettingsError};
use crate::headers::{HeaderSources, SecretHeaders};
use crate::model::Secret;
use crate::tools::ending::cut;
use crate::web::limits;

/// Placeholders in the URL and the body.
const QUERY: &str = "{query}";
const COUNT: &str = "{count}";

/// The configured search provider.
#[derive(Debug)]
pub(crate) struct SearchProvider {
    url: String,
    /// The body to post, if any.
    body: Option<Value>,
    headers: SecretHeaders,
    host: String,
    /// JSON Pointers: to the results, and within one of them.
    results: String,
    title: String,
    link: String,
    snippet: String,
}

/// One result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SearchHit {
    pub(crate) title: String,
    pub(crate) url: String,
    pub(crate) snippet: String,
}

impl SearchProvider {
    pub(crate) fn build(
        settings: &SearchSettings,
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Result<SearchProvider, WebSettingsError> {
        let invalid = |key: &str, why: &str| WebSettingsError::new(format!("search.{key}"), why);
        let probe = settings.url.replace(QUERY, "x").replace(COUNT, "1");
        // A URL may contain a key, so an invalid one is not quoted.
        let url = WebUrl::read(&probe).map_err(|_| {
            invalid(
                "url",
                "it is not a valid URL; use one such as https://search.example.com/search?q={query}",
            )
        })?;
        let host = url.host().to_owned();
        let other = WebUrl::read(&settings.url.replace(QUERY, "y").replace(COUNT, "2"));
        if other.as_ref().map(WebUrl::host) != Ok(url.host()) {
            return Err(invalid("url", "{query} and {count} must not be in the host"));
        }
        let body = settings.body.as_deref().map(serde_json::from_str::<Value>).transpose();
        let body = body.map_err(|_| {
            invalid("body", "it is not valid JSON; use for example '{\"query\": \"{query}\"}'")
        })?;
        let has_query =
            settings.url.contains(QUERY) || settings.body.as_deref().is_some_and(|body| body.contains(QUERY));
        if !has_query {
            return Err(invalid("url", "neither the URL nor the body has {query}; add it to one of them"));
        }
        let sources = HeaderSources {
            headers: &settings.headers,
            headers_env: &settings.headers_env,
            headers_file: &settings.headers_file,
        };
        let headers = SecretHeaders::read(&sources, RESERVED, environment, folder);
        let headers = headers.map_err(|(key, why)| invalid(key, &why))?;
        let pointer = |key: &str, given: &Option<String>, default: &str| match given {
            None => Ok(default.to_owned()),
            Some(given) if given.is_empty() || given.starts_with('/') => Ok(given.clone()),
            Some(given) => {
                Err(invalid(key, &format!("{given:?} is not a JSON Pointer; use one such as {default}")))
            }
        };
        Ok(SearchProvider {
            url: settings.url.clone(),
            body,
            headers,
            host,
            results: pointer("results", &settings.results, "/results")?,
            title: pointer("title", &settings.title, "/title")?,
            link: pointer("link", &settings.link, "/url")?,
            snippet: pointer("snippet", &settings.snippet, "/content")?,
        })
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn secrets(&self) -> Vec<Secret> {
        self.headers.secrets()
    }

    /// Builds the request for a search.
    pub(crate) fn request(&self, query: &str, count: u64) -> Result<WebRequest, String> {
        let quoted: String = reqwest::Url::parse_with_params("http://x/", [("q", query)])
            .ok()
            .and_then(|url| url.query().and_then(|pair| pair.strip_prefix("q=")).map(str::to_owned))
            .unwrap_or_default();
        let url = self.url.replace(QUERY, &quoted).replace(COUNT, &count.to_string());
        let url = WebUrl::read(&url)
            .map_err(|_| "the search text does not fit into the provider's URL".to_owned())?;
        let method = if self.body.is_some() { Method::POST } else { Method::GET };
        let mut request = WebRequest::new(method, url, "application/json");
        if let Some(body) = &self.body {
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.body = Some(Bytes::from(fill(body, query, count).to_string()));
        }
        request.headers.extend(self.headers.0.clone());
        Ok(request)
    }

    /// Reads up to `count` results from a response. `Err`: it has no list of results.
    pub(crate) fn hits(&self, response: &[u8], count: usize) -> Result<Vec<SearchHit>, String> {
        let response: Value = serde_json::from_slice(response)
            .map_err(|why| format!("the response is not valid JSON: {why}"))?;
        let Some(results) = response.pointer(&self.results).and_then(Value::as_array) else {
            return Err(format!("the response has no list at {}; check web.search.results", self.results));
        };
        let hit = |result: &Value| {
            let text = |pointer: &str| result.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let url = WebUrl::read(text(&self.link)).ok()?;
            let read = |pointer: &str, chars| {
                // Some providers highlight matches with HTML.
                let read = html::text_of(text(pointer), url.url()).text;
                cut(&read.split_whitespace().collect::<Vec<_>>().join(" "), chars)
            };
            let title = read(&self.title, limits::SEARCH_TITLE_CHARS_MAX);
            let snippet = read(&self.snippet, limits::SEARCH_SNIPPET_CHARS_MAX);
            Some(SearchHit { title, url: url.to_string(), snippet })
        };
        Ok(results.iter().filter_map(hit).take(count).collect())
    }
}

/// Fills the placeholders of a body.
fn fill(body: &Value, query: &str, count: u64) -> Value {
    match body {
        Value::String(text) if text == COUNT => count.into(),
        Value::String(text) => text.replace(COUNT, &count.to_string()).replace(QUERY, query).into(),
        Value::Array(items) => items.iter().map(|item| fill(item, query, count)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), fill(value, query, count))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(toml: &str) -> Result<SearchProvider, String> {
        let settings: SearchSettings = toml::from_str(toml).unwrap();
        let environment = |name: &str| (name == "KEY").then(|| "canary-of-the-search".to_owned());
        SearchProvider::build(&settings, &environment, Path::new("/")).map_err(|why| why.to_string())
    }

    #[test]
    fn a_query_is_put_into_the_url_or_the_body() {
        let provider = build(
            "url = 'https://s.example/search?q={query}&count={count}'\nheaders_env = { X-Token = 'KEY' }",
        )
        .unwrap();
        let request = provider.request("a b&c=d#é/{count}", 3).unwrap();
        assert_eq!(
            request.url.to_string(),
            "https://s.example/search?q=a+b%26c%3Dd%23%C3%A9%2F%7Bcount%7D&count=3"
        );
        assert_eq!((request.method.as_str(), &request.body), ("GET", &None));
        assert_eq!(request.headers["x-token"], "canary-of-the-search");
        assert_eq!(provider.secrets()[0].reveal(), "canary-of-the-search");
        assert!(!format!("{provider:?} {request:?}").contains("canary"));
        let provider = build(
            "url = 'http://127.0.0.1:8080/search'\nbody = '{\"q\": \"{query}\", \"n\": \"{count}\", \"x\": [true, \"for {query}\"]}'",
        )
        .unwrap();
        let request = provider.request("a \"{count}\"", 3).unwrap();
        assert_eq!(request.method, Method::POST);
        let body: Value = serde_json::from_slice(&request.body.unwrap()).unwrap();
        assert_eq!(
            body,
            serde_json::json!({ "q": "a \"{count}\"", "n": 3, "x": [true, "for a \"{count}\""] })
        );
    }

    #[test]
    fn results_are_found_by_the_configured_pointers() {
        let provider =
            build("url = 'https://s.example/?q={query}'\nresults = '/web/results'\nsnippet = '/description'")
                .unwrap();
        let response = serde_json::json!({ "web": { "results": [
            { "title": "One", "url": "https://a.example/", "description": "a <strong>bold</strong>\nword &amp; more" },
            { "title": "No address", "url": "javascript:alert(1)" },
            { "title": 7, "url": "https://b.example/" },
            { "title": "Three", "url": "https://c.example/" },
        ] } });
        let hits = provider.hits(response.to_string().as_bytes(), 2).unwrap();
        let hit = |title: &str, url: &str, snippet: &str| SearchHit {
            title: title.to_owned(),
            url: url.to_owned(),
            snippet: snippet.to_owned(),
        };
        assert_eq!(
            hits,
            [hit("One", "https://a.example/", "a bold word & more"), hit("", "https://b.example/", "")]
        );
        for (response, words) in [
            ("<html>", "not valid JSON"),
            ("{}", "no list at /web/results"),
            ("{\"web\":{\"results\":{}}}", "no list"),
        ] {
            let why = provider.hits(response.as_bytes(), 2).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn an_invalid_provider_is_refused() {
        for (toml, words) in [
            ("url = 'search.example/{query}'", "web.search.url: it is not a valid URL"),
            ("url = 'https://{query}.example/'", "in the host"),
            ("url = 'https://s.example/'", "{query}"),
            ("url = 'https://s.example/'\nbody = '{query}'", "web.search.body"),
            (
                "url = 'https://s.example/{query}'\nresults = 'web'",
                "web.search.results: \"web\" is not a JSON Pointer",
            ),
            (
                "url = 'https://s.example/{query}'\nheaders_env = { X = 'NONE' }",
                "the variable NONE is not set",
            ),
            ("url = 'https://s.example/{query}'\nheaders = { Host = 'x' }", "web.search.headers"),
        ] {
            let why = build(toml).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
