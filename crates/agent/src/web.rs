//! Web tools: `web_fetch`, `http_request` and `web_search`, with the checks of addresses, redirects and sizes that they
//! share.
//!
//! Start at [`Web`], the shared configuration, and [`Web::add_to`]. The module must not depend on runs, models or the
//! policy: the policy's verdict on a host is requested through the call.

mod addresses;
mod call;
mod exchange;
mod fetch_tool;
mod guard;
mod html;
mod http_tool;
pub mod limits;
mod private;
mod provider;
mod request;
mod resolve;
mod search_tool;
mod settings;
mod text;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use self::guard::GuardError;
use self::guard::{WebGuard, WebUrl};
pub use self::private::{InvalidPrivateHost, PrivateHost};
use self::provider::SearchProvider;
use self::request::RESERVED;
use self::resolve::{NameResolver, SystemResolver};
pub use self::settings::{HostSettings, SearchSettings, WebSettings, WebSettingsError};
use crate::headers::{HeaderSources, SecretHeaders};
use crate::model::Secret;
use crate::tools::Tools;

/// The tools of [`Web::add_to`], in alphabetical order.
pub const WEB_TOOLS: &[&str] = &["http_request", "web_fetch", "web_search"];

/// The tool that needs a search provider.
pub const WEB_SEARCH: &str = "web_search";

/// The configuration that the web tools share. Cheap to clone.
#[derive(Clone)]
pub struct Web {
    guard: WebGuard,
    resolver: Arc<dyn NameResolver>,
    /// Headers for requests, by origin.
    hosts: Arc<[(WebUrl, SecretHeaders)]>,
    search: Option<Arc<SearchProvider>>,
    patience: WebPatience,
}

/// Timeouts of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WebPatience {
    /// For DNS resolution, and for connecting.
    pub(crate) connect: Duration,
    /// Between two received bytes.
    pub(crate) silence: Duration,
    /// For the whole request with its redirects.
    pub(crate) whole: Duration,
}

impl Default for WebPatience {
    fn default() -> Self {
        WebPatience {
            connect: limits::WEB_CONNECT_TIMEOUT,
            silence: limits::WEB_SILENCE_TIMEOUT,
            whole: limits::WEB_TIMEOUT,
        }
    }
}

impl Default for Web {
    fn default() -> Self {
        Web {
            guard: WebGuard::default(),
            resolver: Arc::new(SystemResolver),
            hosts: Arc::new([]),
            search: None,
            patience: WebPatience::default(),
        }
    }
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").field("guard", &self.guard).field("search", &self.search_in_words()).finish()
    }
}

impl Web {
    /// Builds the configuration from settings. `environment` looks up variables; file paths are relative to `folder`.
    pub fn build(
        settings: &WebSettings,
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Result<Web, WebSettingsError> {
        let count = settings.hosts.len();
        if count > limits::WEB_HOSTS_MAX {
            let why = format!("{count} hosts are configured; the limit is {}", limits::WEB_HOSTS_MAX);
            return Err(WebSettingsError::new("hosts", why));
        }
        let mut hosts = Vec::new();
        for (name, host) in &settings.hosts {
            let key = |key: &str| format!("hosts.{name:?}.{key}");
            let origin = origin_of(name).ok_or_else(|| {
                let why = "it is not a valid host; write api.example.com, or http://10.0.0.5:8080 for a host \
                           without TLS";
                WebSettingsError::new(format!("hosts.{name:?}"), why)
            })?;
            let sources = HeaderSources {
                headers: &host.headers,
                headers_env: &host.headers_env,
                headers_file: &host.headers_file,
            };
            let headers = SecretHeaders::read(&sources, RESERVED, environment, folder);
            hosts.push((origin, headers.map_err(|(name, why)| WebSettingsError::new(key(name), why))?));
        }
        let search =
            settings.search.as_ref().map(|search| SearchProvider::build(search, environment, folder));
        Ok(Web {
            guard: WebGuard::new(settings.private_hosts.clone()),
            hosts: hosts.into(),
            search: search.transpose()?.map(Arc::new),
            ..Web::default()
        })
    }

    /// Forbids requests to this machine, for the reason `why`.
    pub fn without_loopback(mut self, why: &str) -> Self {
        self.guard = self.guard.without_loopback(why);
        self
    }

    /// Adds the tools of [`WEB_TOOLS`].
    pub fn add_to(&self, tools: &mut Tools) {
        tools.add(http_tool::HttpRequest(self.clone()));
        tools.add(fetch_tool::WebFetch(self.clone()));
        tools.add(search_tool::WebSearch(self.clone()));
    }

    /// Secrets that must be masked.
    pub fn secrets(&self) -> Vec<Secret> {
        let of_hosts = self.hosts.iter().flat_map(|(_, headers)| headers.secrets());
        let of_search = self.search.iter().flat_map(|search| search.secrets());
        of_hosts.chain(of_search).collect()
    }

    /// A description of the search provider, without secrets.
    pub fn search_in_words(&self) -> Option<String> {
        self.search.as_ref().map(|search| search.host().to_owned())
    }

    /// The configured headers for requests to a URL.
    fn headers_for(&self, url: &WebUrl) -> Option<&SecretHeaders> {
        self.hosts.iter().find(|(origin, _)| origin.is_same_origin(url)).map(|(_, headers)| headers)
    }

    fn resolver(&self) -> &dyn NameResolver {
        &*self.resolver
    }

    fn patience(&self) -> WebPatience {
        self.patience
    }
}

/// Parses a host (which means `https`) or an origin.
fn origin_of(text: &str) -> Option<WebUrl> {
    let text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = WebUrl::read(&text).ok()?;
    let is_origin = url.url().path() == "/" && url.url().query().is_none() && !text.contains('#');
    is_origin.then_some(url)
}

#[cfg(test)]
mod tests;
