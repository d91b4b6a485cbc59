//! Limits of web requests and searches. Each constant documents what happens when it is reached.

use std::time::Duration;

/// Bytes of a URL. A longer one is refused with `url_refused`.
pub const WEB_URL_BYTES_MAX: usize = 8 << 10;

/// Bytes of a URL in a message. The rest is omitted.
pub const WEB_NAMED_URL_BYTES_MAX: usize = 500;

/// Addresses of a host that are used. Further ones are ignored.
pub const WEB_ADDRESSES_MAX: usize = 16;

/// Redirects of one request. With more the call fails with `too_many_redirects`.
pub const WEB_REDIRECTS_MAX: usize = 8;

/// How long resolving a name, and connecting, may take. Then the call fails with `name_not_resolved` or `unreachable`.
pub const WEB_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may send nothing. Then the call ends with `timeout` and returns what was received.
pub const WEB_SILENCE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a request with all its redirects may take. Then the call ends with `timeout` and returns what was received.
pub const WEB_TIMEOUT: Duration = Duration::from_secs(30);

/// Hosts with configured headers. A configuration with more is refused.
pub const WEB_HOSTS_MAX: usize = 64;

/// Headers that a call may send. A call with more is refused.
pub const WEB_HEADERS_SENT_MAX: usize = 32;

/// Headers of a response. A response with more fails with `response_invalid`.
pub const WEB_HEADERS_MAX: usize = 100;

/// Bytes of the headers of a response. A response with more fails with `response_invalid`.
pub const WEB_HEADER_BYTES_MAX: usize = 64 << 10;

/// Characters of a header that the model sees. The rest is omitted.
pub const WEB_HEADER_CHARS_SHOWN: usize = 500;

/// Bytes of a response to `http_request`. The rest is not read, and `body_truncated` is set.
pub const HTTP_BODY_BYTES_MAX: usize = 256 << 10;

/// Bytes of a page that `web_fetch` reads. The rest is not read, and `body_truncated` is set.
pub const WEB_PAGE_BYTES_MAX: usize = 2 << 20;

/// Bytes of the text of a page. The rest is omitted, and the last part states this.
pub const WEB_TEXT_BYTES_MAX: usize = 1 << 20;

/// Bytes of a text that one call returns, a little less than `OUTPUT_SHOWN_BYTES`. The text states the offset at which
/// to continue.
pub const WEB_SHOWN_BYTES: usize = 28 << 10;

/// Bytes of the title of a page. The rest is omitted.
pub const WEB_TITLE_BYTES_MAX: usize = 300;

/// Bytes of a link's URL in a page. Of a longer one only the link text is shown.
pub const WEB_LINK_BYTES_MAX: usize = 2_000;

/// How long a search may take. Then the call ends with `timeout`.
pub const SEARCH_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes of a search provider's response. A longer one fails with `search_unreadable`.
pub const SEARCH_BODY_BYTES_MAX: usize = 1 << 20;

/// Characters of a search query. A longer one is refused.
pub const SEARCH_QUERY_CHARS_MAX: usize = 500;

/// Default number of results of a search. The call may request another number.
pub const SEARCH_HITS_DEFAULT: u64 = 5;

/// Maximum number of results of a search. More are refused.
pub const SEARCH_HITS_MAX: u64 = 10;

/// Characters of a result's title. The rest is omitted.
pub const SEARCH_TITLE_CHARS_MAX: usize = 200;

/// Characters of a result's snippet. The rest is omitted.
pub const SEARCH_SNIPPET_CHARS_MAX: usize = 600;
