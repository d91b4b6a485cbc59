//! What an answer that is no answer means: from a status, a provider's word for an error, or the network, to one
//! [`Failure`].
//!
//! Look at [`of_status`]. It must never let a key into a message: it is given what the provider said, cut short,
//! and nothing of what was sent.

use std::time::Duration;

use super::Failure;
use crate::limits;

/// A failure without an answer of the provider.
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

/// What a status other than a good one means. `word` is the provider's own for the error, where it has one, and
/// `said` what it wrote for people.
pub(super) fn of_status(
    who: &str,
    status: u16,
    word: Option<&str>,
    said: &str,
    wait: Option<Duration>,
) -> Failure {
    let full = is_context_full(word.unwrap_or_default(), said);
    let code = match status {
        401 | 403 => "model_unauthorized",
        404 => "model_not_found",
        408 => "model_timeout",
        429 if is_out_of_funds(word) => "model_refused",
        429 => "model_rate_limited",
        409 => "model_overloaded",
        503 | 529 => "model_overloaded",
        500.. => "model_failed",
        _ if full => "model_context_full",
        _ => "model_refused",
    };
    let what_to_do = match code {
        "model_unauthorized" => "; check the key of this provider",
        "model_not_found" => "; check the model's name and the provider's base_url",
        "model_context_full" => "; the conversation is longer than the model can take",
        _ => "",
    };
    let word = word.filter(|word| !word.is_empty()).map(|word| format!(" {}", cut(word)));
    let said = if said.is_empty() { String::new() } else { format!(": {}", cut(said)) };
    let message = format!("{who} answered {status}{}{said}{what_to_do}", word.unwrap_or_default());
    Failure { status: Some(status), retry_after: wait, ..plain(code, message) }
}

/// What an error within a stream means. Providers name it by a word, a number or both, and by neither when things
/// go really wrong.
pub(super) fn in_stream(who: &str, word: Option<&str>, status: Option<u16>, said: &str) -> Failure {
    let known = match word.unwrap_or_default() {
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
    // The stream itself began with 200, so an error that nobody can name is the provider's own.
    let status = status.filter(|status| (400..600).contains(status)).or(known).unwrap_or(500);
    let mut failure = of_status(who, status, word, said, None);
    failure.message = failure.message.replacen("answered", "broke off with", 1);
    failure
}

/// A text from outside, short enough for a message and on one line.
pub(super) fn cut(said: &str) -> String {
    let mut end = said.len().min(limits::MODEL_ERROR_MESSAGE_BYTES_MAX);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    let mut text: String =
        said[..end].chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if end < said.len() {
        text.push('…');
    }
    text
}

/// There is no status for it; providers say it in words.
fn is_context_full(word: &str, said: &str) -> bool {
    if matches!(word, "context_length_exceeded" | "exceed_context_size_error" | "request_too_large") {
        return true;
    }
    let said = said.to_lowercase();
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
    known.iter().any(|known| said.contains(known))
}

/// An account without money answers as one that asks too often does, but waiting does not help.
fn is_out_of_funds(word: Option<&str>) -> bool {
    matches!(word, Some("insufficient_quota" | "billing_error" | "billing_not_active"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_become_codes() {
        for (status, word, said, code, retriable) in [
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
            let failure = of_status("p", status, word, said, None);
            assert_eq!((failure.code, failure.retriable), (code, retriable), "{status} {word:?} {said}");
            assert_eq!(failure.status, Some(status));
        }
    }

    #[test]
    fn errors_in_a_stream_are_known_by_word_number_or_not_at_all() {
        for (word, status, code) in [
            (Some("overloaded_error"), None, "model_overloaded"),
            (Some("rate_limit_error"), None, "model_rate_limited"),
            (Some("server_error"), Some(502), "model_failed"),
            (None, Some(429), "model_rate_limited"),
            (Some("what"), None, "model_failed"),
            (None, Some(7), "model_failed"),
            (Some("invalid_request_error"), None, "model_refused"),
        ] {
            assert_eq!(in_stream("p", word, status, "said").code, code, "{word:?} {status:?}");
        }
    }

    #[test]
    fn what_is_said_is_cut_and_stays_on_one_line() {
        let long = "ä\n".repeat(limits::MODEL_ERROR_MESSAGE_BYTES_MAX);
        let short = cut(&long);
        assert!(short.len() <= limits::MODEL_ERROR_MESSAGE_BYTES_MAX + '…'.len_utf8());
        assert!(short.ends_with('…') && !short.contains('\n'));
    }
}
