//! Configuration of access: tokens, origins of pages, and the rate of requests.
//!
//! It must not know how a request is checked. Look at [`Access`].

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
