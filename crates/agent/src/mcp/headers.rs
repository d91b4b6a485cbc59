//! Headers of requests to a server: those of the configuration, and those that the protocol derives from a request.
//!
//! It must not know how requests are sent.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::settings::McpServerSettings;
use crate::limits;
use crate::model::Secret;

/// Headers that the protocol sets itself.
const RESERVED: &[&str] = &[
    "accept",
    "content-type",
    "content-length",
    "host",
    "mcp-session-id",
    "mcp-protocol-version",
    "last-event-id",
    "mcp-method",
    "mcp-name",
];

/// Those of the configuration, sent with every request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Headers(pub(crate) HeaderMap);

impl Headers {
    /// `Err`: the key that is wrong, and why.
    pub(crate) fn read(
        settings: &McpServerSettings,
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Result<Headers, (&'static str, String)> {
        let mut headers = Headers::default();
        for (name, value) in &settings.headers {
            headers.add(name, value.reveal()).map_err(|why| ("headers", why))?;
        }
        for (name, variable) in &settings.headers_env {
            let value = environment(variable)
                .ok_or_else(|| ("headers_env", format!("{name}: the variable {variable} is not set")))?;
            headers.add(name, &value).map_err(|why| ("headers_env", why))?;
        }
        for (name, file) in &settings.headers_file {
            let path = folder.join(file);
            let why = |why: String| ("headers_file", format!("{name}: {}: {why}", path.display()));
            let size = std::fs::metadata(&path).map_err(|error| why(error.to_string()))?.len();
            if size > limits::MCP_HEADER_FILE_BYTES_MAX {
                return Err(why(format!(
                    "it has {size} bytes, and a header has at most {}",
                    limits::MCP_HEADER_FILE_BYTES_MAX
                )));
            }
            let value = std::fs::read_to_string(&path).map_err(|error| why(error.to_string()))?;
            headers.add(name, value.trim_end_matches(['\n', '\r'])).map_err(|why| ("headers_file", why))?;
        }
        Ok(headers)
    }

    fn add(&mut self, name: &str, value: &str) -> Result<(), String> {
        if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
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

/// A text as a header can carry it: as it is, or marked as base64.
pub(crate) fn carried(text: &str) -> Option<HeaderValue> {
    let marked = text.starts_with("=?base64?") && text.ends_with("?=");
    let plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) && text.trim() == text && !marked;
    let text = if plain { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) };
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_header_carries_are_marked() {
        let said = |text| carried(text).unwrap().to_str().unwrap().to_owned();
        assert_eq!(said("read_file"), "read_file");
        assert_eq!(said("größe"), "=?base64?Z3LDtsOfZQ==?=");
        assert_eq!(said(" x"), "=?base64?IHg=?=");
        assert_eq!(said("=?base64?eA==?="), "=?base64?PT9iYXNlNjQ/ZUE9PT89?=");
    }

    #[test]
    fn headers_come_from_the_file_the_environment_and_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "Bearer from-file\n").unwrap();
        let settings: McpServerSettings = toml::from_str(
            "url = \"http://x\"\nheaders = { X-A = \"a\" }\nheaders_env = { X-B = \"B\" }\nheaders_file = { Authorization = \"token\" }",
        )
        .unwrap();
        let environment = |name: &str| (name == "B").then(|| "Bearer b".to_owned());
        let headers = Headers::read(&settings, &environment, folder.path()).unwrap();
        assert_eq!(headers.0["authorization"], "Bearer from-file");
        assert_eq!(headers.0["x-b"], "Bearer b");
        let mut secrets: Vec<String> =
            headers.secrets().iter().map(|secret| secret.reveal().to_owned()).collect();
        secrets.sort();
        assert_eq!(secrets, ["a", "b", "from-file"]);
        let (key, why) = Headers::read(&settings, &|_| None, folder.path()).unwrap_err();
        assert!(key == "headers_env" && why.contains("B is not set"), "{why}");
        let reserved: McpServerSettings = toml::from_str("headers = { Mcp-Session-Id = \"a\" }").unwrap();
        assert!(
            Headers::read(&reserved, &|_| None, folder.path()).unwrap_err().1.contains("set by the protocol")
        );
    }
}
