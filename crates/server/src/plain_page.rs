//! Plain HTML pages without scripts, for people who have only a link: their frame, their headers, and text in them. Pure.
//!
//! Start at [`whole_page`] and [`response`]. It must not know what a page is about.

use std::sync::LazyLock;

use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode, header};
use recount_command_line::clean;

const STYLE: &str = "\
:root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}\
body{max-width:46rem;margin:0 auto;padding:1rem}\
h1{font-size:1.4rem}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;padding:.5rem}\
dt{font-weight:bold}dd{margin:0 0 .5rem;overflow-wrap:anywhere}\
.lines{white-space:pre-wrap}\
label{display:block;margin:.5rem 0}\
textarea{box-sizing:border-box;width:100%;font:inherit}\
button{font:inherit;min-height:2.75rem;min-width:8rem;margin:.5rem 1rem .5rem 0}\
fieldset{margin:1rem 0}\
:focus-visible{outline:3px solid;outline-offset:2px}";

/// Allows this one style, and the form to this server. No script, no image, no frame.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let digest = ring::digest::digest(&ring::digest::SHA256, STYLE.as_bytes());
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        STANDARD.encode(digest)
    );
    HeaderValue::try_from(policy).expect("the policy is plain text")
});

/// Sends a page with the headers of all these pages.
pub(crate) fn response(status: StatusCode, page: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::CONTENT_SECURITY_POLICY, POLICY.clone()),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow")),
    ];
    (status, headers, page).into_response()
}

/// A page with a heading; the content is HTML.
pub(crate) fn whole_page(heading: &str, content: &str) -> String {
    let heading = escaped(heading);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{heading} - Recount</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{heading}</h1>\n\
         {content}</main>\n</body>\n</html>\n"
    )
}

/// Text from outside: nothing in it is invisible, and nothing is markup.
pub(crate) fn shown(text: &str) -> String {
    escaped(&clean::approvable(text).join("\n"))
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
