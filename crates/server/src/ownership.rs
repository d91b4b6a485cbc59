//! Refuses temporarily what a server refuses for good from an old state, after another server may have taken its stores over.
//! See [`doubt_refusals`].

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use recount_engine::{Error, RequestContext};
use recount_face_aep::Refusal;

use crate::limits;

/// Refusals that depend on what is stored.
const OF_STATE: [u16; 4] = [404, 409, 410, 412];

/// A server whose lease has expired may not know yet that another one owns the store, and what that one has acknowledged.
pub(crate) async fn doubt_refusals(request: Request, next: Next) -> Response {
    let engine = request.extensions().get::<RequestContext>().map(|context| context.engine.clone());
    let response = next.run(request).await;
    match engine {
        // After the state was read: it was current if the lease is valid now.
        Some(engine) => settle(response, || engine.write().check_owner()),
        None => response,
    }
}

fn settle(response: Response, check_owner: impl FnOnce() -> Result<(), Error>) -> Response {
    let is_refusal = response.extensions().get::<Refusal>().is_some();
    if !is_refusal || !OF_STATE.contains(&recount_face_aep::status_of(&response).as_u16()) {
        return response;
    }
    match check_owner() {
        Ok(()) => response,
        Err(error) => {
            Refusal { retry_after: Some(limits::STANDBY_RETRY), ..Refusal::from(error) }.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use recount_event::Code;
    use recount_log::{Fault, FaultKind, Retry};

    use super::*;

    fn not_owner() -> Result<(), Error> {
        Err(Fault::new(FaultKind::Fenced, Retry::Maybe, "not the owner").into())
    }

    #[test]
    fn only_refusals_from_an_old_state_become_temporary() {
        for (code, status_of_other) in [
            (Code::ProducerGap, StatusCode::SERVICE_UNAVAILABLE),
            (Code::RunNotFound, StatusCode::SERVICE_UNAVAILABLE),
            (Code::ScopeMissing, StatusCode::FORBIDDEN),
            (Code::StoreFull, StatusCode::INSUFFICIENT_STORAGE),
        ] {
            let refusal = || Refusal::new(code, "no").into_response();
            let kept = settle(refusal(), || Ok(()));
            assert_eq!(kept.extensions().get::<Refusal>().map(|refusal| refusal.code), Some(code));
            let other = settle(refusal(), not_owner);
            assert_eq!(recount_face_aep::status_of(&other), status_of_other, "{code:?}");
        }
        let created = settle(StatusCode::CREATED.into_response(), not_owner);
        assert_eq!(created.status(), StatusCode::CREATED, "what was acknowledged is stored");
    }
}
