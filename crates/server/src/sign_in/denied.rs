//! Why a person is not signed in: as a page, as a problem, and as the audit trail counts it.
//!
//! Start at [`Denied`]. It must not know how it came about.

use std::fmt::Write as _;

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use recount_event::Code;
use recount_face_aep::Refusal;

use super::one_time::{Missing, NotKept};
use super::provider::ProviderFault;
use crate::{limits, plain_page};

/// The query of a link by which a person signs in with another account.
pub(super) const AGAIN: &str = "again";

#[derive(Debug)]
pub(super) struct Denied {
    pub(super) reason: Reason,
    /// A sentence fragment, as errors have it.
    pub(super) detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// Unknown, cut, or of another browser.
    Invalid,
    Expired,
    Replayed,
    Forged,
    /// Signed in at the provider, and without access here.
    NoGrant,
    /// By the provider, or by the person there.
    Refused,
    Unavailable,
    Busy,
    /// This server failed.
    Failed(Code),
}

impl Denied {
    pub(super) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Denied { reason, detail: detail.into() }
    }

    /// As the audit trail counts it; `None` if no access was refused.
    pub(super) fn audit_code(&self) -> Option<&'static str> {
        Some(match self.reason {
            Reason::Invalid => "sign_in_invalid",
            Reason::Expired => "sign_in_expired",
            Reason::Replayed => "sign_in_replayed",
            Reason::Forged => "sign_in_forged",
            Reason::NoGrant => "sign_in_no_grant",
            Reason::Refused => "sign_in_refused",
            Reason::Busy => Code::RateLimited.as_str(),
            Reason::Unavailable | Reason::Failed(_) => return None,
        })
    }

    fn code(&self) -> Code {
        match self.reason {
            Reason::Invalid | Reason::Expired | Reason::Replayed => Code::SignInInvalid,
            Reason::Forged | Reason::NoGrant | Reason::Refused => Code::SignInDenied,
            Reason::Unavailable => Code::SignInUnavailable,
            Reason::Busy => Code::RateLimited,
            Reason::Failed(code) => code,
        }
    }

    pub(super) fn refusal(self) -> Refusal {
        let retry_after =
            matches!(self.reason, Reason::Unavailable | Reason::Busy).then_some(limits::SIGN_IN_RETRY);
        Refusal { retry_after, ..Refusal::new(self.code(), self.detail) }
    }

    /// For a browser; with a link to start again.
    pub(super) fn page(&self, public_url: &str) -> Response {
        let heading = match self.reason {
            Reason::Invalid => "This sign-in cannot be continued",
            Reason::Expired => "This sign-in has expired",
            Reason::Replayed => "This sign-in was already used",
            Reason::Forged => "The provider's response is not valid",
            Reason::NoGrant => "You have no access to this server",
            Reason::Refused => "The provider did not sign you in",
            Reason::Unavailable => "The sign-in provider is not available",
            Reason::Busy => "Too many sign-ins are in progress",
            Reason::Failed(_) => "You could not be signed in",
        };
        let mut detail = self.detail.clone();
        if let Some(first) = detail.get(..1) {
            detail.replace_range(..1, &first.to_uppercase());
        }
        let is_of_account = matches!(self.reason, Reason::NoGrant | Reason::Refused);
        let again = if is_of_account { format!("?{AGAIN}") } else { String::new() };
        let (detail, url) = (plain_page::shown(&detail), plain_page::escaped(public_url));
        let mut page = String::new();
        write!(
            page,
            "<p class=\"lines\" role=\"alert\"><bdi>{detail}.</bdi></p>\n<p><a href=\"{url}/sign-in{again}\">Sign in again</a></p>\n\
             <p><a href=\"{url}/\">Open the console</a></p>\n"
        )
        .expect("a string takes everything");
        let status =
            StatusCode::from_u16(self.code().row().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = plain_page::response(status, plain_page::whole_page(heading, &page));
        if matches!(self.reason, Reason::Unavailable | Reason::Busy) {
            let seconds = HeaderValue::from(limits::SIGN_IN_RETRY.as_secs());
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

impl From<ProviderFault> for Denied {
    fn from(fault: ProviderFault) -> Self {
        match fault {
            ProviderFault::Unavailable(why) => {
                tracing::warn!(why, "a sign-in failed, because the provider could not be used");
                Denied::new(Reason::Unavailable, format!("the sign-in provider could not be used: {why}"))
            }
            ProviderFault::Busy => busy(),
            ProviderFault::Refused(code) => match code.as_str() {
                "expired_token" => Denied::new(Reason::Expired, "the time to sign in is over; sign in again"),
                "invalid_grant" => Denied::new(
                    Reason::Replayed,
                    "the provider does not know the code of this sign-in, or it was used before; sign in again",
                ),
                _ => Denied::new(Reason::Refused, format!("the provider refused the sign-in with {code}")),
            },
            ProviderFault::Expired => Denied::new(
                Reason::Expired,
                "the provider's ID token has expired; check the clocks of both servers",
            ),
            ProviderFault::Replayed => {
                Denied::new(Reason::Replayed, "the provider's ID token belongs to another sign-in")
            }
            ProviderFault::Forged(why) => {
                tracing::warn!(why, "an ID token of the sign-in provider was refused");
                Denied::new(Reason::Forged, format!("the provider's ID token was refused: {why}"))
            }
        }
    }
}

impl From<NotKept> for Denied {
    fn from(why: NotKept) -> Self {
        match why {
            NotKept::Known => Denied::new(Reason::Replayed, "this sign-in was already used; sign in again"),
            NotKept::Full => busy(),
        }
    }
}

impl From<Missing> for Denied {
    fn from(why: Missing) -> Self {
        match why {
            Missing::Unknown => {
                Denied::new(Reason::Expired, "this sign-in is unknown or has expired; sign in again")
            }
            Missing::Taken => Denied::new(Reason::Replayed, "this sign-in was already used; sign in again"),
        }
    }
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        Denied::new(Reason::Failed(refusal.code), refusal.detail)
    }
}

fn busy() -> Denied {
    Denied::new(Reason::Busy, "too many sign-ins are in progress; try again in a few seconds")
}
