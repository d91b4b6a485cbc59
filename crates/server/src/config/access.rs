//! Configuration of access: tokens, origins of pages, and the rate of requests.
//!
//! It must not know how a request is checked. Start at [`Access`].

/// The configured rules of access.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether requests over loopback need a token, too.
    pub require_token: bool,
    /// Other origins whose pages may send requests, exactly as browsers send them.
    pub allowed_origins: Vec<String>,
    /// Requests per second of tokens without a rate of their own.
    pub requests_per_second: Option<u32>,
}
