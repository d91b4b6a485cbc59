//! Limits of web requests and searches. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

use std::time::Duration;

/// Bytes of an address; a longer one is refused with `url_refused`.
pub const WEB_URL_BYTES_MAX: usize = 8 << 10;

/// Bytes of an address in a message; the rest is left out.
pub const WEB_NAMED_URL_BYTES_MAX: usize = 500;

/// Addresses that a host resolves to and that are used; further ones are left out.
pub const WEB_ADDRESSES_MAX: usize = 16;

/// Redirects of one request; then the call fails with `too_many_redirects`.
pub const WEB_REDIRECTS_MAX: usize = 8;

/// How long resolving a name, and accepting a connection, may take; then the call fails with `name_not_resolved` or
/// `unreachable`.
pub const WEB_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may send nothing; then the call ends with `timeout`, and what came is told.
pub const WEB_SILENCE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a request with all its redirects may take; then the call ends with `timeout`, and what came is told.
pub const WEB_TIMEOUT: Duration = Duration::from_secs(30);

/// Hosts that have headers of their own; with more the configuration is refused.
pub const WEB_HOSTS_MAX: usize = 64;

/// Headers that a call may send; one with more is refused.
pub const WEB_HEADERS_SENT_MAX: usize = 32;

/// Headers of a response; one with more fails with `response_invalid`.
pub const WEB_HEADERS_MAX: usize = 100;

/// Bytes of the headers of a response; one with more fails with `response_invalid`.
pub const WEB_HEADER_BYTES_MAX: usize = 64 << 10;

/// Characters of a header that a model is told; the rest is left out.
pub const WEB_HEADER_CHARS_TOLD: usize = 500;

/// Bytes of a response to `http_request`; the rest is not read, and `body_truncated` says so.
pub const HTTP_BODY_BYTES_MAX: usize = 256 << 10;

/// Bytes of a page that `web_fetch` reads; the rest is not read, and `body_truncated` says so.
pub const WEB_PAGE_BYTES_MAX: usize = 2 << 20;

/// Bytes of the text of a page; the rest is left out, and the last part says so.
pub const WEB_TEXT_BYTES_MAX: usize = 1 << 20;

/// Bytes of a text that one call tells, a little less than `OUTPUT_TOLD_BYTES`; `web_fetch` continues where it is told to.
pub const WEB_TOLD_BYTES: usize = 28 << 10;

/// Bytes of the title of a page; the rest is left out.
pub const WEB_TITLE_BYTES_MAX: usize = 300;

/// Bytes of the address of a link in a page; of a longer one only the text is told.
pub const WEB_LINK_BYTES_MAX: usize = 2_000;

/// How long a search may take; then the call ends with `timeout`.
pub const SEARCH_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes of a provider's answer to a search; a longer one fails with `search_unreadable`.
pub const SEARCH_BODY_BYTES_MAX: usize = 1 << 20;

/// Characters that may be searched for; more are refused.
pub const SEARCH_QUERY_CHARS_MAX: usize = 500;

/// Results of a search when its call does not say.
pub const SEARCH_HITS_DEFAULT: u64 = 5;

/// The most results that may be asked for.
pub const SEARCH_HITS_MAX: u64 = 10;

/// Characters of a result's title; the rest is left out.
pub const SEARCH_TITLE_CHARS_MAX: usize = 200;

/// Characters of a result's extract; the rest is left out.
pub const SEARCH_SNIPPET_CHARS_MAX: usize = 600;
