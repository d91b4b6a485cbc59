//! The provider of searches as it is configured: how it is asked, and where its answer has what.
//!
//! Pure. Look at [`SearchProvider`]. It must not know how requests are sent.

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

/// What is replaced in the address and in the body.
const QUERY: &str = "{query}";
const COUNT: &str = "{count}";

/// See the file's head.
#[derive(Debug)]
pub(crate) struct SearchProvider {
    url: String,
    /// What is posted, if anything is.
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
        let wrong = |key: &str, why: &str| WebSettingsError::new(format!("search.{key}"), why);
        let probe = settings.url.replace(QUERY, "x").replace(COUNT, "1");
        // An address may hold a key, so a wrong one is not repeated.
        let url = WebUrl::read(&probe).map_err(|_| {
            wrong("url", "it is no address; use one such as https://search.example.com/search?q={query}")
        })?;
        let host = url.host().to_owned();
        let other = WebUrl::read(&settings.url.replace(QUERY, "y").replace(COUNT, "2"));
        if other.as_ref().map(WebUrl::host) != Ok(url.host()) {
            return Err(wrong("url", "{query} and {count} may not be part of the host"));
        }
        let body = settings.body.as_deref().map(serde_json::from_str::<Value>).transpose();
        let body =
            body.map_err(|_| wrong("body", "it is no JSON; write such as '{\"query\": \"{query}\"}'"))?;
        let asks =
            settings.url.contains(QUERY) || settings.body.as_deref().is_some_and(|body| body.contains(QUERY));
        if !asks {
            return Err(wrong(
                "url",
                "neither it nor the body has {query}, so nothing would be searched for",
            ));
        }
        let sources = HeaderSources {
            headers: &settings.headers,
            headers_env: &settings.headers_env,
            headers_file: &settings.headers_file,
        };
        let headers = SecretHeaders::read(&sources, RESERVED, environment, folder);
        let headers = headers.map_err(|(key, why)| wrong(key, &why))?;
        let pointer = |key: &str, said: &Option<String>, default: &str| match said {
            None => Ok(default.to_owned()),
            Some(said) if said.is_empty() || said.starts_with('/') => Ok(said.clone()),
            Some(said) => Err(wrong(key, &format!("{said:?} is no JSON Pointer; use one such as {default}"))),
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

    /// The request for a search.
    pub(crate) fn request(&self, query: &str, count: u64) -> Result<WebRequest, String> {
        let quoted: String = reqwest::Url::parse_with_params("http://x/", [("q", query)])
            .ok()
            .and_then(|url| url.query().and_then(|pair| pair.strip_prefix("q=")).map(str::to_owned))
            .unwrap_or_default();
        let url = self.url.replace(QUERY, &quoted).replace(COUNT, &count.to_string());
        let url =
            WebUrl::read(&url).map_err(|_| "the address of the provider takes no such search".to_owned())?;
        let method = if self.body.is_some() { Method::POST } else { Method::GET };
        let mut request = WebRequest::new(method, url, "application/json");
        if let Some(body) = &self.body {
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.body = Some(Bytes::from(filled(body, query, count).to_string()));
        }
        request.headers.extend(self.headers.0.clone());
        Ok(request)
    }

    /// The results in an answer, at most so many. `Err`: there is no list of results in it.
    pub(crate) fn hits(&self, answer: &[u8], count: usize) -> Result<Vec<SearchHit>, String> {
        let answer: Value =
            serde_json::from_slice(answer).map_err(|why| format!("the answer is no JSON: {why}"))?;
        let Some(results) = answer.pointer(&self.results).and_then(Value::as_array) else {
            return Err(format!("the answer has no list at {}; see web.search.results", self.results));
        };
        let hit = |result: &Value| {
            let text = |pointer: &str| result.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let url = WebUrl::read(text(&self.link)).ok()?;
            let read = |pointer: &str, chars| {
                // Some mark what was found in HTML.
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

/// A body with a search in it.
fn filled(body: &Value, query: &str, count: u64) -> Value {
    match body {
        Value::String(text) if text == COUNT => count.into(),
        Value::String(text) => text.replace(COUNT, &count.to_string()).replace(QUERY, query).into(),
        Value::Array(items) => items.iter().map(|item| filled(item, query, count)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), filled(value, query, count))).collect()
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
    fn a_search_is_put_into_the_address_or_the_body() {
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
    fn results_are_found_where_they_are_said_to_be() {
        let provider =
            build("url = 'https://s.example/?q={query}'\nresults = '/web/results'\nsnippet = '/description'")
                .unwrap();
        let answer = serde_json::json!({ "web": { "results": [
            { "title": "One", "url": "https://a.example/", "description": "a <strong>bold</strong>\nword &amp; more" },
            { "title": "No address", "url": "javascript:alert(1)" },
            { "title": 7, "url": "https://b.example/" },
            { "title": "Three", "url": "https://c.example/" },
        ] } });
        let hits = provider.hits(answer.to_string().as_bytes(), 2).unwrap();
        let hit = |title: &str, url: &str, snippet: &str| SearchHit {
            title: title.to_owned(),
            url: url.to_owned(),
            snippet: snippet.to_owned(),
        };
        assert_eq!(
            hits,
            [hit("One", "https://a.example/", "a bold word & more"), hit("", "https://b.example/", "")]
        );
        for (answer, words) in [
            ("<html>", "no JSON"),
            ("{}", "no list at /web/results"),
            ("{\"web\":{\"results\":{}}}", "no list"),
        ] {
            let why = provider.hits(answer.as_bytes(), 2).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_provider_that_cannot_be_asked_is_refused() {
        for (toml, words) in [
            ("url = 'search.example/{query}'", "web.search.url: it is no address"),
            ("url = 'https://{query}.example/'", "part of the host"),
            ("url = 'https://s.example/'", "{query}"),
            ("url = 'https://s.example/'\nbody = '{query}'", "web.search.body"),
            (
                "url = 'https://s.example/{query}'\nresults = 'web'",
                "web.search.results: \"web\" is no JSON Pointer",
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
