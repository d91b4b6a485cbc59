//! Settings of the section `[web]`.
//!
//! Start at [`WebSettings`]. The module must not depend on the source of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::private::PrivateHost;
use crate::model::Secret;

/// The section `[web]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WebSettings {
    /// Hosts that may be reached although they are not public.
    pub private_hosts: Vec<PrivateHost>,
    /// Headers by host or origin.
    pub hosts: BTreeMap<String, HostSettings>,
    pub search: Option<SearchSettings>,
}

/// Headers of every request to one host: `[web.hosts."api.example.com"]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostSettings {
    pub headers: BTreeMap<String, Secret>,
    /// Header name to the variable that holds its value.
    pub headers_env: BTreeMap<String, String>,
    /// Header name to the file that holds its value.
    pub headers_file: BTreeMap<String, PathBuf>,
}

/// The search provider: `[web.search]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchSettings {
    /// The URL; `{query}` and `{count}` are replaced.
    pub url: String,
    /// The JSON body to post; `"{query}"` and `"{count}"` are replaced. Without it the request is a GET.
    pub body: Option<String>,
    pub headers: BTreeMap<String, Secret>,
    pub headers_env: BTreeMap<String, String>,
    pub headers_file: BTreeMap<String, PathBuf>,
    /// JSON Pointer to the list of results in the response.
    pub results: Option<String>,
    /// JSON Pointers within one result.
    pub title: Option<String>,
    pub link: Option<String>,
    pub snippet: Option<String>,
}

/// Why the configuration of the web tools is invalid.
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
