//! Maps refusals and failures to problems of the native face: one flat match from code to problem.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use recount_api::problem::{MEDIA_TYPE, Problem, type_of};
use recount_engine::{Error, Redactor};
use recount_event::Code;

use crate::limits;

/// A refused or failed request.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub code: Code,
    pub detail: String,
    pub index: Option<usize>,
    pub event_type: Option<String>,
    pub rule: Option<String>,
    pub retry_after: Option<Duration>,
}

impl Refusal {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Refusal { code, detail: detail.into(), index: None, event_type: None, rule: None, retry_after: None }
    }
}

impl Refusal {
    /// Masks secrets, because many refusals repeat what was sent.
    pub(crate) fn masked(self, redactor: &Redactor) -> Self {
        let masked = |text: String| redactor.quotes(&text);
        Refusal { detail: masked(self.detail), event_type: self.event_type.map(masked), ..self }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Rejected(rejection) => Refusal {
                code: rejection.code,
                detail: rejection.message,
                index: rejection.index,
                event_type: rejection.type_name,
                rule: rejection.rule.map(str::to_owned),
                retry_after: None,
            },
            Error::Failed(failure) => {
                Refusal { retry_after: failure.retry_after, ..Refusal::new(failure.code, failure.message) }
            }
        }
    }
}

/// A refusal as a problem for the client. Details for the operator are logged here, once.
pub(crate) fn problem(refusal: &Refusal, request_id: &str) -> Problem {
    match refusal.code {
        Code::Internal => {
            tracing::error!(request_id, detail = refusal.detail, "internal error: an assumption was violated")
        }
        Code::RunDamaged | Code::StoreCorrupt => {
            tracing::error!(request_id, detail = refusal.detail, "the store is damaged")
        }
        _ => {}
    }
    let row = refusal.code.row();
    Problem {
        problem_type: type_of(row.name),
        title: row.meaning.trim_end_matches('.').to_owned(),
        status: row.status,
        detail: refusal.detail.clone(),
        code: row.name.to_owned(),
        retryable: row.retryable,
        request_id: request_id.to_owned(),
        index: refusal.index,
        event_type: refusal.event_type.clone(),
        rule: refusal.rule.clone(),
    }
}

/// A refusal as a response.
pub(crate) fn problem_response(refusal: &Refusal, request_id: &str) -> Response {
    let problem = problem(refusal, request_id);
    let body = serde_json::to_vec(&problem).expect("problems hold only values that JSON can represent");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() =
        StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if problem.status == 401 {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(wait) = refusal.retry_after.or(problem.retryable.then_some(limits::TRY_AGAIN)) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    }
    response
}
