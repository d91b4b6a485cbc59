//! Headers of the configuration whose values are secrets: for MCP servers and for hosts of the web.
//!
//! Look at [`SecretHeaders`]. It must not know where they are sent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::limits;
use crate::model::Secret;

/// Where a section of the configuration has its headers.
pub(crate) struct HeaderSources<'a> {
    pub(crate) headers: &'a BTreeMap<String, Secret>,
    /// By header: the variable that holds its value.
    pub(crate) headers_env: &'a BTreeMap<String, String>,
    /// By header: the file that holds its value.
    pub(crate) headers_file: &'a BTreeMap<String, PathBuf>,
}

/// Headers that are sent and never shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretHeaders(pub(crate) HeaderMap);

impl SecretHeaders {
    /// `reserved`: names in lower case that the protocol sets itself. `Err`: the key that is wrong, and why.
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
                    "it has {size} bytes, and a header has at most {}",
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
        let wrong = || {
            format!(
                "the header {name:?} cannot be sent; its name or value holds characters that no header can carry"
            )
        };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        self.0.insert(key, value);
        Ok(())
    }

    /// The values, and of one such as `Bearer TOKEN` the token.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let values = self.0.values().filter_map(|value| value.to_str().ok());
        values.map(|value| Secret::new(value.rsplit(' ').next().unwrap_or_default())).collect()
    }
}
