//! The HTTP client for requests of this server to others: webhooks and the provider of sign-in. Redirects are not followed, and no
//! error names the URL, because it may be a secret.
//!
//! Start at [`client`]. It must not know what is sent.

use std::error::Error as _;
use std::time::Duration;

use reqwest::{Client, ClientBuilder};

/// A client whose requests take at most `timeout`. `more` sets what only one use needs.
pub(crate) fn client(
    is_secure: bool,
    timeout: Duration,
    more: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<Client, String> {
    // The process chooses the TLS crypto provider once; an earlier choice is kept.
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut client = Client::builder()
        .user_agent(concat!("recount/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .http1_only()
        .timeout(timeout);
    if !is_secure {
        // Without TLS no certificates are read, so a machine without certificates works too.
        client = client.tls_certs_only([]);
    }
    more(client).build().map_err(|why| reason(why, timeout))
}

/// The innermost cause, without the URL.
pub(crate) fn reason(why: reqwest::Error, timeout: Duration) -> String {
    if why.is_timeout() {
        return format!("no response within {} s", timeout.as_secs());
    }
    let why = why.without_url();
    let mut cause = why.source();
    let mut text = why.to_string();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}
