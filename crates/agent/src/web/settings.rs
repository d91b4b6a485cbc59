//! The web as it is configured: `[web]`.
//!
//! Look at [`WebSettings`]. It must never know where the configuration came from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::private::PrivateHost;
use crate::model::Secret;

/// All that is configured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WebSettings {
    /// Hosts that may be reached although they are not public.
    pub private_hosts: Vec<PrivateHost>,
    /// Headers for hosts, by host or origin.
    pub hosts: BTreeMap<String, HostSettings>,
    pub search: Option<SearchSettings>,
}

/// What is sent to one host with every request: `[web.hosts."api.example.com"]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostSettings {
    pub headers: BTreeMap<String, Secret>,
    /// By header: the variable that holds its value.
    pub headers_env: BTreeMap<String, String>,
    /// By header: the file that holds its value.
    pub headers_file: BTreeMap<String, PathBuf>,
}

/// The provider of searches: `[web.search]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchSettings {
    /// Its address; `{query}` and `{count}` are replaced.
    pub url: String,
    /// JSON that is posted; `"{query}"` and `"{count}"` are replaced. Without it the request is a GET.
    pub body: Option<String>,
    pub headers: BTreeMap<String, Secret>,
    pub headers_env: BTreeMap<String, String>,
    pub headers_file: BTreeMap<String, PathBuf>,
    /// JSON Pointer to the list of results in the answer.
    pub results: Option<String>,
    /// JSON Pointers within one result.
    pub title: Option<String>,
    pub link: Option<String>,
    pub snippet: Option<String>,
}

/// Why the web cannot be used as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("web.{key}: {why}")]
pub struct WebSettingsError {
    pub key: String,
    pub why: String,
}

impl WebSettingsError {
    pub(crate) fn new(key: impl Into<String>, why: impl Into<String>) -> Self {
        WebSettingsError { key: key.into(), why: why.into() }
    }
}
