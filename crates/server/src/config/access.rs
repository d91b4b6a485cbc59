//! Configuration of access: tokens, origins of pages, and the rate of requests.
//!
//! It must not know how a request is checked. Look at [`Access`].

use super::wrong;
use crate::StartError;

/// What can be configured about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether even who asks over loopback must show a token.
    pub require_token: bool,
    /// Pages of other origins that may ask, exactly as browsers name them.
    pub allowed_origins: Vec<String>,
    /// How often a token may ask that says nothing of it itself.
    pub requests_per_second: Option<u32>,
}

/// Origins whose pages may ask: several with commas, or none.
pub(super) fn origins(text: &str) -> Result<Vec<String>, StartError> {
    if text == "none" || text.is_empty() {
        return Ok(Vec::new());
    }
    let origins: Vec<String> = text.split(',').map(|origin| origin.trim().to_owned()).collect();
    match origins.iter().find(|origin| !is_origin(origin)) {
        Some(other) => {
            Err(wrong("allowed_origins", other, "origins such as https://app.example, never * or a path"))
        }
        None => Ok(origins),
    }
}

/// Whether a browser could name an origin so: a scheme, a host in lower case, a port where it is not the usual one.
fn is_origin(text: &str) -> bool {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | ':' | '[' | ']');
    authority.is_some_and(|authority| !authority.is_empty() && authority.chars().all(plain))
}
