//! Reads configured HTTP headers with secret values, for MCP servers and web hosts.
//!
//! It must not know where the headers are sent. Start with [`SecretHeaders`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::limits;
use crate::model::Secret;

/// The settings of one section that define headers.
pub(crate) struct HeaderSources<'a> {
    pub(crate) headers: &'a BTreeMap<String, Secret>,
    /// By header: the environment variable with its value.
    pub(crate) headers_env: &'a BTreeMap<String, String>,
    /// By header: the file with its value.
    pub(crate) headers_file: &'a BTreeMap<String, PathBuf>,
}

/// Headers whose values are never displayed.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretHeaders(pub(crate) HeaderMap);

impl SecretHeaders {
    /// Reads the headers. `reserved`: lower-case names that the protocol sets itself. `Err`: the invalid key, and why.
    pub(crate) fn read(
        sources: &HeaderSources<'_>,
        reserved: &[&str],
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Result<SecretHeaders, (&'static str, String)> {
        let mut headers = SecretHeaders::default();
        for (name, value) in sources.headers {
            headers.add(name, value.reveal(), reserved).map_err(|why| ("headers", why))?;
        }
        for (name, variable) in sources.headers_env {
            let value = environment(variable)
                .ok_or_else(|| ("headers_env", format!("{name}: the variable {variable} is not set")))?;
            headers.add(name, &value, reserved).map_err(|why| ("headers_env", why))?;
        }
        for (name, file) in sources.headers_file {
            let path = folder.join(file);
            let why = |why: String| ("headers_file", format!("{name}: {}: {why}", path.display()));
            let size = std::fs::metadata(&path).map_err(|error| why(error.to_string()))?.len();
            if size > limits::HEADER_FILE_BYTES_MAX {
                return Err(why(format!(
                    "it has {size} bytes; the limit for a header is {}",
                    limits::HEADER_FILE_BYTES_MAX
                )));
            }
            let value = std::fs::read_to_string(&path).map_err(|error| why(error.to_string()))?;
            headers
                .add(name, value.trim_end_matches(['\n', '\r']), reserved)
                .map_err(|why| ("headers_file", why))?;
        }
        Ok(headers)
    }

    fn add(&mut self, name: &str, value: &str, reserved: &[&str]) -> Result<(), String> {
        if reserved.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!("{name} is set by the protocol; remove it"));
        }
        let invalid = || {
            format!(
                "the header {name:?} cannot be sent; its name or value has characters that are not allowed \
                 in headers"
            )
        };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        self.0.insert(key, value);
        Ok(())
    }

    /// The values as secrets. Of a value such as `Bearer TOKEN` only the token.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let values = self.0.values().filter_map(|value| value.to_str().ok());
        values.map(|value| Secret::new(value.rsplit(' ').next().unwrap_or_default())).collect()
    }
}
