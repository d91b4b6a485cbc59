//! Maps refusals and failures to responses of this face: one flat match from code to response.
//!
//! The protocol defines statuses only; the keys next to `error` are ours, and additive.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use recount_engine::{Error, MaybeDamage, Redactor, Unacceptable};
use recount_event::Code;
use serde::Serialize;

use crate::limits;
use crate::project::TurnId;
use crate::turn_header;

/// A refused or failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) detail: String,
    pub(crate) retry_after: Option<Duration>,
    /// The running turn that blocks the request.
    pub(crate) turn: Option<TurnId>,
}

impl Refusal {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Refusal { code, detail: detail.into(), retry_after: None, turn: None }
    }

    /// Masks secrets, because many refusals repeat what was sent.
    pub(crate) fn masked(self, redactor: &Redactor) -> Self {
        Refusal { detail: redactor.quotes(&self.detail), ..self }
    }

    pub(crate) fn response(&self, request_id: Option<&str>) -> Response {
        let mut response = written(self.code, &self.detail, self.retry_after, request_id, self.turn);
        if let Some(turn) = self.turn {
            turn_header::name(&mut response, turn);
        }
        response
    }
}

impl MaybeDamage for Refusal {
    fn is_damage(&self) -> bool {
        matches!(self.code, Code::RunDamaged | Code::StoreCorrupt)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Rejected(rejection) => Refusal::new(rejection.code, rejection.message),
            Error::Failed(failure) => {
                Refusal { retry_after: failure.retry_after, ..Refusal::new(failure.code, failure.message) }
            }
        }
    }
}

impl From<Unacceptable> for Refusal {
    fn from(no: Unacceptable) -> Self {
        Refusal::new(no.code, no.message)
    }
}

/// A refusal without the request id, which a layer adds.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(self);
        response
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorBody<'a> {
    error: &'a str,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<String>,
    retryable: bool,
}

/// The status of a code in this face. The protocol requires other statuses than the native face for some codes.
fn status(code: Code) -> u16 {
    match code {
        // Unknown calls and invalid choices are errors of the request.
        Code::CallNotFound
        | Code::CursorAhead
        | Code::OrderRefused
        | Code::ModelUnknown
        | Code::BudgetUnpriced => 400,
        // A deleted item is as missing as one that never existed.
        Code::SessionErased | Code::RunErased | Code::RunNotFound => 404,
        Code::TooManyStreams => 429,
        code => code.row().status,
    }
}

/// A refusal in the form of this face, also for requests that are refused before they reach it. Nothing is masked here.
pub fn refusal_response(
    code: Code,
    message: &str,
    retry_after: Option<Duration>,
    request_id: Option<&str>,
) -> Response {
    written(code, message, retry_after, request_id, None)
}

fn written(
    code: Code,
    message: &str,
    retry_after: Option<Duration>,
    request_id: Option<&str>,
    turn: Option<TurnId>,
) -> Response {
    match code {
        Code::Internal => {
            tracing::error!(request_id, detail = message, "internal error: an assumption was violated")
        }
        Code::RunDamaged | Code::StoreCorrupt => {
            tracing::error!(request_id, detail = message, "the store is damaged")
        }
        _ => {}
    }
    let row = code.row();
    let error_body = ErrorBody {
        error: message,
        code: row.name,
        request_id,
        turn_id: turn.map(|turn| turn.to_string()),
        retryable: row.retryable,
    };
    let body = serde_json::to_vec(&error_body).expect("refusals hold only values that JSON can represent");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status(code)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let is_unauthorized = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if is_unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(wait) = retry_after.or(row.retryable.then_some(limits::TRY_AGAIN)) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    }
    response
}
