//! Classifies errors of providers: maps a status, an error code of the provider, or a network error to a [`Failure`].
//!
//! A message contains only text from the provider, cut to a limit, and nothing of the request, so it cannot contain an
//! API key. Start with [`of_status`].

use std::time::Duration;

use super::Failure;
use crate::limits;

/// A failure without an HTTP status.
pub(super) fn plain(code: &'static str, message: impl Into<String>) -> Failure {
    let retriable = matches!(
        code,
        "model_unreachable"
            | "model_timeout"
            | "model_overloaded"
            | "model_rate_limited"
            | "model_failed"
            | "model_malformed"
            | "model_cut"
    );
    Failure { code, message: message.into(), status: None, retriable, retry_after: None }
}

/// The failure for an error status. `error_code` is the provider's code for the error, if any, and `text` its message.
pub(super) fn of_status(
    provider: &str,
    status: u16,
    error_code: Option<&str>,
    text: &str,
    wait: Option<Duration>,
) -> Failure {
    let is_full = is_context_full(error_code.unwrap_or_default(), text);
    let code = match status {
        401 | 403 => "model_unauthorized",
        404 => "model_not_found",
        408 => "model_timeout",
        429 if is_out_of_funds(error_code) => "model_refused",
        429 => "model_rate_limited",
        409 => "model_overloaded",
        503 | 529 => "model_overloaded",
        500.. => "model_failed",
        _ if is_full => "model_context_full",
        _ => "model_refused",
    };
    let what_to_do = match code {
        "model_unauthorized" => "; check the API key of this provider",
        "model_not_found" => "; check the model name and the provider's base_url",
        "model_context_full" => "; the conversation exceeds the model's context window",
        _ => "",
    };
    let error_code = error_code
        .filter(|error_code| !error_code.is_empty())
        .map(|error_code| format!(" {}", cut(error_code)));
    let text = if text.is_empty() { String::new() } else { format!(": {}", cut(text)) };
    let again =
        wait.map_or_else(String::new, |wait| format!("; retry after {} s", wait.as_secs_f64().ceil()));
    let error_code = error_code.unwrap_or_default();
    let message = format!("{provider} returned {status}{error_code}{text}{what_to_do}{again}");
    Failure { status: Some(status), retry_after: wait, ..plain(code, message) }
}

/// The failure for an error within a stream. Providers send an error code, a status, both, or neither.
pub(super) fn in_stream(
    provider: &str,
    error_code: Option<&str>,
    status: Option<u16>,
    text: &str,
) -> Failure {
    let known = match error_code.unwrap_or_default() {
        "overloaded_error" | "overloaded" | "server_overloaded" => Some(529),
        "rate_limit_error" | "rate_limit_exceeded" | "rate_limited" => Some(429),
        "insufficient_quota" | "billing_error" => Some(402),
        "api_error" | "server_error" | "internal_error" | "internal_server_error" => Some(500),
        "timeout_error" => Some(504),
        "authentication_error" | "permission_error" | "invalid_api_key" => Some(401),
        "not_found_error" | "model_not_found" => Some(404),
        "invalid_request_error" | "request_too_large" | "context_length_exceeded" => Some(400),
        _ => None,
    };
    // The stream started with status 200, so an unknown error is a failure of the provider.
    let status = status.filter(|status| (400..600).contains(status)).or(known).unwrap_or(500);
    let mut failure = of_status(provider, status, error_code, text, None);
    failure.message = failure.message.replacen("returned", "failed during the response with", 1);
    failure
}

/// An external text, cut to one short line.
pub(super) fn cut(text: &str) -> String {
    let mut end = text.len().min(limits::MODEL_ERROR_MESSAGE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut line: String =
        text[..end].chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if end < text.len() {
        line.push('…');
    }
    line
}

/// Whether the error means that the conversation is too long. There is no status for it, so the text counts.
fn is_context_full(error_code: &str, text: &str) -> bool {
    if matches!(error_code, "context_length_exceeded" | "exceed_context_size_error" | "request_too_large") {
        return true;
    }
    let text = text.to_lowercase();
    let known = [
        "prompt is too long",
        "context length",
        "context_length",
        "context window",
        "context size",
        "context limit",
        "maximum context",
        "too many tokens",
        "input is too long",
    ];
    known.iter().any(|known| text.contains(known))
}

/// Whether the account has no credit. The status is the same as for too many requests, but a retry does not help.
fn is_out_of_funds(error_code: Option<&str>) -> bool {
    matches!(error_code, Some("insufficient_quota" | "billing_error" | "billing_not_active"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_map_to_failure_codes() {
        for (status, error_code, text, code, retriable) in [
            (400, None, "bad", "model_refused", false),
            (400, None, "prompt is too long: 300000 tokens > 200000 maximum", "model_context_full", false),
            (400, Some("context_length_exceeded"), "", "model_context_full", false),
            (401, Some("authentication_error"), "invalid x-api-key", "model_unauthorized", false),
            (402, None, "no credits", "model_refused", false),
            (403, None, "", "model_unauthorized", false),
            (404, None, "", "model_not_found", false),
            (408, None, "", "model_timeout", true),
            (409, None, "", "model_overloaded", true),
            (413, Some("request_too_large"), "", "model_context_full", false),
            (422, None, "", "model_refused", false),
            (429, None, "", "model_rate_limited", true),
            (429, Some("insufficient_quota"), "", "model_refused", false),
            (500, None, "", "model_failed", true),
            (502, None, "", "model_failed", true),
            (503, None, "", "model_overloaded", true),
            (529, Some("overloaded_error"), "", "model_overloaded", true),
        ] {
            let failure = of_status("p", status, error_code, text, None);
            assert_eq!(
                (failure.code, failure.retriable),
                (code, retriable),
                "{status} {error_code:?} {text}"
            );
            assert_eq!(failure.status, Some(status));
        }
    }

    #[test]
    fn stream_errors_are_classified_by_code_then_by_status() {
        for (error_code, status, code) in [
            (Some("overloaded_error"), None, "model_overloaded"),
            (Some("rate_limit_error"), None, "model_rate_limited"),
            (Some("server_error"), Some(502), "model_failed"),
            (None, Some(429), "model_rate_limited"),
            (Some("what"), None, "model_failed"),
            (None, Some(7), "model_failed"),
            (Some("invalid_request_error"), None, "model_refused"),
        ] {
            assert_eq!(in_stream("p", error_code, status, "text").code, code, "{error_code:?} {status:?}");
        }
    }

    #[test]
    fn external_text_is_cut_to_one_line() {
        let long = "ä\n".repeat(limits::MODEL_ERROR_MESSAGE_BYTES_MAX);
        let short = cut(&long);
        assert!(short.len() <= limits::MODEL_ERROR_MESSAGE_BYTES_MAX + '…'.len_utf8());
        assert!(short.ends_with('…') && !short.contains('\n'));
    }
}
