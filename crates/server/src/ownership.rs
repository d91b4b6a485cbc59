//! Responds with 503 to what a server would read or refuse from an old state, after another server may have taken its stores
//! over. See [`doubt_old_state`].

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::Method;
use recount_engine::{Error, RequestContext};
use recount_face_aep::Refusal;

use crate::limits;
use crate::spread::is_of_the_main_server;

/// Refusals that depend on what is stored.
const OF_STATE: [u16; 4] = [404, 409, 410, 412];

/// A server whose lease has expired may not know yet that another one owns the store, and what that one has acknowledged.
pub(crate) async fn doubt_old_state(request: Request, next: Next) -> Response {
    let context = request.extensions().get::<RequestContext>();
    // Pages about the server work while the database does not.
    let context = context.filter(|_| !is_of_the_main_server(request.uri().path()));
    let engine = context.map(|context| context.engine.clone());
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let response = next.run(request).await;
    match engine {
        // After the state was read: it was current if the lease is valid now.
        Some(engine) => settle(response, is_read, || engine.write().check_owner()),
        None => response,
    }
}

fn settle(response: Response, is_read: bool, check_owner: impl FnOnce() -> Result<(), Error>) -> Response {
    let is_refusal = response.extensions().get::<Refusal>().is_some();
    let status = recount_face_aep::status_of(&response);
    let is_of_state = if is_refusal { OF_STATE.contains(&status.as_u16()) } else { is_read };
    if !is_of_state {
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
    fn what_is_read_or_refused_from_an_old_state_becomes_temporary() {
        for (code, status_of_other) in [
            (Code::ProducerGap, StatusCode::SERVICE_UNAVAILABLE),
            (Code::RunNotFound, StatusCode::SERVICE_UNAVAILABLE),
            (Code::ScopeMissing, StatusCode::FORBIDDEN),
            (Code::StoreFull, StatusCode::INSUFFICIENT_STORAGE),
        ] {
            let refusal = || Refusal::new(code, "no").into_response();
            let kept = settle(refusal(), false, || Ok(()));
            assert_eq!(kept.extensions().get::<Refusal>().map(|refusal| refusal.code), Some(code));
            let other = settle(refusal(), true, not_owner);
            assert_eq!(recount_face_aep::status_of(&other), status_of_other, "{code:?}");
        }
        let created = settle(StatusCode::CREATED.into_response(), false, not_owner);
        assert_eq!(created.status(), StatusCode::CREATED, "what was acknowledged is stored");
        let read = || StatusCode::OK.into_response();
        assert_eq!(settle(read(), true, || Ok(())).status(), StatusCode::OK);
        let old = settle(read(), true, not_owner);
        assert_eq!(recount_face_aep::status_of(&old), StatusCode::SERVICE_UNAVAILABLE);
    }
}
