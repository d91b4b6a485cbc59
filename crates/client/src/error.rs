//! Errors of calls. See [`ClientError`].

use recount_api::problem::Problem;

use crate::socket_url::{advice, is_socket};

/// Why a call brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server refused the call or failed, with a problem in the agreed form.
    #[error("{} ({})", .0.detail, .0.code)]
    Problem(Box<Problem>),
    /// No answer: nothing listens at the address, or the connection broke. The call may have been executed.
    #[error("no response from {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// Nothing was sent, because what was given to send cannot be.
    #[error("{0}")]
    Unusable(String),
    /// What came is not what this face sends: another program listens there, or another release.
    #[error("unexpected response from {url}: {reason}")]
    Protocol { url: String, reason: String },
}

impl ClientError {
    /// The code of a problem.
    pub fn code(&self) -> Option<&str> {
        match self {
            ClientError::Problem(problem) => Some(&problem.code),
            ClientError::Unusable(_) | ClientError::Unreachable { .. } | ClientError::Protocol { .. } => None,
        }
    }

    /// Whether the same call may succeed later.
    pub fn may_pass(&self) -> bool {
        match self {
            ClientError::Problem(problem) => problem.retryable,
            ClientError::Unreachable { .. } => true,
            ClientError::Unusable(_) | ClientError::Protocol { .. } => false,
        }
    }

    pub(crate) fn unreachable(url: &str, why: &(dyn std::error::Error + 'static)) -> Self {
        let mut reason = innermost(why);
        if is_socket(url) {
            reason.push_str(io_error(why).map_or("", advice));
        }
        ClientError::Unreachable { url: url.to_owned(), reason }
    }

    pub(crate) fn protocol(url: &str, reason: impl Into<String>) -> Self {
        ClientError::Protocol { url: url.to_owned(), reason: reason.into() }
    }
}

/// The error of the operating system in a chain of causes.
fn io_error<'e>(why: &'e (dyn std::error::Error + 'static)) -> Option<&'e std::io::Error> {
    let mut cause = Some(why);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<std::io::Error>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// The last of a chain of causes: the error of the operating system, or of the check of a certificate.
fn innermost(why: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = why;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    match of_tls(cause) {
        Some(rustls::Error::InvalidCertificate(_)) => format!(
            "{cause}; the server certificate is not trusted here. If it is from your own certificate \
             authority, set SSL_CERT_FILE to the file of the authority"
        ),
        _ => cause.to_string(),
    }
}

/// What went wrong with TLS, however many errors of the operating system it was wrapped into.
fn of_tls<'e>(cause: &'e (dyn std::error::Error + 'static)) -> Option<&'e rustls::Error> {
    let mut cause = cause;
    while let Some(inner) = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        cause = inner;
    }
    cause.downcast_ref()
}
