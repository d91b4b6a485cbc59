//! Builds the request headers for a server: those of the configuration, and those that the protocol derives from a
//! request.
//!
//! The module must not depend on how requests are sent.

use std::path::Path;

use recount_transport::mcp_header;
use reqwest::header::HeaderValue;

use super::settings::McpServerSettings;
use crate::headers::{HeaderSources, SecretHeaders};

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

/// Reads the configured headers, which are sent with every request. `Err`: the key that is invalid, and why.
pub(super) fn read(
    settings: &McpServerSettings,
    environment: &dyn Fn(&str) -> Option<String>,
    folder: &Path,
) -> Result<SecretHeaders, (&'static str, String)> {
    let sources = HeaderSources {
        headers: &settings.headers,
        headers_env: &settings.headers_env,
        headers_file: &settings.headers_file,
    };
    SecretHeaders::read(&sources, RESERVED, environment, folder)
}

/// Encodes a text for a header: unchanged if possible, otherwise as marked base64.
pub(crate) fn encode(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&mcp_header::encode(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_header_can_carry_are_encoded() {
        let encoded = |text| encode(text).unwrap().to_str().unwrap().to_owned();
        assert_eq!(encoded("read_file"), "read_file");
        assert_eq!(encoded("größe"), "=?base64?Z3LDtsOfZQ==?=");
        assert_eq!(encoded(" x"), "=?base64?IHg=?=");
        assert_eq!(encoded("=?base64?eA==?="), "=?base64?PT9iYXNlNjQ/ZUE9PT89?=");
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
        let headers = read(&settings, &environment, folder.path()).unwrap();
        assert_eq!(headers.0["authorization"], "Bearer from-file");
        assert_eq!(headers.0["x-b"], "Bearer b");
        let mut secrets: Vec<String> =
            headers.secrets().iter().map(|secret| secret.reveal().to_owned()).collect();
        secrets.sort();
        assert_eq!(secrets, ["a", "b", "from-file"]);
        let (key, why) = read(&settings, &|_| None, folder.path()).unwrap_err();
        assert!(key == "headers_env" && why.contains("B is not set"), "{why}");
        let reserved: McpServerSettings = toml::from_str("headers = { Mcp-Session-Id = \"a\" }").unwrap();
        assert!(read(&reserved, &|_| None, folder.path()).unwrap_err().1.contains("set by the protocol"));
    }
}
